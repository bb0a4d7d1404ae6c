import { expect, test } from 'vitest'
import { applyMutation, describeMutation, findMutations, isParsable } from './mutations.ts'

/** `line kind: result` for each fault of a text. */
function faultsOf(text: string, file = 'x.ts'): string[] {
  return findMutations(file, text).map((mutation) => {
    const result = applyMutation(text, mutation)
    expect(isParsable(file, result), result).toBe(true)
    return `${mutation.line} ${mutation.kind}: ${describeMutation(text, mutation)[1]}`
  })
}

test.each([
  ['comparisons', 'const x = a < b', ['const x = a >= b']],
  ['`&&` and `||`', 'const x = a && b', ['const x = a || b']],
  ['a condition that is no comparison', 'if (a) b()', ['if (!(a)) b()']],
  ['a negated condition', 'while (!a()) b()', ['while (a()) b()']],
  ['a condition of an expression', 'const x = is(a) ? 1 : 2', ['const x = !(is(a)) ? 1 : 2']],
  ['a condition after text of two units', "const x = '😀' === a", ["const x = '😀' !== a"]],
])('turns %s', (_, text, results) => {
  expect(faultsOf(text)).toEqual(results.map((result) => `1 condition: ${result}`))
})

test('passes over `??`, types and arithmetic', () => {
  expect(faultsOf('type A<T> = T extends 1 ? 2 : 3\nconst x: A<1> = a ?? b + c')).toEqual([])
})

test('a comparison that is a whole condition is turned once', () => {
  expect(faultsOf('for (; i < n; i++) a()')).toEqual(['1 condition: for (; i >= n; i++) a()'])
})

test('leaves out guards that throw or return, as checks and not as errors too', () => {
  const guard = 'function f() {\n  if (a()) {\n    throw b\n  }\n  if (c()) return\n}'
  expect(faultsOf(guard).filter((fault) => !fault.includes('condition'))).toEqual([
    '2 check: {}',
    '5 check: {}',
  ])
})

test('a branch that continues, or has an alternative, is no guard', () => {
  const kinds = findMutations('x.ts', 'if (a()) b()\nif (c()) return\nelse d()').map(({ kind }) => kind)
  expect(kinds).toEqual(['condition', 'condition'])
})

test('leaves out calls that check', () => {
  expect(faultsOf('await assertIdle(a)\nthis.requireUser()\ncheckpoint()')).toEqual([
    '1 check: {}',
    '1 error: await Promise.resolve(assertIdle(a)).catch(() => {})',
    '2 check: {}',
  ])
  expect(faultsOf('const x = schema.parse(y)\nconst z = JSON.parse(y)')).toEqual([
    '1 check: const x = (y as any)',
  ])
})

test('swallows errors: a throw, a caught one, a rejection', () => {
  const text = 'try {\n  await a()\n} catch (error) {\n  b(error)\n  throw error\n}'
  expect(faultsOf(text)).toEqual([
    '2 error: await Promise.resolve(a()).catch(() => {})',
    '3 error: } catch (error) {}',
    '5 error: {}',
  ])
})

test('describes the lines of an edit before and after it', () => {
  const text = 'function f() {\n  if (a()) {\n    return 1\n  }\n}'
  expect(findMutations('x.ts', text).map((one) => describeMutation(text, one))).toEqual(
    expect.arrayContaining([['if (a()) { return 1 }', '{}']]),
  )
})

test('reads JSX', () => {
  expect(faultsOf('const x = <p>{n > 0 && <b />}</p>', 'x.tsx')).toEqual([
    '1 condition: const x = <p>{n <= 0 && <b />}</p>',
    '1 condition: const x = <p>{n > 0 || <b />}</p>',
  ])
})
