import { expect, test } from 'vitest'
import { compareAnswers, listAdditions } from './compare.ts'
import { explain, explained } from './explained.ts'

const ok = (body: unknown) => ({ status: 200, body })

test('answers differ in a status, a member that is missing, null or of another type, and a value', () => {
  const reference = ok({ a: 1, b: null, c: [{ d: 'x' }], e: {} })
  expect(compareAnswers(reference, ok({ a: 1, b: null, c: [{ d: 'x' }], e: {} }))).toEqual([])
  expect(compareAnswers(reference, ok({ a: '1', c: [{ d: 'y' }, {}], e: null }))).toEqual([
    { place: '.a', reference: '1', slipway: '"1"' },
    { place: '.b', reference: 'null', slipway: 'absent' },
    { place: '.c.length', reference: '1', slipway: '2' },
    { place: '.c[].d', reference: '"x"', slipway: '"y"' },
    { place: '.e', reference: '{}', slipway: 'null' },
  ])
  expect(compareAnswers(reference, { status: 404, body: { detail: 'x' } })).toMatchObject([
    { place: 'status', slipway: '404 {"detail":"x"}' },
  ])
})

test('of prose and of shapes the types are compared, and members of Slipway alone are additions', () => {
  expect(compareAnswers(ok({ message: 'a', id: 'b' }), ok({ message: 'c', id: 'd' }))).toEqual([])
  expect(compareAnswers(ok([{ name: 'a' }]), ok([{ name: 'b' }, {}]), true)).toEqual([])
  expect(compareAnswers(ok([{ name: 'a' }]), ok([]), true)).toMatchObject([{ place: '.length' }])
  const more = [ok({ a: { b: 1 } }), ok({ a: { b: 1, c: 2 }, d: 3 })] as const
  expect([compareAnswers(...more), listAdditions(...more)]).toEqual([[], ['.a.c', '.d']])
})

test('a row explains the differences of its routes, places and values alone', () => {
  const status = (reference: string, slipway: string) => ({ place: 'status', reference, slipway })
  const route = 'GET /api/v1/secrets/search'
  expect(explain(route, status('500 "x"', '200 {}'))?.ground).toBe('specification')
  expect(explain(route, status('200 {}', '500 "x"'))).toBeUndefined()
  expect(explain(route, { place: '.items[].name', reference: '"a"', slipway: 'absent' })).toBeUndefined()
  expect(explained.length).toBeLessThanOrEqual(15)
})
