import { Secret } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { Hidden } from './hidden.ts'

test('a secret is hidden as it is, in base64 and percent-encoded, the longest first', () => {
  const hidden = new Hidden()
  hidden.add(new Secret('p@ss word'))
  hidden.add('p@ss')
  const text = `p@ss word ${Buffer.from('p@ss word').toString('base64')} ${encodeURIComponent('p@ss word')} p@ss`
  expect(hidden.hide(text)).toBe('********** ********** ********** **********')
})

test('of a configuration what is named as secret is hidden, and short texts are not', () => {
  const hidden = new Hidden()
  hidden.addIn({ model: 'a/b', api_key: 'sk-1234567', extra_headers: { 'x-any': 'header-value' } })
  hidden.add('abc')
  hidden.add(undefined)
  expect(hidden.hide('a/b sk-1234567 header-value abc')).toBe('a/b ********** ********** abc')
})
