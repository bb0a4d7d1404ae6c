import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Checkpoints } from './checkpoints.ts'
import { ConversationState } from './state.ts'

const state = new ConversationState().save()

test('checkpoints are few, and the distance to the nearest one is bounded by the distance to the end', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1, maxLength: 600 }), (steps) => {
      const saved = new Checkpoints(null)
      let end = 0
      for (const step of steps) {
        end += step
        saved.add(end, state)
      }
      const positions = saved.all.map(({ position }) => position)
      expect(positions[0]).toBe(end)
      expect(positions).toEqual([...new Set(positions)].sort((a, b) => b - a))
      expect(positions.length).toBeLessThanOrEqual(3 + 2 * Math.ceil(Math.log2(end / 1_000 + 1)))
      for (let back = 0; back <= end; back += 97) {
        const from = positions.find((position) => position <= end - back) ?? 0
        expect(end - back - from).toBeLessThanOrEqual(back + 2_000)
      }
    }),
    { numRuns: 100 },
  )
})

test('checkpoints of large views are limited by their total size, and the newest is always stored', () => {
  const saved = new Checkpoints(null)
  const view = Array.from({ length: 9_000 }, (_, at) => `${at}`)
  for (let position = 10_000; position < 90_000; position += 10_000) saved.add(position, { ...state, view })
  expect(saved.all.map(({ position }) => position)).toEqual([80_000, 70_000, 60_000])
  saved.add(90_000, { ...state, view: Array.from({ length: 50_000 }, (_, at) => `${at}`) })
  expect(saved.position).toBe(90_000)
})

test('stored checkpoints are read back, and unreadable ones are ignored', () => {
  const saved = new Checkpoints(null)
  saved.add(1_000, state)
  saved.add(9_000, { ...state, status: 'paused' })
  const snapshot = saved.add(9_500, state)
  expect(new Checkpoints(snapshot).all).toEqual(JSON.parse(JSON.stringify(saved.all)))
  for (const text of ['', '{', 'null', '[]', '7', '{"version":2}', '{"version":1,"moves":[],"earlier":7}'])
    expect(new Checkpoints({ position: 3, text }).all).toEqual([])
})
