import { expect, test } from 'vitest'
import { mapMembers } from './map-members.ts'

test('members and items are replaced, one level deep', () => {
  const describe = (member: unknown, name: string | number) => `${name}: ${JSON.stringify(member)}`
  expect(mapMembers({ a: 1, b: { c: 2 } }, describe)).toEqual({ a: 'a: 1', b: 'b: {"c":2}' })
  expect(mapMembers([1, [2]], describe)).toEqual(['0: 1', '1: [2]'])
  for (const plain of [null, undefined, 'text', 5]) expect(mapMembers(plain, describe)).toBe(plain)
})
