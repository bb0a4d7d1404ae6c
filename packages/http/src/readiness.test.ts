import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import type { Reply } from './core/handler.ts'
import { Readiness } from './readiness.ts'

const ready = (): Reply => ({ json: { status: 'ready' } })

test.for([
  ['SIGTERM', 0, 5_000],
  ['SIGTERM', 60_000, 5_000],
  ['SIGTERM', 60_001, 0],
  ['SIGTERM', undefined, 0],
  ['SIGINT', 0, 0],
] as const)('after %s, asked %s ms ago, the port stays open for %s ms', async ([name, askedMs, openMs]) => {
  const clock = new FakeClock()
  const readiness = new Readiness({ drainMs: 5_000, clock })
  if (askedMs !== undefined) {
    expect(await readiness.answer(ready)).toEqual(ready())
    await clock.advance(askedMs)
  }
  let isClosed = false
  const drained = readiness.drain(AbortSignal.abort(new DOMException(name, 'AbortError'))).then(() => {
    isClosed = true
  })
  expect(await readiness.answer(ready)).toMatchObject({ status: 503, json: { status: 'stopping' } })
  if (openMs > 0) {
    await clock.advance(openMs - 1)
    expect(isClosed).toBe(false)
    await clock.advance(1)
  }
  await drained
})
