import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Semaphore } from './semaphore.ts'

test('at most the permitted number run at once, in the order of arrival, and none is lost', async () => {
  const jobs = fc.array(fc.nat(3), { maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 4 }), jobs, async (permits, durations) => {
      const semaphore = new Semaphore(permits)
      const started: number[] = []
      let running = 0
      const work = async (job: number, turns: number) => {
        started.push(job)
        running += 1
        expect(running).toBeLessThanOrEqual(permits)
        expect(semaphore.active).toBeGreaterThanOrEqual(running)
        for (let n = 0; n < turns; n++) await turn()
        running -= 1
        return job
      }
      const results = await Promise.all(durations.map((turns, job) => semaphore.run(() => work(job, turns))))
      expect(results).toEqual([...durations.keys()])
      expect(started).toEqual(results)
      expect([semaphore.active, semaphore.waiting]).toEqual([0, 0])
    }),
    { numRuns: 50 },
  )
})

test('an abort while waiting rejects with its reason and leaves the queue', async () => {
  const semaphore = new Semaphore(1)
  const release = await semaphore.acquire()
  const stop = new AbortController()
  const aborted = semaphore.acquire(stop.signal)
  const next = semaphore.acquire()
  stop.abort(new Error('stopped'))
  await expect(aborted).rejects.toThrow('stopped')
  expect(semaphore.waiting).toBe(1)
  release()
  release()
  const last = await next
  expect(semaphore.active).toBe(1)
  last()
  expect(semaphore.active).toBe(0)
  await expect(semaphore.acquire(stop.signal)).rejects.toThrow('stopped')
})
