import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { raceAbort } from './race-abort.ts'

test('the result of the work, its failure, or the reason of the abort: whichever comes first', async () => {
  const stop = new AbortController()
  expect(await raceAbort(Promise.resolve(1), stop.signal)).toBe(1)
  await expect(raceAbort(Promise.reject(new Error('failed')), stop.signal)).rejects.toThrow('failed')
  const { promise, reject } = Promise.withResolvers<never>()
  const raced = raceAbort(promise, stop.signal)
  stop.abort(new Error('stopped'))
  await expect(raced).rejects.toThrow('stopped')
  reject(new Error('an unhandled rejection would fail this run'))
  await expect(raceAbort(Promise.resolve(1), stop.signal)).rejects.toThrow('stopped')
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
})
