import { readFile } from 'node:fs/promises'
import { eventKinds, validateEvent } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { sampleLines } from './make-sample.ts'

test('the sample is valid, has all kinds and is what the script writes', async () => {
  const file = await readFile(new URL('./sample.jsonl', import.meta.url), 'utf8')
  expect(file).toBe(
    sampleLines()
      .map((line) => `${line}\n`)
      .join(''),
  )
  const events = file
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(events.flatMap((event) => validateEvent(event))).toEqual([])
  expect(new Set(events.map((event) => event.kind))).toEqual(new Set(eventKinds))
  const times = events.map((event) => event.timestamp)
  expect(times).toEqual([...new Set(times)].sort())
})
