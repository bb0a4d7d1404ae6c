import { expect, test } from 'vitest'
import { chooseByStrategy, isGroupingStrategy } from './grouping.ts'

const a = { row: { id: 'a', created_at: 1, used_at: 30 }, conversations: 3 }
const b = { row: { id: 'b', created_at: 2, used_at: 10 }, conversations: 2 }
const c = { row: { id: 'c', created_at: 3, used_at: 20 }, conversations: 19 }
const full = { row: { id: 'full', created_at: 9, used_at: 1 }, conversations: 20 }
const all = [full, a, b, c]

test.each([
  ['ADD_TO_ANY', 'a'],
  ['GROUP_BY_NEWEST', 'c'],
  ['LEAST_RECENTLY_USED', 'b'],
  ['FEWEST_CONVERSATIONS', 'b'],
  ['NO_GROUPING', undefined],
  ['toString', undefined],
  ['', undefined],
])('%s chooses %s', (strategy, id) => {
  expect(chooseByStrategy(strategy, all)?.row.id).toBe(id)
  expect(isGroupingStrategy(strategy)).toBe(id !== undefined)
})

test('a full sandbox is not chosen', () => {
  expect(chooseByStrategy('ADD_TO_ANY', [full])).toBeUndefined()
  expect(chooseByStrategy('GROUP_BY_NEWEST', [])).toBeUndefined()
})
