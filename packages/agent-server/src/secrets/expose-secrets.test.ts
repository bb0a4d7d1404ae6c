import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { temporary } from '../testing/fixtures.ts'
import { exposed, mask, masked } from './expose-secrets.ts'
import { openTexts, sealText } from './sealed-text.ts'

const value = {
  text: 'plain',
  api_key: 'k',
  count: 5,
  env: { PASSWORD: 7, ON: true, NAME: 'n' },
  auth: {
    strategy: 'oauth2',
    type: 'oauth',
    scopes: ['a'],
    client_secret: 's',
    state: { tokens: { x: 't' } },
  },
  secrets: {
    A: { kind: 'StaticSecret', value: 'v', description: 'd' },
    B: { kind: 'LookupSecret', url: 'https://u:p@h/?key=z', headers: { H: 'h' } },
    C: 'odd',
  },
}

test('what says which kind of secret stands in a place is shown, and nothing else of it', () => {
  expect(masked(value, mask)).toEqual({
    text: 'plain',
    api_key: mask,
    count: 5,
    env: { PASSWORD: mask, ON: true, NAME: mask },
    auth: {
      strategy: 'oauth2',
      type: 'oauth',
      scopes: ['a'],
      client_secret: mask,
      state: { tokens: { x: mask } },
    },
    secrets: {
      A: { kind: 'StaticSecret', value: mask, description: 'd' },
      B: { kind: 'LookupSecret', url: 'https://****@h/?key=****', headers: { H: mask } },
      C: mask,
    },
  })
})

test('sealed secrets come back as they were: numbers as numbers, halves of characters, what looks sealed', async () => {
  using place = temporary()
  const cipher = await Cipher.open({ directory: place.path, secretKey: undefined })
  const odd = {
    ...value,
    half: 'x',
    token: '\ud800half',
    looks: 'slipway-sealed-x',
    list: ['slipway-sealed-'],
  }
  const sent = exposed(odd, 'encrypted', { cipher, stars: null })
  expect(sent.env).toMatchObject({ PASSWORD: expect.stringMatching(/^slipway-sealed-/), ON: true })
  expect(openTexts(cipher, JSON.parse(JSON.stringify(sent)), [])).toEqual(odd)
})

test('a token that was cut or changed is refused with its place, and so is none', async () => {
  using place = temporary()
  const cipher = await Cipher.open({ directory: place.path, secretKey: undefined })
  const token = sealText(cipher, 'x')
  const cases = [
    token.slice(0, -3),
    `${token.slice(0, 40)}A${token.slice(41)}x`,
    'slipway-sealed-',
    'slipway-sealed-é',
  ]
  for (const text of cases)
    expect(() => openTexts(cipher, { a: [text] }, ['body'])).toThrowError(
      expect.objectContaining({ faults: [expect.objectContaining({ loc: ['body', 'a', 0] })] }),
    )
})
