import { expect, test } from 'vitest'
import { encodeRowPageId } from '../control-plane/row-page-id.ts'
import { encodeEventPageId, isPageIdOf } from '../event-log/page-id.ts'
import { createPageIdCodec, unknownPageId } from './page-id-codec.ts'

const codec = createPageIdCodec<string>('t1_', (text) => text, String)

test('decode returns what was encoded', () => {
  expect(codec.encode('é')).toBe('t1_w6k')
  for (const text of ['', 'é', 'a/b?c']) expect(codec.decode(codec.encode(text))).toBe(text)
})

test.each([
  ['another prefix', 'x1_w6k'],
  ['no prefix', 'w6k'],
  ['padding', 't1_w6k='],
  ['an invalid character', 't1_w6k!'],
  ['unused bits', 't1_w6l'],
  ['bytes that are no UTF-8', 't1__w'],
])('decode refuses %s', (_, text) => {
  expect(codec.decode(text)).toBeUndefined()
})

test('decode refuses what the parser refuses', () => {
  const json = createPageIdCodec<number>('j1_', JSON.stringify, (bytes) => JSON.parse(bytes.toString()))
  expect(json.decode(json.encode(7))).toBe(7)
  expect(json.decode(`j1_${Buffer.from('{').toString('base64url')}`)).toBeUndefined()
})

test('the formats stay, because clients store page ids', () => {
  expect(encodeEventPageId('c', 7, 'e')).toBe('p2_AAAABy59LAOx3jobV2hZ')
  expect(isPageIdOf('p1_AAAAB7HeOhtXaFlV', 'c', 7, 'e')).toBe(true)
  expect(encodeRowPageId('CREATED_AT', { value: 5, id: 'a' })).toBe('r1_WyJDUkVBVEVEX0FUIiw1LCJhIl0')
})

test('an unknown page id is an issue of the query', () => {
  expect(unknownPageId()).toMatchObject({ code: 'invalid', issues: [{ loc: ['query', 'page_id'] }] })
})
