import fc from 'fast-check'
import { expect, test } from 'vitest'
import { redactedText } from '../redaction/mark.ts'
import { isRecord } from './json.ts'
import { mergePatch, restoreRedacted } from './merge-patch.ts'

// RFC 7396, appendix A.
test.each([
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
])('%j patched with %j is %j', (target, patch, result) => {
  expect(mergePatch(target, patch)).toEqual(result)
})

const name = fc.constantFrom('a', 'b', '__proto__', 'constructor', 'toString')
const leaf = fc.constantFrom<unknown>('x', 'y', 1, true, '')
const { tree, patch } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie('tree'), { maxLength: 2 }),
    fc.dictionary(name, tie('tree')),
  ),
  patch: fc.oneof({ maxDepth: 4 }, leaf, fc.constant(null), fc.dictionary(name, tie('patch'))),
}))
/** A value parsed from JSON: a member named `__proto__` is an ordinary member. */
const parsed = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

test('a patch changes neither argument, is idempotent, and an empty patch changes nothing', () => {
  fc.assert(
    fc.property(tree, patch, (target, change) => {
      const [before, desired] = [parsed(target), parsed(change)]
      const [b, w] = [JSON.stringify(before), JSON.stringify(desired)]
      const once = mergePatch(before, desired)
      expect(JSON.stringify(before)).toBe(b)
      expect(JSON.stringify(desired)).toBe(w)
      expect(mergePatch(once, desired)).toEqual(once)
      if (typeof before === 'object' && before !== null && !Array.isArray(before))
        expect(mergePatch(before, {})).toEqual(before)
      expect(Reflect.get({}, 'a')).toBeUndefined()
    }),
  )
})

test('the difference of two values, as a patch, turns the first into the second', () => {
  fc.assert(
    fc.property(tree, tree, (one, two) => {
      const [from, to] = [parsed(one), parsed(two)]
      expect(mergePatch(from, difference(from, to))).toEqual(to)
    }),
  )
})

function difference(from: unknown, to: unknown): unknown {
  if (!isRecord(to) || !isRecord(from)) return to
  const removed = Object.keys(from).filter((name) => !Object.hasOwn(to, name))
  return Object.fromEntries([
    ...removed.map((name) => [name, null] as const),
    ...Object.entries(to).map(
      ([name, value]) => [name, Object.hasOwn(from, name) ? difference(from[name], value) : value] as const,
    ),
  ])
}

test('redacted values of a patch are restored, other placeholders are left out', () => {
  const current = { key: 'k', list: ['--token', 't'], url: 'https://u:p@h', plain: redactedText }
  const shown = { key: redactedText, list: ['--token', '****'], url: 'https://****@h', plain: redactedText }
  expect(restoreRedacted(shown, shown, current)).toEqual({
    key: 'k',
    list: ['--token', 't'],
    url: 'https://u:p@h',
  })
  const edited = {
    key: 'other',
    list: ['-v', '****'],
    more: { key: redactedText, none: null, x: '<redacted>' },
  }
  expect(restoreRedacted(edited, shown, current)).toEqual({
    key: 'other',
    list: ['-v', 't'],
    more: { none: null },
  })
  expect(restoreRedacted({ list: [redactedText, 'a'] }, {}, {})).toEqual({ list: ['a'] })
})
