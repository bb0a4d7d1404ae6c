import { messageTexts, parseInstant, validateEvent } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { generateLog, needles } from './generate-log.ts'

const events = [...generateLog({ count: 6000, words: 20 })]

test('generated events are valid, in order of time, and equal to their bytes', () => {
  for (const [i, event] of events.entries()) {
    const value = JSON.parse(event.bytes.toString())
    expect(validateEvent(value)).toEqual([])
    expect([value.id, value.kind, value.source]).toEqual([event.id, event.kind, event.source])
    expect(parseInstant(value.timestamp)).toBe(event.instant)
    expect(event.instant).toBeGreaterThan(events[i - 1]?.instant ?? 0)
  }
})

test('the same options generate the same bytes', () => {
  const again = [...generateLog({ count: 100, words: 20 })]
  expect(again.map(({ bytes }) => bytes.toString())).toEqual(
    events.slice(0, 100).map(({ bytes }) => bytes.toString()),
  )
})

test('each needle has the frequency of its name', () => {
  const texts = events
    .flatMap(({ bytes }) => messageTexts(JSON.parse(bytes.toString())))
    .map((text) => text.toLowerCase())
  const share = (needle: string) =>
    texts.filter((text) => text.includes(needle.toLowerCase())).length / texts.length
  expect(texts.length / events.length).toBeCloseTo(0.15, 1)
  expect(share(needles.absent)).toBe(0)
  expect(share(needles.medium)).toBeLessThan(share(needles.Chinese))
  expect(share(needles.Chinese)).toBeLessThan(share(needles.common))
  expect(share(needles.common)).toBeGreaterThan(0.5)
})
