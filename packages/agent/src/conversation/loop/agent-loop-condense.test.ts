import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  ConversationFixtures,
  contentText,
  createLatch,
  FakeModel,
  type FakeTurn,
  waitUntil,
} from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const condenser = { kind: 'LLMSummarizingCondenser', max_size: 10, keep_first: 2 }
const overflow: FakeTurn = { failure: 'LLMContextWindowExceedError', detail: 'Too long.' }
const textTurns = (count: number) =>
  Array.from({ length: count }, (_, n): FakeTurn => ({ calls: [['think', { thought: `thought ${n}` }]] }))
const conflict = { name: 'Problem', code: 'conflict' }

test('a view of too many events is condensed before the next step: a summary for the model that is in no log', async () => {
  const player = new FakeModel(textTurns(5), { sides: [{ text: 'It was about thoughts.' }] })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  const [condensation, ...more] = await life.eventsOfKind('Condensation')
  expect(more).toEqual([])
  expect(condensation).toMatchObject({
    source: 'environment',
    summary: 'It was about thoughts.',
    summary_offset: 2,
  })
  expect(condensation?.llm_response_id).toMatch(/^response-/)
  const ids = (await life.events()).map(({ id }) => id)
  expect(condensation?.forgotten_event_ids?.length).toBeGreaterThan(1)
  for (const id of condensation?.forgotten_event_ids ?? []) expect(ids).toContain(id)
  expect(await life.eventsOfKind('CondensationRequest')).toEqual([])
  // The summary stands in the view, under an id that is made of the condensation's.
  expect(await life.eventsOfKind('CondensationSummaryEvent')).toEqual([])
  expect(life.conversation.state.view.events[2]).toMatchObject({
    id: `${condensation?.id}-summary`,
    kind: 'CondensationSummaryEvent',
    summary: 'It was about thoughts.',
  })
  const last = player.requests.at(-1)?.messages ?? []
  expect(contentText(last[2]?.content)).toContain('It was about thoughts.')
  expect(JSON.stringify(last)).not.toContain('thought 0')
  expect(JSON.stringify(last)).toContain('thought 4')
  expect(life.status).toBe('finished')
})

test('a condensation request runs at once when nothing else runs', async () => {
  const player = new FakeModel(textTurns(2), { sides: [{ text: 'Summed up.' }] })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  await life.conversation.condense()
  expect((await life.eventSummary()).slice(-2)).toEqual(['CondensationRequest', 'Condensation'])
  expect((await life.eventsOfKind('CondensationRequest'))[0]?.source).toBe('environment')
  expect(life.status).toBe('finished')
})

test('a request for condensation while it runs is carried out before the next step', async () => {
  const waiting = createLatch()
  const player = new FakeModel(
    [...textTurns(2), { before: () => waiting.opened, calls: [['think', { thought: 'x' }]] }],
    {
      sides: [{ text: 'Summed up.' }],
    },
  )
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.send('go', { run: true })
  await waitUntil(() => player.requests.length === 3)
  await life.conversation.condense()
  expect(await life.eventsOfKind('Condensation')).toEqual([])
  waiting.open()
  await life.conversation.waitUntilIdle()
  expect(await life.eventsOfKind('Condensation')).toHaveLength(1)
  expect(JSON.stringify(player.requests[3]?.messages)).toContain('Summed up.')
})

test('an impossible condensation request is a conflict and changes nothing', async () => {
  const without = await fixtures.create()
  await expect(without.conversation.condense()).rejects.toMatchObject(conflict)
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.send('hello')
  await expect(life.conversation.condense()).rejects.toMatchObject(conflict)
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
  await life.sendAndWait('again')
  expect(life.status).toBe('finished')
})

test('a request for condensation that the model fails is a conflict that says why, without secrets', async () => {
  const player = new FakeModel(textTurns(3), {
    sides: [{ failure: 'LLMRateLimitError', detail: 'Slow down, hunter22.' }],
  })
  const life = await fixtures.create({
    model: player.open,
    agent: { condenser },
    request: { secrets: { PASSWORD: 'hunter22' } },
  })
  await life.sendAndWait('go')
  const refused = expect(life.conversation.condense()).rejects
  await refused.toMatchObject({
    ...conflict,
    message: expect.stringContaining('Slow down, <secret-hidden>.'),
  })
  expect(life.status).toBe('finished')
})

test('a prompt that is too long for the model is condensed and asked again', async () => {
  const player = new FakeModel([...textTurns(3), overflow, { text: 'Now it fits.' }], {
    sides: [{ text: 'Short.' }],
  })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  expect((await life.eventSummary()).slice(-4)).toEqual([
    'CondensationRequest',
    'Condensation',
    'MessageEvent agent',
    'execution_status: finished',
  ])
  expect(JSON.stringify(player.requests.at(-1)?.messages)).toContain('Short.')
})

test('a prompt that would be too long is condensed before it is sent: no question is longer than it may be', async () => {
  const long = Array.from(
    { length: 6 },
    (_, n): FakeTurn => ({
      calls: [['think', { thought: `${n} ${'x'.repeat(2_000)}` }]],
    }),
  )
  const tokens = (chars: number) => Math.ceil(chars / 4)
  const player = new FakeModel(long, {
    sides: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }],
    tokens,
  })
  const life = await fixtures.create({
    model: player.open,
    agent: { condenser: { kind: 'LLMSummarizingCondenser', max_tokens: 2_500 }, system_prompt: 'Work.' },
  })
  await life.sendAndWait('go')
  expect((await life.eventsOfKind('Condensation')).length).toBeGreaterThan(0)
  expect(life.status).toBe('finished')
  expect(player.requests).toHaveLength(7)
  for (const { messages } of player.requests) {
    expect(tokens(JSON.stringify(messages).length)).toBeLessThanOrEqual(2_500)
  }
})

test('a history that the provider finds malformed is condensed and asked again', async () => {
  const malformed: FakeTurn = { failure: 'LLMMalformedConversationHistoryError', detail: 'Out of order.' }
  const player = new FakeModel([...textTurns(3), malformed], { sides: [{ text: 'Short.' }] })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  expect(await life.eventsOfKind('Condensation')).toHaveLength(1)
  expect(life.status).toBe('finished')
})

test('a prompt that is too long with nothing to leave out is an error in the words of the server', async () => {
  const life = await fixtures.create({ model: new FakeModel([overflow]).open })
  await life.sendAndWait('go')
  expect((await life.eventsOfKind('ConversationErrorEvent'))[0]).toMatchObject({
    code: 'LLMContextWindowExceedError',
    detail: expect.stringMatching(/cannot be made shorter.*Too long\.$/s),
  })
})

test('an answer that fills the window is kept, and the next message is answered', async () => {
  const player = new FakeModel([{ text: 'Once upon', answer: { stop: 'length' } }, overflow])
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('a long story')
  expect(JSON.stringify(await life.eventsOfKind('MessageEvent'))).toContain('Once upon')
  expect((await life.eventsOfKind('ConversationErrorEvent'))[0]).toMatchObject({
    code: 'LLMContextWindowExceedError',
    detail: expect.stringContaining('before the answer was complete'),
  })
  await life.sendAndWait('and now?')
  expect(life.status).toBe('finished')
})

test('a limit that a refusal names holds from then on, also without a condenser and after a restart', async () => {
  const refusal = { ...overflow, detail: 'maximum context length is 4096 tokens.' }
  const long = 'word '.repeat(2_500)
  const player = new FakeModel([{ text: 'One.' }, refusal, { text: 'Two.' }])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  await life.sendAndWait(long)
  expect(life.status).toBe('finished')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toEqual([])
  expect(await life.eventSummary()).toContain('learned_window')
  const later = new FakeModel([{ text: 'Three.' }, { text: 'Four.' }])
  await life.reopen({ model: later.open })
  await life.sendAndWait(long)
  const sent = later.requests.map(({ messages }) => JSON.stringify(messages).length)
  expect(Math.max(...sent)).toBeLessThan(long.length)
  expect(life.status).toBe('finished')
})

test('a permanent overflow is an error with advice, and another model may succeed', async () => {
  const player = new FakeModel([...textTurns(3), ...Array.from({ length: 30 }, () => overflow)], {
    sides: Array.from({ length: 30 }, () => ({ text: 'Sum.' })),
  })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  expect(life.status).toBe('error')
  const [error] = await life.eventsOfKind('ConversationErrorEvent')
  expect(error?.code).toBe('LLMContextWindowExceedError')
  expect(error?.detail).toContain('larger window')
  expect(player.requests.length).toBeLessThan(12)
  await life.reopen({ model: new FakeModel([{ text: 'I am larger.' }]).open })
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
})

test('a failed summary is skipped while the view fits and tried again when the view has grown', async () => {
  const player = new FakeModel(textTurns(8), {
    sides: [{ failure: 'LLMTimeoutError' }, { text: 'Summed up.' }],
  })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toEqual([])
  expect(await life.eventsOfKind('Condensation')).toHaveLength(1)
})

test('an interrupt ends a condensation: nothing of it is stored', async () => {
  const player = new FakeModel(textTurns(5), {
    sides: [
      {
        text: 'Too late.',
        before: (_, signal) => new Promise<void>((done) => signal.addEventListener('abort', () => done())),
      },
    ],
  })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.send('go', { run: true })
  await waitUntil(() => player.sideRequests.length === 1)
  await life.conversation.interrupt()
  await life.conversation.waitUntilIdle()
  expect(await life.eventsOfKind('Condensation')).toEqual([])
  expect(life.status).toBe('paused')
})

test('a message that comes while the history is summed up is in the next question', async () => {
  const player = new FakeModel(textTurns(5), {
    sides: [{ text: 'Summed up.', before: () => life.send('by the way') }],
  })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  const next = player.requests[5]?.messages ?? []
  expect(JSON.stringify(next)).toContain('Summed up.')
  expect(JSON.stringify(next)).toContain('by the way')
  expect(life.status).toBe('finished')
})

test('a condenser with its own model uses it for the summary', async () => {
  const asked: string[] = []
  const player = new FakeModel(textTurns(5), { sides: [{ text: 'Summed up.' }] })
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
    agent: { condenser: { ...condenser, llm: { model: 'cheap', usage_id: 'condenser-cheap' } } },
  })
  await life.sendAndWait('go')
  expect(asked.filter((model) => model === 'cheap')).toHaveLength(1)
  expect(Object.keys(life.conversation.stats.toJSON().usage_to_metrics)).toEqual([
    'default',
    'condenser-cheap',
  ])
})
