import { sandboxServerRoutes } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { BudgetGuard } from './budget-guard.ts'

type Reply = { readonly status?: number; readonly body?: object } | 'lost'
interface Sent {
  readonly method: string
  readonly path: string
  readonly key: string | null
  readonly body: Record<string, unknown>
}

const estimate = { model: 'openai/x', inputTokens: 10, maxOutputTokens: 100, inputCost: 5, outputCost: 50 }
const granted = { body: { status: 'granted', max_output_tokens: 40, message: null } }
const unlimited = { body: { status: 'unlimited', max_output_tokens: null, message: null } }
const refused = { body: { status: 'refused', max_output_tokens: null, message: 'Ask Ada' } }
const use = { inputTokens: 10, outputTokens: 7, cost: 9 }
const { reserveBudget, settleBudget } = sandboxServerRoutes
const never = new AbortController().signal

/** A guard whose requests are answered in turn, the last answer for all that follow. */
function open(...replies: Reply[]) {
  const clock = new FakeClock()
  const sent: Sent[] = []
  const lines: unknown[] = []
  const fetch = async (url: unknown, init: RequestInit = {}) => {
    const { pathname } = new URL(String(url))
    const key = new Headers(init.headers).get('x-session-api-key')
    const { method = '' } = init
    sent.push({ method, path: pathname, key, body: JSON.parse(String(init.body)) })
    const reply = replies.length > 1 ? replies.shift() : replies[0]
    if (reply === 'lost' || reply === undefined) throw new Error('secret address')
    return Response.json(reply.body ?? {}, { status: reply.status ?? 200 })
  }
  const log = (...line: unknown[]) => void lines.push(line)
  const url = 'http://control.example/api/v1/sandboxes/sb/budget'
  const guard = new BudgetGuard({ url, key: new Secret('s3ssion-key'), fetch: fetch as never, clock, log })
  /** Until the waits of the guard have passed. */
  const settled = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false
    const ended = work.finally(() => {
      isDone = true
    })
    while (!isDone) {
      await new Promise((resume) => setImmediate(resume))
      await clock.advance(500)
    }
    return await ended
  }
  return {
    clock,
    sent,
    lines,
    guard,
    settled,
    answer: (...next: Reply[]) => replies.splice(0, replies.length, ...next),
  }
}

test('a call is reserved with what it may cost, and settled with what it did under the same id', async () => {
  const { guard, sent } = open(granted)
  const reservation = await guard.reserve(estimate, never)
  if (reservation === undefined || 'refusal' in reservation) throw new Error('it is granted')
  expect(reservation.maxOutputTokens).toBe(40)
  await reservation.settle(use)
  const [asked, told] = sent
  expect(asked).toMatchObject({
    ...{ method: 'PUT', key: 's3ssion-key' },
    body: { model: 'openai/x', max_output_tokens: 100, input_cost_micros: 5, output_cost_micros: 50 },
  })
  expect(told).toMatchObject({ method: 'POST', body: { cost_micros: 9, output_tokens: 7 } })
  expect(told?.path).toBe(`${asked?.path}/settle`)
})

test('a refusal is what the sandbox server says, and the next call asks again', async () => {
  const { guard, sent, answer } = open(refused)
  expect(await guard.reserve(estimate, never)).toEqual({ code: 'BudgetExceeded', refusal: 'Ask Ada' })
  answer(granted)
  expect(await guard.reserve(estimate, never)).toMatchObject({ maxOutputTokens: 40 })
  expect(sent).toHaveLength(2)
})

test.each([
  ['no budget', unlimited],
  ['a server without budgets', { status: 404 }],
] as const)('with %s it asks once a minute, also while the server is away', async (_, reply) => {
  const { guard, sent, clock, settled, answer } = open(reply)
  for (let at = 0; at < 3; at++) expect(await guard.reserve(estimate, never)).toBeUndefined()
  expect(sent).toHaveLength(1)
  await clock.advance(60_001)
  answer('lost')
  expect(await settled(guard.reserve(estimate, never))).toBeUndefined()
  await clock.advance(60_001)
  answer(granted)
  expect(await guard.reserve(estimate, never)).toMatchObject({ maxOutputTokens: 40 })
})

/** A budget is known to apply, and the server is away since then. */
async function openAway() {
  const opened = open(granted)
  await opened.guard.reserve(estimate, never)
  opened.answer('lost')
  return opened
}

test('without any answer yet requests are made, and asked for once a minute', async () => {
  const { guard, sent, clock, settled, answer } = open('lost')
  const began = clock.monotonic()
  for (let at = 0; at < 3; at++) expect(await settled(guard.reserve(estimate, never))).toBeUndefined()
  expect(clock.monotonic() - began).toBeLessThanOrEqual(5_000)
  expect(sent.filter(({ method }) => method === 'PUT')).toHaveLength(1)
  answer({})
  await settled(guard[Symbol.asyncDispose]())
})

test('a server that cannot be asked refuses after a while, and gets back what it may have reserved', async () => {
  const { guard, sent, lines, clock, settled, answer } = await openAway()
  const began = clock.monotonic()
  const refusal = await settled(guard.reserve(estimate, never))
  expect(clock.monotonic() - began).toBeLessThanOrEqual(16_000)
  expect(refusal).toMatchObject({
    code: 'LLMServiceUnavailableError',
    refusal: expect.stringMatching(/cannot be asked.*\(no connection\).*try again/),
  })
  expect(new Set(sent.slice(1).map(({ path }) => path.replace('/settle', ''))).size).toBe(1)
  answer({})
  await settled(guard[Symbol.asyncDispose]())
  expect(sent.at(-1)).toMatchObject({ method: 'POST', body: { cost_micros: 0 } })
  expect(JSON.stringify(lines)).not.toMatch(/s3ssion-key|secret address/)
})

test('a cost whose answer was lost is reported again, and the reply does not wait for it', async () => {
  const { guard, sent, clock, answer } = open(granted)
  const reservation = await guard.reserve(estimate, never)
  if (reservation === undefined || 'refusal' in reservation) throw new Error('it is granted')
  answer('lost', { status: 503 }, {})
  await reservation.settle(use)
  for (const ms of [500, 1_000]) {
    await clock.untilWaiting(ms)
    await clock.advance(ms)
  }
  await guard[Symbol.asyncDispose]()
  expect(sent.filter(({ method }) => method === 'POST')).toHaveLength(3)
})

test('a run that is stopped does not wait for the answer', async () => {
  const { guard, settled, answer } = await openAway()
  const stop = new AbortController()
  stop.abort()
  expect(await guard.reserve(estimate, stop.signal)).toMatchObject({ refusal: expect.any(String) })
  answer({})
  await settled(guard[Symbol.asyncDispose]())
})

test('odd prices and counts are sent as the nearest numbers that the sandbox server takes', async () => {
  const { guard, sent } = open(granted)
  const odd = { ...estimate, inputTokens: 1.5, maxOutputTokens: 5e12, outputCost: Number.NaN }
  const reservation = await guard.reserve(odd, never)
  if (reservation === undefined || 'refusal' in reservation) throw new Error('it is granted')
  await reservation.settle({ inputTokens: 1, outputTokens: 2.5, cost: -3 })
  const [asked, told] = sent.map(({ body }) => body)
  expect(reserveBudget.body.parse(asked)).toMatchObject({
    ...{ input_tokens: 2, max_output_tokens: 1e9, output_cost_micros: 1e13 },
  })
  expect(settleBudget.body.parse(told)).toMatchObject({ output_tokens: 3, cost_micros: 0 })
})

test('a reservation that arrives after the agent server gave up is taken back', async () => {
  const { guard, sent, clock, settled, answer } = await openAway()
  expect(await settled(guard.reserve(estimate, never))).toMatchObject({ refusal: expect.any(String) })
  // The question is on its way yet.
  answer({ status: 404 }, { status: 404 }, {})
  for (let at = 0; at < 20; at++) {
    await clock.advance(500)
    await new Promise((resume) => setImmediate(resume))
  }
  await settled(guard[Symbol.asyncDispose]())
  expect(sent.filter(({ method }) => method === 'POST')).toHaveLength(3)
})

test('while no budget is known, a server that is away costs a call one question a minute', async () => {
  const { guard, sent, clock, settled, answer } = open(unlimited)
  await guard.reserve(estimate, never)
  await clock.advance(60_001)
  answer('lost')
  const before = clock.monotonic()
  expect(await settled(guard.reserve(estimate, never))).toBeUndefined()
  expect(clock.monotonic() - before).toBeLessThanOrEqual(500)
  expect(sent.filter(({ method }) => method === 'PUT')).toHaveLength(2)
})

test('the fallbacks of a model do not wait once more for a server that is away', async () => {
  const { guard, clock, settled } = await openAway()
  const began = clock.monotonic()
  for (const model of ['a/first', 'b/second', 'c/third'])
    expect(await settled(guard.reserve({ ...estimate, model }, never))).toMatchObject({
      code: 'LLMServiceUnavailableError',
    })
  expect(clock.monotonic() - began).toBeLessThanOrEqual(18_000)
  await settled(guard[Symbol.asyncDispose]())
})
