import { eventKinds, validateEvent } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  ConversationFixtures,
  createLatch,
  FakeModel,
  type TestConversation,
  waitUntil,
} from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const command = (line: string) => [{ matcher: '*', hooks: [{ type: 'command', command: line }] }]
const hookOutput = '{"additionalContext":"Mind the gap.","token":"the-canary-value"}'
const secret = 'the-canary-value'

/** A life with hooks, an error of a call, an interrupt, a failure of the model and a navigation. */
async function runWholeConversation(wire: 'seed' | 'current'): Promise<TestConversation> {
  const asked = createLatch()
  const player = new FakeModel([
    {
      calls: [
        ['think', { thought: 'a' }],
        ['nothing', {}],
        ['think', { thought: 'never' }],
      ],
    },
    { text: 'Half done.' },
    {
      before: async (_, signal) => {
        asked.open()
        await waitUntil(() => signal.aborted)
      },
    },
    { failure: 'LLMRateLimitError', detail: 'Slow down.' },
    { text: 'On another branch.' },
  ])
  const life = await fixtures.create({
    model: player.open,
    wire,
    request: {
      secrets: { CANARY: { kind: 'StaticSecret', value: secret } },
      hook_config: {
        session_start: command('echo begun'),
        user_prompt_submit: command(`echo '${hookOutput}'`),
        pre_tool_use: command(`grep -q never && { echo ${secret} >&2; exit 2; } || exit 0`),
        post_tool_use: command('exit 7'),
        stop: command('true'),
        session_end: command('echo over'),
      },
    },
  })
  await life.sendAndWait('Begin.')
  await life.send('Continue.', { run: true })
  await asked.opened
  await life.conversation.interrupt()
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  const [first] = (await life.eventsOfKind('MessageEvent')).filter(({ source }) => source === 'agent')
  await life.conversation.navigate(first?.id ?? '')
  await life.sendAndWait('Another way.')
  await life.conversation.navigate(null)
  await life.sendAndWait('From the beginning.')
  await life.conversation.close()
  return life
}

test('a conversation of the closed wire has no newer member and no newer kind, whatever happens in it', async () => {
  const events = await (await runWholeConversation('seed')).events()
  for (const event of events) expect(validateEvent(event)).toEqual([])
  const kinds = new Set(events.map(({ kind }) => kind))
  for (const kind of ['PauseEvent', 'ConversationErrorEvent', 'AgentErrorEvent', 'UserRejectObservation'])
    expect(kinds).toContain(kind)
  expect(events.filter((event) => 'key' in event && event.key === 'leaf_event_id')).toHaveLength(2)
  expect(JSON.stringify(events)).not.toMatch(/parent_id|classification|HookExecution|InterruptEvent/)
})

test('the current wire has hook executions, interrupts, error classifications and parent ids', async () => {
  const events: Readonly<Record<string, unknown>>[] = (
    await (await runWholeConversation('current')).events()
  ).map((event) => ({
    ...event,
  }))
  const of = (kind: string) => events.filter((event) => event.kind === kind)
  expect(of('InterruptEvent')).toMatchObject([{ source: 'user' }])
  expect(of('PauseEvent')).toEqual([])
  expect(of('ConversationErrorEvent')).toMatchObject([
    {
      code: 'LLMRateLimitError',
      classification: { kind: 'rate_limit', retryable: true, user_action: 'retry' },
    },
  ])
  for (const { classification } of of('AgentErrorEvent'))
    expect(classification).toEqual({ kind: 'agent_action', retryable: true, user_action: 'retry' })
  expect(new Set(of('HookExecutionEvent').map(({ hook_event_type }) => hook_event_type))).toEqual(
    new Set(['SessionStart', 'UserPromptSubmit', 'PreToolUse', 'PostToolUse', 'Stop', 'SessionEnd']),
  )
  assertParentChain(events)
  // Without what is newer it is what the closed description says.
  for (const { parent_id: _, classification: __, ...event } of events)
    if (eventKinds.some((kind) => kind === event.kind)) expect(validateEvent(event)).toEqual([])
})

/** Each event names the one before it on its branch, the first none, a later root `__root__`. */
function assertParentChain(events: readonly Readonly<Record<string, unknown>>[]): void {
  let leaf: unknown
  for (const event of events) {
    expect(event.parent_id).toBe(leaf)
    leaf = event.key === 'leaf_event_id' ? (event.value ?? '__root__') : event.id
  }
  expect(events.filter((event) => event.parent_id === undefined)).toHaveLength(1)
  expect(events.filter((event) => event.parent_id === '__root__')).toHaveLength(1)
}

test('a hook execution precedes the event that it is about, without secrets', async () => {
  const life = await runWholeConversation('current')
  const events: Readonly<Record<string, unknown>>[] = (await life.events()).map((event) => ({ ...event }))
  const next = (at: number) => events.slice(at + 1).find(({ kind }) => kind !== 'HookExecutionEvent')
  events.forEach((event, at) => {
    if (event.kind !== 'HookExecutionEvent') return
    const { hook_event_type, action_id, message_id } = event
    if (hook_event_type === 'UserPromptSubmit') expect(next(at)?.id).toBe(message_id)
    if (/ToolUse$/.test(String(hook_event_type))) expect(next(at)?.action_id).toBe(action_id)
  })
  const about = (type: string) => events.filter(({ hook_event_type }) => hook_event_type === type)
  expect(about('PostToolUse')).toMatchObject([
    { success: false, blocked: false, exit_code: 7, tool_name: 'think', source: 'hook' },
  ])
  expect(about('PreToolUse')).toMatchObject([
    { success: true, blocked: false, exit_code: 0 },
    {
      success: true,
      blocked: true,
      exit_code: 2,
      reason: '<secret-hidden>',
      stderr: expect.stringMatching('hidden'),
    },
  ])
  expect(about('UserPromptSubmit')[0]).toMatchObject({
    additional_context: 'Mind the gap.',
    hook_input: { event_type: 'UserPromptSubmit', message: 'Begin.', tool_name: null },
  })
  expect(JSON.stringify(events)).not.toContain(secret)
})

test('a conversation continues with its wire after it was opened again', async () => {
  const life = await fixtures.create({
    wire: 'current',
    model: new FakeModel([{ text: 'One.' }, { text: 'Two.' }]).open,
  })
  await life.sendAndWait('1')
  await life.reopen()
  await life.sendAndWait('2')
  assertOneFormat((await life.events()).map((event) => ({ ...event })))
})

function assertOneFormat(events: readonly Readonly<Record<string, unknown>>[]): void {
  events.forEach((event, at) => void expect(event.parent_id).toBe(events[at - 1]?.id))
}

test('newer kinds are found by their kind and their source', async () => {
  const life = await runWholeConversation('current')
  const count = (filter: { readonly kind?: string; readonly source?: string }) =>
    fixtures.storage.log.count(life.id, {
      kind: undefined,
      source: undefined,
      body: undefined,
      timestamp__gte: undefined,
      timestamp__lt: undefined,
      ...filter,
    })
  const all = (await life.events()).filter(({ kind }) => String(kind) === 'HookExecutionEvent').length
  expect(all).toBeGreaterThan(5)
  expect(await count({ kind: 'HookExecutionEvent' })).toBe(all)
  expect(await count({ source: 'hook' })).toBe(all)
  expect(await count({ kind: 'InterruptEvent' })).toBe(1)
  expect(await count({ kind: 'NoSuchEvent' })).toBe(0)
  expect(await count({ source: 'nobody' })).toBe(0)
})
