import { expect, test } from 'vitest'
import { definedMembers } from './defined-members.ts'

test('undefined members are left out, null and false stay', () => {
  const copy = definedMembers({ a: undefined, b: null, c: false, d: { e: undefined } })
  expect(Object.keys(copy)).toEqual(['b', 'c', 'd'])
})
