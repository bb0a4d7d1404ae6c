import { expect, test } from 'vitest'
import { collectGarbage, shrinkHeapWhenIdle } from './heap.ts'

function createGarbage(): number {
  const held = Array.from({ length: 400_000 }, (_, i) => ({ text: `number ${i}`, more: [i] }))
  return held.length
}

test('memory that is needed no more is given back', () => {
  createGarbage()
  const before = process.memoryUsage()
  collectGarbage()
  const after = process.memoryUsage()
  expect(after.heapUsed).toBeLessThan(before.heapUsed)
  expect(after.heapTotal).toBeLessThan(before.heapTotal)
})

test('it happens by itself in a calm second', async () => {
  createGarbage()
  const before = process.memoryUsage().heapTotal
  using _ = shrinkHeapWhenIdle()
  await expect.poll(() => process.memoryUsage().heapTotal, { timeout: 20_000 }).toBeLessThan(before)
})
