import fc from 'fast-check'
import { expect, test } from 'vitest'
import { wellFormed } from './well-formed.ts'

const half = '\ud82d'

test('halves of surrogate pairs are replaced in texts and names, and nothing else', () => {
  expect(wellFormed({ [`a${half}`]: [`${half}b`, 1, null, { c: '😀' }] })).toEqual({
    'a\ufffd': ['\ufffdb', 1, null, { c: '😀' }],
  })
})

test('what has none is the same object, and so are the parts that have none', () => {
  const [clean, url] = [{ a: ['😀'] }, new URL('http://h/')]
  expect(wellFormed(clean)).toBe(clean)
  const fitted = wellFormed({ clean, url, text: half })
  expect(fitted.clean).toBe(clean)
  expect(fitted.url).toBe(url)
})

test('every JSON value becomes one that has UTF-8', () => {
  const text = fc.array(fc.constantFrom('a', half, '\ude00', '😀')).map((parts) => parts.join(''))
  const value = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof({ depthSize: 'small' }, text, fc.array(tie('json')), fc.dictionary(text, tie('json'))),
  })).json
  fc.assert(
    fc.property(value, (one) => {
      const written = JSON.stringify(wellFormed(one))
      expect(Buffer.from(written).toString()).toBe(written)
      expect(written).not.toContain('\\ud')
    }),
  )
})
