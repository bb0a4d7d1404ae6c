import { expect, test } from 'vitest'
import { cookieValues } from './cookies.ts'

test('all values of the name, in the order of the header', () => {
  expect(cookieValues('a=1; b=2;a=3 ; a = 4', 'a')).toEqual(['1', '3', '4'])
})

test('a value may contain equals signs and may be empty', () => {
  expect(cookieValues('key=a=b==; other=; key=', 'key')).toEqual(['a=b==', ''])
})

test('a name matches as a whole, in its case, and only before an equals sign', () => {
  expect(cookieValues('session2=a; my_session=b; Session=c; session; sessions', 'session')).toEqual([])
  expect(cookieValues('x=session=1', 'session')).toEqual([])
})

test('a request without cookies has no value', () => {
  expect(cookieValues(undefined, 'a')).toEqual([])
  expect(cookieValues('', '')).toEqual([])
  expect(cookieValues(';;  ; ', 'a')).toEqual([])
})
