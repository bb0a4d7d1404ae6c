import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SseParser } from './sse-parser.ts'

function parseChunks(pieces: readonly Uint8Array[]) {
  const reader = new SseParser()
  return pieces.flatMap((piece) => reader.push(piece))
}

const lineEnd = fc.constantFrom('\n', '\r', '\r\n')
const lineText = fc.string({ unit: 'grapheme' }).map((text) => text.replace(/[\r\n]/g, ''))
const serverSentEvent = fc.record({
  type: fc.constantFrom('message', 'hint', ''),
  id: fc.nat().map(String),
  data: fc.array(lineText, { minLength: 1, maxLength: 3 }),
})

test('a stream cut at any bytes reads as the same events', () => {
  const streams = fc.array(fc.tuple(serverSentEvent, lineEnd, fc.boolean()), { maxLength: 8 })
  fc.assert(
    fc.property(streams, fc.array(fc.nat({ max: 40 }), { maxLength: 60 }), (events, sizes) => {
      const text = events
        .map(([{ type, id, data }, end, hasComment]) =>
          [
            ...(hasComment ? [': beat', ''] : []),
            ...(type === 'message' ? [] : [`event: ${type}`]),
            `id: ${id}`,
            ...data.map((line) => `data: ${line}`),
            '',
            '',
          ].join(end),
        )
        .join('')
      const bytes = new TextEncoder().encode(text)
      const pieces: Uint8Array[] = []
      let at = 0
      for (const size of sizes) {
        pieces.push(bytes.subarray(at, at + size))
        at += size
      }
      pieces.push(bytes.subarray(at))
      expect(parseChunks(pieces)).toEqual(
        events.map(([{ type, id, data }]) => ({ type: type || 'message', id, data: data.join('\n') })),
      )
    }),
  )
})

test.each([
  ['comments and unknown fields', ': beat\n\nretry: 5\n\n', []],
  ['an event without the blank line that ends it', 'id: 1\ndata: a\n', []],
  ['a field without colon or blank', 'id:7\ndata\ndata:b\n\n', [{ type: 'message', id: '7', data: '\nb' }]],
  ['a byte order mark in front', '\ufeffid: 1\ndata: a\n\n', [{ type: 'message', id: '1', data: 'a' }]],
  [
    'an id that stands for the events after it too',
    'id: 1\ndata: a\n\ndata: b\n\n',
    [
      { type: 'message', id: '1', data: 'a' },
      { type: 'message', id: '1', data: 'b' },
    ],
  ],
  [
    'a name that stands for one event only, also for one that has no data',
    'event: hint\ndata: a\n\ndata: b\n\nevent: hint\n\ndata: c\n\n',
    [
      { type: 'hint', id: '', data: 'a' },
      { type: 'message', id: '', data: 'b' },
      { type: 'message', id: '', data: 'c' },
    ],
  ],
])('the reader knows %s', (_, text, events) => {
  expect(parseChunks([new TextEncoder().encode(text)])).toEqual(events)
})
