import { afterAll, beforeAll, expect, test } from 'vitest'
import { gate, Player, Temporary, type Turn, textOf, until } from '../testing/fixtures.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

const condenser = { kind: 'LLMSummarizingCondenser', max_size: 10, keep_first: 2 }
const overflow: Turn = { failure: 'LLMContextWindowExceedError', detail: 'Too long.' }
const thoughts = (count: number) =>
  Array.from({ length: count }, (_, n): Turn => ({ calls: [['think', { thought: `thought ${n}` }]] }))
const conflict = { name: 'Problem', code: 'conflict' }

test('a view of too many events is condensed before the next step: a summary for the model that is in no log', async () => {
  const player = new Player(thoughts(5), { sides: [{ text: 'It was about thoughts.' }] })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.say('go')
  const [condensation, ...more] = await life.all('Condensation')
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
  expect(await life.all('CondensationRequest')).toEqual([])
  // The summary stands in the view, under an id that is made of the condensation's.
  expect(await life.all('CondensationSummaryEvent')).toEqual([])
  expect(life.conversation.state.view.events[2]).toMatchObject({
    id: `${condensation?.id}-summary`,
    kind: 'CondensationSummaryEvent',
    summary: 'It was about thoughts.',
  })
  const last = player.asked.at(-1)?.messages ?? []
  expect(textOf(last[2]?.content)).toContain('It was about thoughts.')
  expect(JSON.stringify(last)).not.toContain('thought 0')
  expect(JSON.stringify(last)).toContain('thought 4')
  expect(life.status).toBe('finished')
})

test('a request for condensation is carried out at once when nothing runs', async () => {
  const player = new Player(thoughts(2), { sides: [{ text: 'Summed up.' }] })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.say('go')
  await life.conversation.condense()
  expect((await life.story()).slice(-2)).toEqual(['CondensationRequest', 'Condensation'])
  expect((await life.all('CondensationRequest'))[0]?.source).toBe('environment')
  expect(life.status).toBe('finished')
})

test('a request for condensation while it runs is carried out before the next step', async () => {
  const waiting = gate()
  const player = new Player(
    [...thoughts(2), { before: () => waiting.opened, calls: [['think', { thought: 'x' }]] }],
    {
      sides: [{ text: 'Summed up.' }],
    },
  )
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.send('go', { run: true })
  await until(() => player.asked.length === 3)
  await life.conversation.condense()
  expect(await life.all('Condensation')).toEqual([])
  waiting.open()
  await life.conversation.settled()
  expect(await life.all('Condensation')).toHaveLength(1)
  expect(JSON.stringify(player.asked[3]?.messages)).toContain('Summed up.')
})

test('a request for condensation that nobody can carry out is a conflict and harms nothing', async () => {
  const without = await place.begin()
  await expect(without.conversation.condense()).rejects.toMatchObject(conflict)
  const player = new Player()
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.send('hello')
  await expect(life.conversation.condense()).rejects.toMatchObject(conflict)
  await life.conversation.run()
  await life.conversation.settled()
  expect(life.status).toBe('finished')
  await life.say('again')
  expect(life.status).toBe('finished')
})

test('a request for condensation that the model fails is a conflict that says why, without secrets', async () => {
  const player = new Player(thoughts(3), {
    sides: [{ failure: 'LLMRateLimitError', detail: 'Slow down, hunter22.' }],
  })
  const life = await place.begin({
    model: player.open,
    agent: { condenser },
    request: { secrets: { PASSWORD: 'hunter22' } },
  })
  await life.say('go')
  const refused = expect(life.conversation.condense()).rejects
  await refused.toMatchObject({
    ...conflict,
    message: expect.stringContaining('Slow down, <secret-hidden>.'),
  })
  expect(life.status).toBe('finished')
})

test('a prompt that is too long for the model is condensed and asked again', async () => {
  const player = new Player([...thoughts(3), overflow, { text: 'Now it fits.' }], {
    sides: [{ text: 'Short.' }],
  })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.say('go')
  expect((await life.story()).slice(-4)).toEqual([
    'CondensationRequest',
    'Condensation',
    'MessageEvent agent',
    'execution_status: finished',
  ])
  expect(JSON.stringify(player.asked.at(-1)?.messages)).toContain('Short.')
})

test('a prompt that would be too long is condensed before it is sent: no question is longer than it may be', async () => {
  const long = Array.from(
    { length: 6 },
    (_, n): Turn => ({
      calls: [['think', { thought: `${n} ${'x'.repeat(2_000)}` }]],
    }),
  )
  const tokens = (chars: number) => Math.ceil(chars / 4)
  const player = new Player(long, { sides: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }], tokens })
  const life = await place.begin({
    model: player.open,
    agent: { condenser: { kind: 'LLMSummarizingCondenser', max_tokens: 2_500 }, system_prompt: 'Work.' },
  })
  await life.say('go')
  expect((await life.all('Condensation')).length).toBeGreaterThan(0)
  expect(life.status).toBe('finished')
  expect(player.asked).toHaveLength(7)
  for (const { messages } of player.asked) {
    expect(tokens(JSON.stringify(messages).length)).toBeLessThanOrEqual(2_500)
  }
})

test('a history that the provider finds malformed is condensed and asked again', async () => {
  const malformed: Turn = { failure: 'LLMMalformedConversationHistoryError', detail: 'Out of order.' }
  const player = new Player([...thoughts(3), malformed], { sides: [{ text: 'Short.' }] })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.say('go')
  expect(await life.all('Condensation')).toHaveLength(1)
  expect(life.status).toBe('finished')
})

test('without a condenser a prompt that is too long is an error', async () => {
  const life = await place.begin({ model: new Player([overflow]).open })
  await life.say('go')
  expect(await life.all('CondensationRequest')).toEqual([])
  expect((await life.all('ConversationErrorEvent'))[0]).toMatchObject({
    code: 'LLMContextWindowExceedError',
    detail: 'Too long.',
  })
})

test('an overflow that never ends is an error that says what can be done, and another model is another chance', async () => {
  const player = new Player([...thoughts(3), ...Array.from({ length: 30 }, () => overflow)], {
    sides: Array.from({ length: 30 }, () => ({ text: 'Sum.' })),
  })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.say('go')
  expect(life.status).toBe('error')
  const [error] = await life.all('ConversationErrorEvent')
  expect(error?.code).toBe('LLMContextWindowExceedError')
  expect(error?.detail).toContain('larger window')
  expect(player.asked.length).toBeLessThan(12)
  await life.reopen({ model: new Player([{ text: 'I am larger.' }]).open })
  await life.conversation.run()
  await life.conversation.settled()
  expect(life.status).toBe('finished')
})

test('a summary that fails is passed over while there is room, and tried again when there is more', async () => {
  const player = new Player(thoughts(8), {
    sides: [{ failure: 'LLMTimeoutError' }, { text: 'Summed up.' }],
  })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.say('go')
  expect(life.status).toBe('finished')
  expect(await life.all('ConversationErrorEvent')).toEqual([])
  expect(await life.all('Condensation')).toHaveLength(1)
})

test('an interrupt ends a condensation: nothing of it is stored', async () => {
  const player = new Player(thoughts(5), {
    sides: [
      {
        text: 'Too late.',
        before: (_, signal) => new Promise<void>((done) => signal.addEventListener('abort', () => done())),
      },
    ],
  })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.send('go', { run: true })
  await until(() => player.aside.length === 1)
  await life.conversation.interrupt()
  await life.conversation.settled()
  expect(await life.all('Condensation')).toEqual([])
  expect(life.status).toBe('paused')
})

test('a message that comes while the history is summed up is in the next question', async () => {
  const player = new Player(thoughts(5), {
    sides: [{ text: 'Summed up.', before: () => life.send('by the way') }],
  })
  const life = await place.begin({ model: player.open, agent: { condenser } })
  await life.say('go')
  const next = player.asked[5]?.messages ?? []
  expect(JSON.stringify(next)).toContain('Summed up.')
  expect(JSON.stringify(next)).toContain('by the way')
  expect(life.status).toBe('finished')
})

test('a condenser of its own model is asked for the summary', async () => {
  const asked: string[] = []
  const player = new Player(thoughts(5), { sides: [{ text: 'Summed up.' }] })
  const life = await place.begin({
    model: (llm, options) => {
      const model = player.open(llm, options)
      return {
        ...model,
        respond: (request, signal) => {
          asked.push(llm.model)
          return model.respond(request, signal)
        },
      }
    },
    agent: { condenser: { ...condenser, llm: { model: 'cheap', usage_id: 'condenser-cheap' } } },
  })
  await life.say('go')
  expect(asked.filter((model) => model === 'cheap')).toHaveLength(1)
  expect(Object.keys(life.conversation.stats.toJSON().usage_to_metrics)).toEqual([
    'default',
    'condenser-cheap',
  ])
})
