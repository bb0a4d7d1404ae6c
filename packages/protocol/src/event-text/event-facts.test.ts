import { expect, test } from 'vitest'
import { eventTime } from './event-facts.ts'

const noon = Date.UTC(2026, 0, 2, 12)

test.each([
  ['2026-01-02T12:00:00', noon],
  ['2026-01-02T12:00:00.250000', noon + 250],
  ['2026-01-02T12:00:00Z', noon],
  ['2026-01-02T12:00:00z', noon],
  ['2026-01-02T14:00:00+02:00', noon],
  ['2026-01-02T06:30:00-0530', noon],
  ['some day', Number.NaN],
  [noon, Number.NaN],
  [undefined, Number.NaN],
])('the time of an event at %s is %d', (timestamp, time) => {
  expect(eventTime(JSON.parse(JSON.stringify({ kind: 'MessageEvent', timestamp })))).toBe(time)
})
