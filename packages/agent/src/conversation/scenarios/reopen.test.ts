import type { EventDraft } from '@slipway/storage'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  agentErrorEvent,
  observationEvent,
  rejectionEvent,
  stateUpdate,
  statusUpdate,
  userMessage,
} from '../events/event-drafts.ts'
import { ConversationState } from '../state/state.ts'
import { ConversationFixtures, FakeModel, type TestConversation } from '../testing/fixtures.ts'
import type { LogEvent } from '../view/log-event.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const plain = (state: ConversationState) => JSON.parse(JSON.stringify(state.save()))

function call(id: string, n: number, tool_name = 'think'): EventDraft {
  return {
    id,
    kind: 'ActionEvent',
    source: 'agent',
    thought: [],
    thinking_blocks: [],
    action: { kind: 'ThinkAction', thought: id },
    tool_name,
    tool_call_id: `call-${id}`,
    tool_call: { id: `call-${id}`, name: tool_name, arguments: '{}', origin: 'completion' },
    llm_response_id: `r${n}`,
    security_risk: 'UNKNOWN',
  }
}

const pending = (id: string) => ({ id, tool_name: 'think', tool_call_id: `call-${id}` })
const observation = (id: string): EventDraft =>
  observationEvent(
    { ...pending(id), position: 0, llm_response_id: '', action: null, security_risk: 'UNKNOWN' },
    {
      kind: 'ThinkObservation',
      content: [{ type: 'text', text: 'ok', cache_prompt: false }],
      is_error: false,
    },
  )

async function talk(): Promise<TestConversation> {
  const player = new FakeModel([
    { calls: [['think', { thought: 'hm' }]] },
    { text: 'Done.' },
    { text: 'Again.' },
  ])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  return life
}

test('a reopened conversation continues from its snapshot and reads no earlier event', async () => {
  const life = await talk()
  const before = plain(life.conversation.state)
  const { position } = life.conversation.state
  await life.reopen()
  expect(life.readPositions).toEqual([position])
  expect(plain(life.conversation.state)).toEqual(before)
  await life.sendAndWait('and now')
  expect(life.status).toBe('finished')
  expect(await life.eventsOfKind('SystemPromptEvent')).toHaveLength(1)
})

test.each<[what: string, text: (good: string) => string]>([
  ['is no JSON', () => '{"version":1'],
  ['is of another version', (good) => good.replace('"version":2', '"version":1')],
  ['names events that are missing', (good) => good.replace(/"view":\["[^"]+"/, '"view":["no-such-event"')],
  ['is of another shape', () => '{"version":1}'],
])('a snapshot that %s is passed over: the log has it all', async (_, text) => {
  const life = await talk()
  const before = plain(life.conversation.state)
  await life.conversation.close()
  const good = (await fixtures.storage.conversations.getSealedState(life.id))?.snapshot
  await life.open({ store: { snapshot: { position: good?.position ?? 0, text: text(good?.text ?? '') } } })
  expect(life.readPositions[0]).toBe(0)
  expect(plain(life.conversation.state)).toEqual(before)
})

test('a state restored at any position equals the fold of the whole log', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['think', { thought: 'a' }],
        ['no_such_tool', {}],
        ['think', { thought: 'b' }],
      ],
    },
    { failure: 'LLMContextWindowExceedError' },
    { calls: [['think', { thought: 'c' }]] },
    { text: 'Done.' },
    {
      calls: [
        ['think', { thought: 'd' }],
        ['think', { thought: 'e' }],
      ],
    },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent: {
      condenser: { kind: 'LLMSummarizingCondenser', max_size: 10 },
      agent_context: {
        skills: [{ name: 's', content: 'S.', trigger: { type: 'keyword', keywords: ['go'] } }],
      },
    },
  })
  await life.sendAndWait('go')
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: undefined })
  await life.conversation.setAnalyzer({ kind: 'LLMSecurityAnalyzer' })
  await life.sendAndWait('continue')
  expect(life.status).toBe('waiting_for_confirmation')
  await life.send('stop')
  await life.conversation.pause()
  const events = await life.events()
  expect(new Set(events.map(({ kind }) => kind)).size).toBeGreaterThan(8)
  const byId = new Map(events.map((event) => [event.id, event]))
  const get = async (ids: readonly string[]): Promise<(LogEvent | undefined)[]> =>
    ids.map((id) => byId.get(id))
  const whole = life.conversation.state
  for (let at = 0; at <= events.length; at++) {
    const first = new ConversationState()
    for (const [index, event] of events.slice(0, at).entries()) first.apply(event, index + 1)
    const state = await ConversationState.restore(JSON.parse(JSON.stringify(first.save())), at, get)
    expect(plain(state)).toEqual(plain(first))
    for (const [index, event] of events.slice(at).entries()) state.apply(event, at + index + 1)
    expect(plain(state)).toEqual(plain(whole))
    expect(state.view.messages()).toEqual(whole.view.messages())
  }
})

test('after a crash during a run each call without a result gets an error, and the conversation is paused', async () => {
  const life = await fixtures.create({
    events: [
      userMessage('user', 'go'),
      statusUpdate('running'),
      call('a', 0),
      call('b', 0),
      call('c', 0),
      observation('a'),
    ],
    status: 'running',
  })
  expect(life.status).toBe('paused')
  expect((await life.eventSummary()).slice(-3)).toEqual([
    'AgentErrorEvent',
    'AgentErrorEvent',
    'execution_status: paused',
  ])
  const errors = await life.eventsOfKind('AgentErrorEvent')
  expect(errors.map(({ tool_call_id }) => tool_call_id)).toEqual(['call-b', 'call-c'])
  expect(errors[0]?.error).toContain('restart')
  expect((await fixtures.storage.conversations.get([life.id]))[0]?.status).toBe('paused')
  const events = await life.events()
  await life.reopen()
  expect(await life.events()).toEqual(events)
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
})

test('calls with the same id in two turns each get their own result', async () => {
  const sameCallId = (id: string, n: number): EventDraft => ({ ...call(id, n), tool_call_id: 'call-0' })
  const life = await fixtures.create({
    events: [
      statusUpdate('running'),
      sameCallId('a', 0),
      agentErrorEvent({ tool_name: 'think', tool_call_id: 'call-0' }, 'no'),
      sameCallId('b', 1),
      rejectionEvent({ ...pending('b'), tool_call_id: 'call-0' }, 'no'),
      sameCallId('c', 2),
    ],
    status: 'running',
  })
  expect(await life.eventsOfKind('AgentErrorEvent')).toHaveLength(2)
  expect(life.conversation.state.pending.size).toBe(0)
})

test('a batch paused in the middle: what has no result is not done after a restart, as it may have begun', async () => {
  const life = await fixtures.create({
    events: [
      userMessage('user', 'go'),
      statusUpdate('running'),
      call('a', 0),
      call('b', 0),
      observation('a'),
      statusUpdate('paused'),
    ],
    status: 'paused',
  })
  expect(await life.eventsOfKind('AgentErrorEvent')).toMatchObject([{ tool_call_id: 'call-b' }])
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  const results = await life.eventsOfKind('ObservationEvent')
  expect(results.map(({ action_id }) => action_id)).toEqual(['a'])
})

test('changed settings are sealed together with their event and apply after a restart', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open })
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: 60 })
  await life.conversation.setAnalyzer({ kind: 'PatternSecurityAnalyzer' })
  await life.conversation.addSecrets({
    A: { kind: 'StaticSecret', value: 'hunter22', description: undefined },
  })
  await life.conversation.addSecrets({
    B: { kind: 'StaticSecret', value: 'hunter33', description: undefined },
  })
  await life.conversation.switchModel({
    ...life.settings.agent.llm,
    model: 'another',
    api_key: 'sk-another-key',
  })
  const [record] = await fixtures.storage.conversations.get([life.id])
  expect(JSON.parse(record?.request ?? '{}')).toMatchObject({
    confirmation_policy: { kind: 'AlwaysConfirm' },
    security_analyzer: { kind: 'PatternSecurityAnalyzer' },
    secrets: { A: { value: 'hunter22' }, B: { value: 'hunter33' } },
    agent: { llm: { model: 'another' } },
  })
  const conversation = await life.reopen()
  expect(conversation.policy).toMatchObject({ kind: 'AlwaysConfirm', deadline_seconds: 60 })
  expect(conversation.analyzer).toEqual({ kind: 'PatternSecurityAnalyzer' })
  await life.sendAndWait('hunter22 hunter33 sk-another-key')
  expect(JSON.stringify(await life.events())).not.toMatch(/hunter22|hunter33|sk-another-key/)
  expect(JSON.stringify(conversation.stats.toJSON())).toContain('another')
})

test('a model switched during a run is used from the next step on', async () => {
  const asked: string[] = []
  const player = new FakeModel([
    {
      calls: [['think', { thought: 'hm' }]],
      before: () => life.conversation.switchModel({ ...life.settings.agent.llm, model: 'second' }),
    },
  ])
  const life = await fixtures.create({
    model: (llm, options) => {
      const model = player.open(llm, options)
      return {
        ...model,
        generate: (request, signal) => {
          asked.push(llm.model)
          return model.generate(request, signal)
        },
      }
    },
  })
  await life.sendAndWait('go')
  expect(asked).toEqual(['played', 'second'])
})

test('a changed policy applies by the state alone, also without the sealed settings', async () => {
  const life = await fixtures.create({
    events: [stateUpdate('confirmation_policy', { kind: 'AlwaysConfirm' })],
  })
  expect(life.conversation.policy.kind).toBe('AlwaysConfirm')
})

test('the snapshot of a long run is saved while it continues', async () => {
  const saved: number[] = []
  const events = Array.from({ length: 1_200 }, (_, n) => userMessage('user', `message ${n}`))
  const life = await fixtures.create({
    model: new FakeModel([{ calls: [['think', { thought: 'hm' }]] }]).open,
    events,
    store: {
      saveSnapshot: async ({ position }) => {
        saved.push(position)
      },
    },
  })
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(saved.length).toBeGreaterThan(0)
  expect(saved[0]).toBeGreaterThan(1_000)
})
