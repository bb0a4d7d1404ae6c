import { redactedText } from '@slipway/shared/redaction'
import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { exposeSecrets, redactSecrets } from './expose-secrets.ts'
import { openSealedTexts, sealText } from './sealed-text.ts'

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

test('redaction keeps the members that describe a secret', () => {
  expect(redactSecrets(value, redactedText)).toEqual({
    text: 'plain',
    api_key: redactedText,
    count: 5,
    env: { PASSWORD: redactedText, ON: true, NAME: redactedText },
    auth: {
      strategy: 'oauth2',
      type: 'oauth',
      scopes: ['a'],
      client_secret: redactedText,
      state: { tokens: { x: redactedText } },
    },
    secrets: {
      A: { kind: 'StaticSecret', value: redactedText, description: 'd' },
      B: { kind: 'LookupSecret', url: 'https://****@h/?key=****', headers: { H: redactedText } },
      C: redactedText,
    },
  })
})

test('sealed secrets are opened unchanged: numbers, lone surrogates, texts that look sealed', async () => {
  using place = temporaryDirectory()
  const cipher = await Cipher.open({ directory: place.path, secretKey: undefined })
  const odd = {
    ...value,
    half: 'x',
    token: '\ud800half',
    looks: 'slipway-sealed-x',
    list: ['slipway-sealed-'],
  }
  const sent = exposeSecrets(odd, 'encrypted', { cipher, placeholder: null })
  expect(sent.env).toMatchObject({ PASSWORD: expect.stringMatching(/^gAAAAA/), ON: true })
  expect(openSealedTexts(cipher, JSON.parse(JSON.stringify(sent)), [])).toEqual(odd)
})

test('a truncated, modified or empty token is refused with its place', async () => {
  using place = temporaryDirectory()
  const cipher = await Cipher.open({ directory: place.path, secretKey: undefined })
  const token = sealText(cipher, 'x')
  const cases = [
    token.slice(0, -3),
    `${token.slice(0, 40)}A${token.slice(41)}x`,
    'slipway-sealed-',
    'slipway-sealed-é',
  ]
  for (const text of cases)
    expect(() => openSealedTexts(cipher, { a: [text] }, ['body'])).toThrowError(
      expect.objectContaining({ issues: [expect.objectContaining({ loc: ['body', 'a', 0] })] }),
    )
})
