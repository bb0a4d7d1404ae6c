import { expect, test } from 'vitest'
import { KeyedSignal } from './keyed-signal.ts'
import { Semaphore } from './semaphore.ts'

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

test('a ring that comes while somebody looks is not missed', async () => {
  const rings = new KeyedSignal()
  let value: string | undefined
  const look = async () => {
    const found = value
    await nextTurn()
    if (value === undefined) {
      value = 'there'
      rings.notify('a')
    }
    return found
  }
  expect(await rings.until('a', look, AbortSignal.timeout(20_000))).toBe('there')
  expect(rings.waiting).toBe(0)
})

test('a ring wakes those of its id alone, and who gives up waits no more', async () => {
  const rings = new KeyedSignal()
  let looks = 0
  const stop = new AbortController()
  const waiting = rings.until('a', async () => void looks++, stop.signal)
  await nextTurn()
  rings.notify('b')
  await nextTurn()
  expect([looks, rings.waiting]).toEqual([1, 1])
  rings.notify('a')
  await nextTurn()
  expect(looks).toBe(2)
  stop.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  expect(rings.waiting).toBe(0)
})

test('no more than its width pass a gate at once, in their order, and failures make room too', async () => {
  const gate = new Semaphore(3)
  let inside = 0
  let most = 0
  const order: number[] = []
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) =>
      gate.run(async () => {
        inside += 1
        most = Math.max(most, inside)
        order.push(index)
        await nextTurn()
        inside -= 1
        if (index % 4 === 0) throw new Error('no')
      }),
    ),
  )
  expect(most).toBe(3)
  expect(order).toEqual([...order].sort((a, b) => a - b))
  expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(5)
})
