import { expect, test } from 'vitest'
import { decodePercent } from './decode.ts'

test('malformed escapes are undefined', () => {
  expect(decodePercent('a%20b%2Fc')).toBe('a b/c')
  for (const text of ['%', '%2', '%zz', '%ff', 'a%C3']) expect(decodePercent(text)).toBeUndefined()
})
