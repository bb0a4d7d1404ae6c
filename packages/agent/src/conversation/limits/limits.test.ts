import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, contentText, FakeModel, type FakeTurn } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

/** Each reply of the fake model costs $0.25 and has 15 tokens. */
const thoughts = (count: number): FakeTurn[] =>
  Array.from({ length: count }, (_, n) => ({ calls: [['think', { thought: `${n}` }]] }))

test.each([
  ['cost', 1, 'MaxCostReached', 4],
  ['tokens', 50, 'MaxTokensReached', 4],
  ['steps', 3, 'MaxStepsReached', 3],
] as const)(
  'a run ends at its limit of %s, at most one reply above it',
  async (limit, max, code, replies) => {
    const player = new FakeModel(thoughts(20))
    const life = await fixtures.create({ model: player.open, request: { limits: { run: { [limit]: max } } } })
    await life.sendAndWait('go')
    expect(player.requests).toHaveLength(replies)
    expect(life.status).toBe('error')
    const [error] = await life.eventsOfKind('ConversationErrorEvent')
    expect(error).toMatchObject({ code, source: 'environment' })
    // Every call has its result, so that the next run can continue.
    expect((await life.eventSummary()).slice(-3)).toEqual([
      'ObservationEvent',
      'execution_status: error',
      'ConversationErrorEvent',
    ])
    await life.conversation.run()
    await life.conversation.waitUntilIdle()
    expect(player.requests.length, 'the next run counts from zero').toBe(2 * replies)
  },
)

test('the model and the readers are told once, at 80 percent', async () => {
  const player = new FakeModel(thoughts(20))
  const life = await fixtures.create({ model: player.open, request: { limits: { run: { cost: 2.5 } } } })
  await life.sendAndWait('go')
  expect(player.requests).toHaveLength(10)
  const told = player.requests.map(({ messages }) =>
    messages.filter(({ content }) =>
      contentText(content).includes('$2 of the cost limit of this run ($2.5)'),
    ),
  )
  expect(told.map(({ length }) => length)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  expect(updates.filter(({ key }) => key === 'limit_warning').map(({ value }) => value)).toEqual([
    { scope: 'run', limit: 'cost', used: 2, max: 2.5 },
  ])
})

test('a limit of the conversation holds for all of its runs until it is raised', async () => {
  const player = new FakeModel(thoughts(20))
  const limits = { conversation: { cost: 0.5 } }
  const life = await fixtures.create({ model: player.open, request: { limits } })
  await life.sendAndWait('go')
  expect(player.requests).toHaveLength(2)
  await life.sendAndWait('again')
  expect(player.requests).toHaveLength(2)
  expect(life.status).toBe('error')
  await life.conversation.setLimits({ conversation: undefined, run: undefined })
  expect(life.conversation.settings.limits?.conversation?.cost).toBe(0.5)
  const raised = { cost: 1, tokens: undefined, steps: undefined, seconds: undefined }
  await life.conversation.setLimits({ conversation: raised, run: undefined })
  await life.reopen()
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(player.requests).toHaveLength(4)
})

test('a limit of time ends a model that does not answer, and a tool that does not end', async () => {
  const hanging: FakeTurn = { before: (_, signal) => waitForAbort(signal), text: 'Late.' }
  const sleeping: FakeTurn = { calls: [['terminal', { command: 'sleep 600', timeout: 600 }]] }
  for (const turn of [hanging, sleeping]) {
    const player = new FakeModel([turn])
    const life = await fixtures.create({
      model: player.open,
      agent: { tools: [{ name: 'terminal' }] },
      request: { limits: { run: { seconds: 1 } } },
    })
    await life.sendAndWait('go')
    expect(player.requests).toHaveLength(1)
    const [error] = await life.eventsOfKind('ConversationErrorEvent')
    expect(error).toMatchObject({ code: 'MaxTimeReached' })
    expect(life.conversation.state.openActions()).toEqual([])
    await life.sendAndWait('continue')
    expect(life.status).toBe('finished')
  }
}, 60_000)

test('what a run has used survives restarts at any step, and it does not begin again', async () => {
  for (let stop = 1; stop <= 9; stop++) {
    const player = new FakeModel(
      thoughts(20).map((turn, index) => ({
        ...turn,
        before: async () => {
          if (index + 1 === stop) void life.conversation.pause()
        },
      })),
    )
    const life = await fixtures.create({ model: player.open, request: { limits: { run: { cost: 2.5 } } } })
    await life.sendAndWait('go')
    expect(life.status).toBe('paused')
    await life.reopen()
    expect(life.conversation.stats.used('run')).toMatchObject({
      cost: stop / 4,
      tokens: stop * 15,
      steps: stop,
    })
    await life.conversation.run()
    await life.conversation.waitUntilIdle()
    expect(player.requests).toHaveLength(10)
    const warnings = (await life.eventSummary()).filter((line) => line === 'limit_warning')
    expect(warnings).toHaveLength(1)
  }
}, 60_000)

test('without limits the statistics and the log are as before', async () => {
  const life = await fixtures.create({ model: new FakeModel(thoughts(3)).open })
  await life.sendAndWait('go')
  expect(Object.keys(life.conversation.stats.toJSON())).toEqual(['usage_to_metrics'])
  expect((await life.eventSummary()).filter((line) => line.startsWith('limit'))).toEqual([])
})

async function waitForAbort(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
