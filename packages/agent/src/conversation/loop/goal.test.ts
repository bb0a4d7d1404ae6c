import type { GoalState } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  ConversationFixtures,
  contentText,
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

const verdict = (complete: boolean, missing = '', score = complete ? 1 : 0.5) => ({
  text: `Here it is:\n${JSON.stringify({ score, complete, missing })}`,
})

/** The values of the goal's facts, in order. */
async function goalHistory(life: TestConversation): Promise<GoalState[]> {
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  return updates.filter(({ key }) => key === 'goal').map(({ value }) => value as GoalState)
}

async function startAndWait(life: TestConversation, objective = 'Build it.', rounds = 10): Promise<void> {
  await life.conversation.startGoal(objective, rounds)
  await life.conversation.waitUntilIdle()
}

test('a goal is pursued until the judge finds it reached: the agent gets what is missing, and the status stays running', async () => {
  const player = new FakeModel([{ text: 'Done.' }, { calls: [['finish', { message: 'Now.' }]] }], {
    sides: [verdict(false, 'The tests.'), verdict(true)],
  })
  const life = await fixtures.create({ model: player.open })
  await startAndWait(life)
  const common = { max_iterations: 10, objective: 'Build it.' }
  const missing = { score: 0.5, complete: false, missing: 'The tests.' }
  expect(await goalHistory(life)).toEqual([
    { active: true, status: 'running', iteration: 0, ...common, verdict: null },
    { active: true, status: 'running', iteration: 1, ...common, verdict: missing },
    {
      active: false,
      status: 'complete',
      iteration: 2,
      ...common,
      verdict: { score: 1, complete: true, missing: '' },
    },
  ])
  expect(life.status).toBe('finished')
  expect((await life.eventSummary()).filter((line) => line.startsWith('execution_status'))).toEqual([
    'execution_status: running',
    'execution_status: finished',
  ])
  const messageEvents = (await life.eventsOfKind('MessageEvent')).filter(({ source }) => source === 'user')
  expect(contentText(messageEvents[1]?.llm_message.content)).toContain('The tests.')
  expect(Object.keys(life.conversation.stats.toJSON().usage_to_metrics)).toContain('goal-judge')
  expect(contentText(player.sideRequests[0]?.messages.at(-1)?.content)).toContain('Build it.')
})

test('a goal that is not reached in its rounds is capped', async () => {
  const life = await fixtures.create({
    model: new FakeModel([], { sides: [verdict(false), verdict(false)] }).open,
  })
  await startAndWait(life, 'Too much.', 2)
  expect((await goalHistory(life)).at(-1)).toMatchObject({ active: false, status: 'capped', iteration: 2 })
  expect(life.status).toBe('finished')
  await expect(life.conversation.resumeGoal()).rejects.toMatchObject({ code: 'bad_request' })
})

test('an unparsable verdict counts as not reached', async () => {
  const sides = [
    'Yes!',
    '{"complete":"true"}',
    '[1]',
    '{"complete":false,"missing":["a","b"],"score":7}',
  ].map((text) => ({ text }))
  const life = await fixtures.create({ model: new FakeModel([], { sides }).open })
  await startAndWait(life, 'x', 4)
  const verdicts = (await goalHistory(life)).slice(1).map((goal) => goal.verdict)
  const none = { score: 0, complete: false, missing: '' }
  expect(verdicts).toEqual([none, none, none, { score: 1, complete: false, missing: 'a\nb' }])
})

test('a message of the user ends the pursuit; the run answers it', async () => {
  const [requested, go] = [createLatch(), createLatch()]
  const before = async () => {
    requested.open()
    await go.opened
  }
  const player = new FakeModel([{ before, text: 'One.' }, { text: 'Two.' }])
  const life = await fixtures.create({ model: player.open })
  await life.conversation.startGoal('Build it.', 10)
  await requested.opened
  await expect(life.conversation.startGoal('Another.', 1)).rejects.toMatchObject({ code: 'conflict' })
  await expect(life.conversation.resumeGoal()).rejects.toMatchObject({ code: 'conflict' })
  await life.send('Stop, do this instead.')
  go.open()
  await life.conversation.waitUntilIdle()
  expect((await goalHistory(life)).at(-1)).toMatchObject({ active: false, status: 'interrupted' })
  expect(player.sideRequests).toHaveLength(0)
  expect(life.status).toBe('finished')
})

test('stopping a goal lets its round end, and the goal can be resumed', async () => {
  const [requested, go] = [createLatch(), createLatch()]
  const before = async () => {
    requested.open()
    await go.opened
  }
  const player = new FakeModel([{ before, calls: [['think', { thought: 'hm' }]] }, { text: 'There.' }], {
    sides: [verdict(true)],
  })
  const life = await fixtures.create({ model: player.open })
  await life.conversation.stopGoal()
  await expect(life.conversation.resumeGoal()).rejects.toMatchObject({ code: 'bad_request' })
  await life.conversation.startGoal('Build it.', 3)
  await requested.opened
  await life.conversation.stopGoal()
  expect(life.status).toBe('running')
  go.open()
  await life.conversation.waitUntilIdle()
  await life.conversation.resumeGoal()
  await life.conversation.waitUntilIdle()
  expect((await goalHistory(life)).map(({ status }) => status)).toEqual([
    'running',
    'interrupted',
    'running',
    'complete',
  ])
  expect(life.status).toBe('finished')
})

test.each([
  ['a model that fails', { failure: 'LLMServiceUnavailableError' as const }, 'error'],
  ['an agent that goes in circles', { calls: [['think', { thought: 'again' }]] as const }, 'stuck'],
])('%s interrupts the goal', async (_, turn, status) => {
  const life = await fixtures.create({ model: new FakeModel(Array.from({ length: 9 }, () => turn)).open })
  await startAndWait(life)
  expect(life.status).toBe(status)
  expect((await goalHistory(life)).at(-1)).toMatchObject({ active: false, status: 'interrupted' })
})

test('a judge that cannot be asked interrupts the goal, and the run is over', async () => {
  const life = await fixtures.create({
    model: new FakeModel([], { sides: [{ failure: 'LLMTimeoutError' }] }).open,
  })
  await startAndWait(life)
  expect(life.status).toBe('finished')
  expect((await goalHistory(life)).at(-1)).toMatchObject({ active: false, status: 'interrupted' })
})

test('a goal waits for a confirmation and ends with a rejection', async () => {
  const call = { calls: [['list_directory', {}]] as const }
  const life = await fixtures.create({
    model: new FakeModel([call, call]).open,
    agent: { tools: [{ name: 'list_directory' }] },
    request: { confirmation_policy: { kind: 'AlwaysConfirm' } },
  })
  await startAndWait(life)
  expect(life.status).toBe('waiting_for_confirmation')
  expect(life.conversation.isBusy).toBe(true)
  await life.conversation.resolveConfirmation({ accept: true, reason: '' })
  await life.conversation.waitUntilIdle()
  expect((await goalHistory(life)).at(-1)).toMatchObject({ active: true })
  await life.conversation.resolveConfirmation({ accept: false, reason: 'no' })
  expect((await goalHistory(life)).at(-1)).toMatchObject({ active: false, status: 'interrupted' })
})

test('after the death of its process a goal is interrupted, and can be resumed', async () => {
  const requested = createLatch()
  const hang = {
    before: async (_: unknown, signal: AbortSignal) => {
      requested.open()
      await waitUntil(() => signal.aborted)
    },
  }
  const life = await fixtures.create({ model: new FakeModel([hang]).open })
  await life.conversation.startGoal('Build it.', 3)
  await requested.opened
  // As another process finds it: nobody has closed it.
  const late = life.conversation
  await life.open({ model: new FakeModel([{ text: 'Built.' }], { sides: [verdict(true)] }).open })
  expect(life.status).toBe('paused')
  expect((await goalHistory(life)).at(-1)).toMatchObject({
    active: false,
    status: 'interrupted',
    iteration: 0,
  })
  await life.conversation.resumeGoal()
  await life.conversation.waitUntilIdle()
  expect((await goalHistory(life)).at(-1)).toMatchObject({ active: false, status: 'complete' })
  await late.close({ isDeleted: true })
})

test('an objective is masked like any message', async () => {
  const life = await fixtures.create({
    model: new FakeModel([], { sides: [verdict(false, 'running and the-canary-value'), verdict(true)] }).open,
    request: {
      secrets: {
        A: { kind: 'StaticSecret', value: 'the-canary-value' },
        B: { kind: 'StaticSecret', value: 'running' },
      },
    },
  })
  await startAndWait(life, 'Use the-canary-value.')
  expect(JSON.stringify(await life.events())).not.toContain('the-canary-value')
  expect((await goalHistory(life)).map(({ status }) => status)).toEqual(['running', 'running', 'complete'])
})
