import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findDuplicateMember, hasDuplicateMember } from './duplicate-members.ts'
import { countJsonMembers } from './json-depth.ts'

const duplicateOf = (text: string) => {
  const has = hasDuplicateMember(countJsonMembers(Buffer.from(text)), JSON.parse(text))
  const place = findDuplicateMember(text)
  expect(place !== undefined).toBe(has)
  return place
}

test.each([
  ['{"kind":"A","kind":"B"}', ['kind']],
  ['{"a":{"b":[1,{"c":1,"c":2}]}}', ['a', 'b', 1, 'c']],
  ['{"a":[[],{},{"x":{"y":1,"y":1}}]}', ['a', 2, 'x', 'y']],
  ['{"a":1,"\\u0061":2}', ['a']],
  ['[{"a":{}},{"b":1,"b":{}}]', [1, 'b']],
  [' { "a" : "}" , "b" : "\\"a\\":1,\\"a\\":2" , "a" : [] } ', ['a']],
  ['{"__proto__":1,"__proto__":2}', ['__proto__']],
])('%s has a duplicate at %j', (text, place) => expect(duplicateOf(text)).toEqual(place))

test.each(['x', '\n', '"x'])('a string of millions of %j is scanned', (part) => {
  const text = JSON.stringify(part.repeat(12_000_000 / part.length))
  expect(findDuplicateMember(`{"a":${text},"b":1,"b":2}`)).toEqual(['b'])
})

test('JSON that a serializer wrote has none', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(duplicateOf(JSON.stringify(value))).toBeUndefined()
    }),
  )
})

test('a member that is repeated anywhere in a value is found', () => {
  const name = fc.string({ maxLength: 5 })
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), name, name, (before, value, member, outer) => {
      const text = JSON.stringify(value)
      const inner = `{${JSON.stringify(member)}:${text},${JSON.stringify(member)}:${text}}`
      expect(duplicateOf(`{${JSON.stringify(outer)}:[${JSON.stringify(before)},${inner}]}`)).toEqual([
        outer,
        1,
        member,
      ])
    }),
  )
})
