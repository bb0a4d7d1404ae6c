import { expect, test } from 'vitest'
import { AnswerTooLongError, limitAnswer, readJson, readLimited, readText } from './read-limited.ts'

/** A body without an end; `cancelled` tells whether its reader has left. */
function endless(piece: string, type = 'text/plain') {
  const chunk = new TextEncoder().encode(piece)
  const state = { isCancelled: false }
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(chunk),
    cancel: () => {
      state.isCancelled = true
    },
  })
  return { response: new Response(body, { headers: { 'content-type': type } }), state }
}

test('a body up to the limit is read whole, and an endless one is left', async () => {
  const text = '"ä€😀"'
  const bytes = Buffer.byteLength(text)
  const reads = [readText, readJson, readLimited] as const
  expect(await readText(new Response(text), bytes)).toBe(text)
  expect(await readJson(new Response(text), bytes)).toBe('ä€😀')
  expect(await readLimited(new Response(text), bytes)).toEqual(Buffer.from(text))
  expect(await readText(new Response(null))).toBe('')
  for (const read of reads) {
    const { response, state } = endless('x'.repeat(1000))
    const result = await read(response, 10_000).catch((error: unknown) => error)
    if (read === readLimited) expect(result).toBeUndefined()
    else expect(result).toBeInstanceOf(AnswerTooLongError)
    expect(state.isCancelled).toBe(true)
  }
})

test.for([
  ['endless text', 'x'.repeat(1000), 'text/plain', { maxBytes: 10_000 }],
  ['an endless event', 'x'.repeat(1000), 'text/event-stream', { maxBytes: 1e9, maxEventBytes: 10_000 }],
  ['endless events', 'data: x\n\n', 'text/event-stream', { maxBytes: 10_000, maxEventBytes: 100 }],
] as const)('%s fails above its limit', async ([, piece, type, limits]) => {
  const { response, state } = endless(piece, type)
  const ends: string[] = []
  const limited = limitAnswer(response, limits, (end) => void ends.push(end))
  await expect(readText(limited, 1e9)).rejects.toThrow('longer than 10000 bytes')
  expect([ends, state.isCancelled]).toEqual([['too long'], true])
})

test('an answer that its reader leaves has no end', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const silent = new Response(new ReadableStream({ cancel: () => resolve() }))
  const ends: string[] = []
  await limitAnswer(silent, { maxBytes: 10 }, (end) => void ends.push(end)).body?.cancel()
  await promise
  expect(ends).toEqual([])
})

test('an answer below its limits is the same, also as an event stream', async () => {
  const events = 'data: x\n\n'.repeat(100)
  const headers = { 'content-type': 'text/event-stream', 'x-one': '1' }
  const ends: string[] = []
  const limited = limitAnswer(
    new Response(events, { status: 201, headers }),
    { maxBytes: 1000, maxEventBytes: 50 },
    (end) => void ends.push(end),
  )
  expect([limited.status, limited.headers.get('x-one'), await readText(limited)]).toEqual([201, '1', events])
  expect(ends).toEqual(['whole'])
})
