import { type Condenser, condenser, llm, type Message } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Model, ModelRequest, ModelResult } from '../../llm/model.ts'
import {
  actionEvent,
  arbitraryLog,
  arbitraryOwnLog,
  messageEvent,
  observationEvent,
} from '../testing/arbitraries.ts'
import { isUserMessage, isViewEvent } from '../view/log-event.ts'
import { type LogEvent, View } from '../view/view.ts'
import { groupUnits } from '../view/view-units.ts'
import { type CondenseOptions, condense, condenseNeed, findSummarizingCondenser } from './condense.ts'
import { buildSummaryRequest, fairShare } from './transcript.ts'

type Summarizing = NonNullable<ReturnType<typeof findSummarizingCondenser>>

function settings(members: Partial<Summarizing> = {}): Summarizing {
  const found = findSummarizingCondenser(condenser.parse({ kind: 'LLMSummarizingCondenser', ...members }))
  if (found === undefined) throw new Error('no summarizing condenser')
  return found
}

function count(messages: readonly Message[]): number {
  return messages.reduce(
    (sum, { content, tool_calls }) => sum + 4 + Math.ceil(JSON.stringify([content, tool_calls]).length / 4),
    0,
  )
}

interface FakeModel extends Model {
  readonly requests: ModelRequest[]
}

function textReply(text: string, stop: 'stop' | 'refusal' = 'stop'): ModelResult {
  return {
    kind: 'reply',
    responseId: 'resp_1',
    message: {
      role: 'assistant',
      content: [{ type: 'text', text, cache_prompt: false }],
      thinking_blocks: [],
    },
    usage: {
      model: 'fake',
      prompt_tokens: 1,
      completion_tokens: 1,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      reasoning_tokens: 0,
      context_window: 0,
      per_turn_token: 2,
      response_id: 'resp_1',
    },
    cost: 0,
    latencyMs: 1,
    model: 'fake',
    usageId: 'condenser',
    stop,
  }
}

/** A model that answers what `respond` says; by default a short summary. */
function createFakeModel(
  options: {
    readonly window?: number
    readonly respond?: (request: ModelRequest, turn: number) => ModelResult
  } = {},
): FakeModel {
  const { window, respond = (_, turn) => textReply(`Summary ${turn}.`) } = options
  const requests: ModelRequest[] = []
  return {
    requests,
    llm: llm.parse({ model: 'fake' }),
    contextWindow: window,
    countTokens: count,
    async generate(request, signal) {
      if (signal.aborted) return { kind: 'aborted' }
      requests.push(request)
      return respond(request, requests.length)
    },
  }
}

const overflow: ModelResult = { kind: 'failure', code: 'LLMContextWindowExceedError', detail: 'too long' }

function viewOf(log: readonly LogEvent[]): View {
  const view = new View()
  for (const event of log) view.add(event)
  return view
}

function condenseAgain(options: CondenseOptions) {
  return condense(options, new AbortController().signal)
}

/** A system prompt, a task, and that many steps with results of that many characters. */
function work(steps: number, chars = 20): LogEvent[] {
  const system: LogEvent = {
    id: 's',
    kind: 'SystemPromptEvent',
    system_prompt: { text: 'You help.' },
    tools: [],
  }
  const done = Array.from({ length: steps }, (_, n) => [
    actionEvent({ id: `a${n}`, thought: `Step ${n}.` }),
    observationEvent({ id: `o${n}`, action_id: `a${n}`, text: `${n} `.padEnd(chars, 'x') }),
  ])
  return [system, messageEvent('u', 'user', 'Count the files.'), ...done.flat()]
}

test('the first summarizing condenser of a pipeline is used', () => {
  const none: Condenser = { kind: 'NoOpCondenser' }
  const [first, second] = [settings({ max_size: 10 }), settings({ max_size: 20 })]
  expect(findSummarizingCondenser(undefined)).toBeUndefined()
  expect(findSummarizingCondenser(none)).toBeUndefined()
  expect(findSummarizingCondenser(first)).toBe(first)
  expect(findSummarizingCondenser({ kind: 'PipelineCondenser', condensers: [none, second, first] })).toBe(
    second,
  )
  expect(findSummarizingCondenser({ kind: 'PipelineCondenser', condensers: [none] })).toBeUndefined()
})

test('too many events are soft; too many tokens and a request are hard', () => {
  const view = viewOf(work(5))
  const tokens = count(view.messages())
  const ask = (members: Partial<Summarizing>, window?: number, isRequested = false) =>
    condenseNeed({
      view,
      condenser: settings({ keep_first: 1, ...members }),
      model: createFakeModel(window === undefined ? {} : { window }),
      isRequested,
    })
  expect(ask({})).toBe('no')
  expect(ask({}, undefined, true)).toBe('hard')
  expect(ask({ max_size: 12 })).toBe('no')
  expect(ask({ max_size: 11 })).toBe('soft')
  expect(ask({ max_tokens: tokens })).toBe('no')
  expect(ask({ max_size: 11, max_tokens: tokens - 1 })).toBe('hard')
  expect(ask({}, tokens)).toBe('hard')
  expect(ask({}, Math.ceil(tokens / 0.9))).toBe('no')
  expect(ask({ max_tokens: tokens }, Math.ceil(tokens / 0.9))).toBe('no')
  expect(ask({ max_tokens: 10 * tokens }, tokens)).toBe('hard')
})

test('a middle block is forgotten: the first events and the end stay, the summary between them', async () => {
  const view = viewOf(work(20))
  const model = createFakeModel()
  const result = await condenseAgain({ view, condenser: settings({ max_size: 40 }), model, isHard: false })
  if (result.kind !== 'condensation') throw new Error(result.kind)
  expect(result.draft).toMatchObject({
    kind: 'Condensation',
    source: 'environment',
    summary: 'Summary 1.',
    summary_offset: 2,
    llm_response_id: 'resp_1',
  })
  expect(result.replies).toHaveLength(1)
  view.add({ ...result.draft, id: 'c' } as unknown as LogEvent)
  // Half of 40, less one because a call and its result are not parted.
  expect(view.save()).toEqual([
    's',
    'u',
    'c-summary',
    ...Array.from({ length: 8 }, (_, n) => [`a${n + 12}`, `o${n + 12}`]).flat(),
  ])
  expect(model.requests[0]?.tools).toEqual([])
})

test('the request has the summary so far and what is forgotten, and says which message stays', async () => {
  const view = viewOf(work(10))
  view.add({
    id: 'c',
    kind: 'Condensation',
    forgotten_event_ids: [],
    summary: 'All was well.',
    summary_offset: 2,
    llm_response_id: 'r',
  })
  view.add(messageEvent('v', 'user', 'Now count the folders.'))
  for (const event of work(10).slice(2)) view.add({ ...event, id: `${event.id}-2` } as LogEvent)
  const model = createFakeModel()
  const result = await condenseAgain({ view, condenser: settings({ max_size: 20 }), model, isHard: false })
  if (result.kind !== 'condensation') throw new Error(result.kind)
  expect(result.draft.forgotten_event_ids).toContain('c-summary')
  expect(result.draft.forgotten_event_ids).not.toContain('v')
  const text = JSON.stringify(model.requests[0]?.messages)
  expect(text).toContain('All was well.')
  expect(text).toContain('Step 3.')
  expect(text.match(/Now count the folders/g)).toHaveLength(1)
  expect(text.indexOf('Now count the folders')).toBeGreaterThan(text.indexOf('Step 3.'))
})

test('a view of any log shrinks until it cannot, with its pairs whole and the latest message in it', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(arbitraryOwnLog, arbitraryLog),
      fc.record({ max_size: fc.integer({ min: 8, max: 60 }), keep_first: fc.integer({ min: 0, max: 2 }) }),
      fc.record({
        isHard: fc.boolean(),
        window: fc.option(fc.integer({ min: 2_000, max: 20_000 }), { nil: undefined }),
      }),
      async (log, sizes, { isHard, window }) => {
        const view = viewOf(log)
        const model = createFakeModel(window === undefined ? {} : { window })
        let rounds = 0
        for (;;) {
          const before = [...view.events]
          const result = await condenseAgain({ view, condenser: settings(sizes), model, isHard })
          if (result.kind !== 'condensation') {
            expect(result.kind).toBe('failure')
            break
          }
          const forgotten = result.draft.forgotten_event_ids as string[]
          for (const id of forgotten) expect(view.has(id)).toBe(true)
          view.add({ ...result.draft, id: `z${rounds++}` } as unknown as LogEvent)
          expect(view.size).toBe(before.length - forgotten.length + 1)
          expect(view.size).toBeLessThan(before.length + (isHard ? 1 : 0))
          expect(countFacts(view)).toBeLessThan(
            before.filter((event) => event.kind !== 'CondensationSummaryEvent').length,
          )
          expectWhole(before, view)
        }
        expect(rounds).toBeLessThanOrEqual(log.length)
      },
    ),
  )
})

function countFacts(view: View): number {
  return view.events.filter(({ kind }) => kind !== 'CondensationSummaryEvent').length
}

/** Units are there or gone as a whole; the latest user message and the system prompt are there. */
function expectWhole(before: View['events'], view: View): void {
  const latest = before.findLast(isUserMessage)
  if (latest !== undefined) expect(view.has(latest.id)).toBe(true)
  for (const { id, kind } of before) if (kind === 'SystemPromptEvent') expect(view.has(id)).toBe(true)
  for (const unit of groupUnits(before)) {
    if (unit.kind !== 'batch') continue
    const ids = unit.calls.flatMap(({ action: call, result }) => [call.id, ...(result ? [result.id] : [])])
    expect(new Set(ids.map((id) => view.has(id))).size).toBe(1)
  }
  expect(view.events.at(-1)?.kind).toBeDefined()
}

test('a hard condensation reduces the view to half of its limits', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 30, max: 200 }),
      fc.integer({ min: 10, max: 400 }),
      async (steps, chars) => {
        const view = viewOf(work(steps, chars))
        const limit = Math.floor(count(view.messages()) * 0.8)
        const options = {
          view,
          condenser: settings({ max_size: 1_000, max_tokens: limit }),
          model: createFakeModel(),
        }
        expect(condenseNeed({ ...options, isRequested: false })).toBe('hard')
        const result = await condenseAgain({ ...options, isHard: true })
        if (result.kind !== 'condensation') throw new Error(result.kind)
        view.add({ ...result.draft, id: 'c' } as unknown as LogEvent)
        const summary = count(view.messages().slice(2, 3))
        expect(count(view.messages())).toBeLessThanOrEqual(limit / 2 + summary)
        expect(condenseNeed({ ...options, isRequested: false })).toBe('no')
      },
    ),
    { numRuns: 30 },
  )
})

test('calls without a result are never forgotten', async () => {
  const open = [actionEvent({ id: 'p', response: 'r' }), actionEvent({ id: 'q', response: 'r' })]
  const view = viewOf([...work(3), ...open, observationEvent({ id: 'po', action_id: 'p' })])
  const model = createFakeModel()
  let result = await condenseAgain({ view, condenser: settings(), model, isHard: true })
  for (let n = 0; result.kind === 'condensation'; n++) {
    view.add({ ...result.draft, id: `c${n}` } as unknown as LogEvent)
    result = await condenseAgain({ view, condenser: settings(), model, isHard: true })
  }
  view.add(observationEvent({ id: 'qo', action_id: 'q' }))
  expect(view.messages().map(({ role }) => role)).toEqual([
    'system',
    'user',
    'user',
    'assistant',
    'tool',
    'tool',
  ])
})

test('when only the last step is left it is forgotten too, but only if it must be', async () => {
  const view = viewOf(work(1, 9_000))
  const options = { view, condenser: settings({ max_tokens: 1_000 }), model: createFakeModel() }
  const soft = await condenseAgain({ ...options, isHard: false })
  expect(soft).toMatchObject({ kind: 'failure', code: 'NothingToForget' })
  const hard = await condenseAgain({ ...options, isHard: true })
  if (hard.kind !== 'condensation') throw new Error(hard.kind)
  view.add({ ...hard.draft, id: 'c' } as unknown as LogEvent)
  expect(view.save()).toEqual(['s', 'u', 'c-summary'])
  const again = await condenseAgain({ ...options, isHard: true })
  expect(again).toMatchObject({ kind: 'failure', code: 'LLMContextWindowExceedError' })
  expect(again).toHaveProperty(
    'detail',
    expect.stringMatching(/about \d+ tokens in 3 events; the limit is 1000/),
  )
  expect(options.model.requests).toHaveLength(1)
})

test('one event for one summary must be worth it', async () => {
  const log = [
    ...work(0),
    messageEvent('m', 'agent', 'x'.repeat(4_000)),
    messageEvent('v', 'user', 'Continue.'),
  ]
  const ask = (text: string) =>
    condenseAgain({
      view: viewOf(log),
      condenser: settings({ max_tokens: 500 }),
      model: createFakeModel({ respond: () => textReply(text) }),
      isHard: true,
    })
  expect(await ask('It spoke of x.')).toMatchObject({
    kind: 'condensation',
    draft: { forgotten_event_ids: ['m'] },
  })
  expect(await ask('y'.repeat(5_000))).toMatchObject({
    kind: 'failure',
    code: 'LLMContextWindowExceedError',
    replies: [{}],
  })
})

test('a request that is too long is shortened and repeated up to the retry limit', async () => {
  const view = viewOf(work(60, 2_000))
  const condenserSettings = settings({ max_size: 60, hard_context_reset_max_retries: 3 })
  const tolerant = createFakeModel({
    window: 40_000,
    respond: (_, turn) => (turn < 3 ? overflow : textReply('Short.')),
  })
  const done = await condenseAgain({ view, condenser: condenserSettings, model: tolerant, isHard: true })
  expect(done.kind).toBe('condensation')
  const sizes = tolerant.requests.map(({ messages }) => count(messages))
  expect(sizes).toHaveLength(3)
  expect(sizes[1]).toBeLessThan((sizes[0] ?? 0) * 0.9)
  expect(sizes[2]).toBeLessThan((sizes[1] ?? 0) * 0.9)
  const never = createFakeModel({ respond: () => overflow })
  const failed = await condenseAgain({ view, condenser: condenserSettings, model: never, isHard: true })
  expect(failed).toMatchObject({ kind: 'failure', code: 'LLMContextWindowExceedError', replies: [] })
  expect(never.requests).toHaveLength(4)
})

test("the model's own failures are passed on, and an answer without a text is one", async () => {
  const view = viewOf(work(30))
  const ask = (answer: ModelResult) =>
    condenseAgain({
      view,
      condenser: settings(),
      model: createFakeModel({ respond: () => answer }),
      isHard: true,
    })
  const denied: ModelResult = { kind: 'failure', code: 'LLMAuthenticationError', detail: 'no such key' }
  expect(await ask(denied)).toMatchObject({
    code: 'LLMAuthenticationError',
    detail: expect.stringContaining('no such key'),
  })
  expect(await ask(textReply(' '))).toMatchObject({
    code: 'LLMNoResponseError',
    replies: [{ responseId: 'resp_1' }],
  })
  expect(await ask(textReply('', 'refusal'))).toMatchObject({ detail: expect.stringContaining('refused') })
  expect(await ask({ kind: 'aborted' })).toEqual({ kind: 'aborted' })
  const aborted = AbortSignal.abort()
  const model = createFakeModel()
  expect(await condense({ view, condenser: settings(), model, isHard: true }, aborted)).toEqual({
    kind: 'aborted',
  })
  expect(model.requests).toEqual([])
})

test('a message that comes during the request is not forgotten', async () => {
  const view = viewOf(work(30))
  const model = createFakeModel({
    respond: () => {
      view.add(messageEvent('late', 'user', 'Stop that.'))
      return textReply('Short.')
    },
  })
  const result = await condenseAgain({ view, condenser: settings(), model, isHard: true })
  if (result.kind !== 'condensation') throw new Error(result.kind)
  view.add({ ...result.draft, id: 'c' } as unknown as LogEvent)
  expect(view.save().slice(0, 3)).toEqual(['s', 'u', 'c-summary'])
  expect(view.save().at(-1)).toBe('late')
})

test('a request keeps to its tokens whatever it is about, and has the summary so far', () => {
  const summary: LogEvent = { id: 'c-summary', kind: 'CondensationSummaryEvent', summary: 'All was well.' }
  fc.assert(
    fc.property(
      arbitraryLog,
      fc.nat({ max: 2_000 }),
      fc.integer({ min: 1_500, max: 20_000 }),
      (log, more, maxTokens) => {
        const steps = work(more, 50).slice(2)
        const forgotten = [summary, ...log, ...steps].filter(isViewEvent)
        const messages = buildSummaryRequest({ forgotten, latestUserMessage: undefined }, maxTokens, count)
        expect(count(messages)).toBeLessThanOrEqual(maxTokens)
        expect(JSON.stringify(messages)).toContain('All was well.')
      },
    ),
    { numRuns: 40 },
  )
})

test('a request keeps the summary so far when it is the only entry without room', () => {
  const summary: LogEvent = { id: 'c-summary', kind: 'CondensationSummaryEvent', summary: 'All was well.' }
  for (let steps = 1; steps < 40; steps++) {
    const forgotten = [summary, ...work(steps, 50)].filter(isViewEvent)
    const messages = buildSummaryRequest({ forgotten, latestUserMessage: undefined }, 1_500, count)
    expect(JSON.stringify(messages)).toContain('All was well.')
  }
})

test('a fair share cuts the longest first and uses the whole total', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 1_000 })), fc.nat({ max: 20_000 }), (lengths, total) => {
      const share = fairShare(lengths, total)
      const sum = (bound: number) => lengths.reduce((all, length) => all + Math.min(length, bound), 0)
      expect(sum(share)).toBeLessThanOrEqual(total)
      if (share !== Number.POSITIVE_INFINITY) expect(sum(share + 1)).toBeGreaterThan(total)
    }),
  )
})
