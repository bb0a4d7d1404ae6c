import { readFile } from 'node:fs/promises'
import { eventKinds, validateEvent } from '@slipway/protocol'
import { expect, test } from 'vitest'

test('the sample log is valid, has every kind of event, and is in order of time', async () => {
  const file = await readFile(new URL('./sample.jsonl', import.meta.url), 'utf8')
  const events = file
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(events.flatMap((event) => validateEvent(event))).toEqual([])
  expect(new Set(events.map((event) => event.kind))).toEqual(new Set(eventKinds))
  const times = events.map((event) => event.timestamp)
  expect(times).toEqual([...new Set(times)].sort())
})
