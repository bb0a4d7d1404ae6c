import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Turnstile } from './turnstile.ts'

test('that many pass in a turn, in order of the calls, and none is left behind', async () => {
  const turnstile = new Turnstile(3)
  const passed: number[] = []
  const pass = async (n: number) => {
    await turnstile.pass()
    passed.push(n)
  }
  const all = Array.from({ length: 8 }, (_, n) => pass(n))
  const counts: number[] = []
  for (let turn = 0; turn < 4; turn++) {
    await new Promise<void>((resolve) => process.nextTick(resolve))
    counts.push(passed.length)
    await nextTurn()
    // One that comes later does not overtake those who wait.
    if (turn === 0) all.push(pass(8))
  }
  await Promise.all(all)
  expect(counts).toEqual([3, 6, 9, 9])
  expect(passed).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
  await turnstile.pass()
})
