import { expect, test } from 'vitest'
import { ownMember, renameMember, withoutMember } from './own-member.ts'

test('inherited members are not members of a map', () => {
  expect(ownMember({ a: 1 }, 'a')).toBe(1)
  expect(ownMember<number>({ a: 1 }, 'constructor')).toBeUndefined()
  expect(ownMember<number>(JSON.parse('{"__proto__":2}'), '__proto__')).toBe(2)
})

test('a member is removed or renamed in a copy that keeps the order', () => {
  const map = { a: 1, b: 2, c: 3 }
  expect(withoutMember(map, 'b')).toEqual({ a: 1, c: 3 })
  expect(Object.entries(renameMember(map, 'b', '__proto__'))).toEqual([
    ['a', 1],
    ['__proto__', 2],
    ['c', 3],
  ])
  expect(map).toEqual({ a: 1, b: 2, c: 3 })
})
