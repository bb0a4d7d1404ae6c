import { expect, test } from 'vitest'
import { excerptRows } from './excerpt.ts'
import { lineDiff } from './line-diff.ts'
import { PendingActions } from './pending-actions.ts'

test('an action waits until its result, rejection or error, also when calls have one id', () => {
  const pending = new PendingActions()
  const ids = () => pending.list().map(({ id }) => id)
  for (const id of ['a', 'b', 'c', 'd'])
    pending.apply({ kind: 'ActionEvent', id, tool_call_id: id === 'c' ? 'b' : id })
  pending.apply({ kind: 'MessageEvent', id: 'm' })
  pending.apply({ kind: 'ACPToolCallEvent', id: 'x', tool_call_id: 'a' })
  pending.apply({ kind: 'ObservationEvent', id: 'o', action_id: 'a', tool_call_id: 'a' })
  expect(ids()).toEqual(['b', 'c', 'd'])
  pending.apply({ kind: 'AgentErrorEvent', id: 'e', tool_call_id: 'b' })
  expect(ids()).toEqual(['c', 'd'])
  pending.apply({ kind: 'UserRejectObservation', id: 'r', action_id: 'd', tool_call_id: 'b' })
  expect(ids()).toEqual(['c'])
})

test('the first and the last rows stay in view, and those between are counted', () => {
  const rows = Array.from({ length: 100 }, (_, n) => n)
  expect(excerptRows(rows, 100)).toEqual({ first: rows, hidden: 0, last: [] })
  expect(excerptRows(rows, 8)).toEqual({ first: [0, 1, 2, 3], hidden: 93, last: [97, 98, 99] })
  expect(excerptRows(rows, 0)).toEqual({ first: [0], hidden: 98, last: [99] })
})

test('a difference too large to compare removes the old lines and adds the new ones', () => {
  const lines = (from: number) => Array.from({ length: 2_000 }, (_, n) => `${from + n}\n`).join('')
  const diff = lineDiff(`same\n${lines(0)}end\n`, `same\n${lines(1_500)}end\n`)
  expect(diff.map(({ mark }) => mark).join('')).toBe(` ${'-'.repeat(2_000)}${'+'.repeat(2_000)} `)
})
