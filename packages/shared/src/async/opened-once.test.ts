import { expect, test } from 'vitest'
import { OpenedOnce } from './opened-once.ts'

test('all uses share what was opened, and a failure is tried again by the next one', async () => {
  let attempts = 0
  const opened = new OpenedOnce(async () => {
    attempts += 1
    if (attempts === 1) throw new Error('not yet')
    return attempts
  })
  expect(opened.current).toBeUndefined()
  expect(await Promise.allSettled([opened.get(), opened.get()])).toMatchObject([
    { reason: new Error('not yet') },
    { reason: new Error('not yet') },
  ])
  expect(opened.current).toBeUndefined()
  expect(await Promise.all([opened.get(), opened.get(), opened.get()])).toEqual([2, 2, 2])
  expect(await opened.current).toBe(2)
})
