import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodedForms, outputForms, textForms } from './forms.ts'
import { Redactor } from './redactor.ts'
import { Secret } from './secret.ts'

const redactorOf = (forms: (value: string) => string[], ...values: string[]) => {
  const redactor = new Redactor({ mark: '<redacted>', forms })
  for (const value of values) redactor.add(value)
  return redactor
}

test('a value is redacted as it is, trimmed, in JSON and in JSON within JSON', () => {
  const value = ' pass"word\n'
  const redactor = redactorOf(textForms, value)
  const inJson = JSON.stringify({ text: value })
  for (const text of [value, value.trim(), inJson, JSON.stringify({ inJson })]) {
    const clean = redactor.redact(`before ${text} after`)
    expect(clean).toContain('<redacted>')
    expect(clean).not.toContain('pass')
  }
  expect(redactor.redactJson({ [value]: [value, 1, null] })).toEqual({
    '<redacted>': ['<redacted>', 1, null],
  })
})

test('of two values the longer one is redacted, and values of less than four characters stay', () => {
  const redactor = redactorOf(textForms, 'abcd', 'abcdef', 'xyz')
  expect(redactor.redact('abcdef abcd xyz')).toBe('<redacted> <redacted> xyz')
  expect(redactorOf(textForms, 'xyz').hasValues).toBe(false)
})

test('a value of several lines is redacted also line by line, except for its short lines', () => {
  const redactor = new Redactor({ mark: '<redacted>', forms: outputForms })
  redactor.add(new Secret('BEGIN\n  a line of a key\r\nEND'))
  redactor.add(undefined)
  expect(redactor.redact('1: BEGIN\n2: a line of a key\n3: END')).toBe('1: BEGIN\n2: <redacted>\n3: END')
})

test('the end of a value at the start of a line is redacted', () => {
  const redactor = redactorOf(encodedForms, 'canary-0123456789')
  expect(redactor.redactLineStarts('0123456789 in a\n23456789\nb 0123456789\n3456789')).toBe(
    '<redacted> in a\n<redacted>\nb 0123456789\n3456789',
  )
})

test('encoded forms are found wherever in a text of base64 the value begins', () => {
  const value = 'a secret of some length?>'
  const redactor = redactorOf(encodedForms, value)
  for (const before of ['', 'x', 'xy', 'xyz']) {
    for (const encoding of ['base64', 'base64url', 'hex'] as const) {
      const encoded = Buffer.from(`${before}${value} and more`).toString(encoding)
      expect(redactor.redact(encoded)).toContain('<redacted>')
    }
  }
  expect(redactor.redact(`?key=${encodeURIComponent(value)}`)).toBe('?key=<redacted>')
})

test('a stream in pieces gives what the whole text gives, whatever the pieces', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 40 })
  fc.assert(
    fc.property(fc.array(text, { maxLength: 6 }), fc.array(text, { maxLength: 3 }), (pieces, values) => {
      const redactor = redactorOf(textForms, ...values)
      const stream = redactor.stream()
      const streamed = pieces.map((piece) => stream.add(piece)).join('') + stream.end()
      expect(streamed).toBe(redactor.redact(pieces.join('')))
    }),
  )
})

const key = 'sk-Canary+0123/456789=abcdef?XYZ'
const echoes: readonly [string, string][] = [
  ['as it is', key],
  ['base64', Buffer.from(key).toString('base64')],
  ['base64 for addresses', Buffer.from(key).toString('base64url')],
  ['base64 without padding', Buffer.from(key).toString('base64').replace(/=+$/, '')],
  [
    'base64 in lines',
    Buffer.from(key)
      .toString('base64')
      .replace(/(.{10})/g, '$1\n'),
  ],
  ['Basic', `Basic ${Buffer.from(`user:${key}`).toString('base64')}`],
  ['hex', Buffer.from(key).toString('hex').toUpperCase()],
  ['percent', encodeURIComponent(key)],
  ['percent twice', encodeURIComponent(encodeURIComponent(key))],
  ['JSON escapes', [...key].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')],
  ['JSON in JSON', JSON.stringify(JSON.stringify(`${key}`))],
  ['hex escapes', [...key].map((c) => `\\x${c.charCodeAt(0).toString(16)}`).join('')],
  ['entities', [...key].map((c) => `&#x${c.charCodeAt(0).toString(16)};`).join('')],
  ['decimal entities', [...key].map((c) => `&#${c.charCodeAt(0)};`).join('')],
  ['other case', key.toUpperCase()],
  ['blanks', key.replace(/(.{4})/g, '$1 ')],
  ['lines', key.replace(/(.{9})/g, '$1\r\n\t')],
  ['the beginning', `${key.slice(0, 20)}...`],
  ['the end', `...${key.slice(-20)}`],
]

test.each(echoes)('a known value is found: %s', (_, echo) => {
  const redactor = redactorOf(textForms, key)
  const clean = redactor.redact(`before ${echo} after`)
  expect(clean).toMatch(/^before .*<redacted>.* after$/s)
  const rest = clean.replaceAll('<redacted>', '').replace(/^before |Basic | after$/g, '')
  expect(rest.length).toBeLessThan(12)
  expect(redactor.redact(clean)).toBe(clean)
  // However it is cut, a stream gives the same.
  for (let cut = 0; cut <= echo.length; cut += 7) {
    const stream = redactor.stream()
    const said = stream.add(`before ${echo.slice(0, cut)}`) + stream.add(`${echo.slice(cut)} after`)
    expect(said + stream.end()).toBe(clean)
  }
})

test('a value with a tab, a backslash or an escape inside is found in all its forms', () => {
  for (const value of ['key\twith-a-tab-1', 'C:\\new\\table-9', 'a%41b&amp;c%2541d-efgh', 'ünïcödé-ключ-1'])
    for (const echo of [value, JSON.stringify(value), encodeURIComponent(value), value.toUpperCase()]) {
      const clean = redactorOf(textForms, value).redact(`<${echo}>`)
      expect(clean.replaceAll('"', '')).toBe('<<redacted>>')
    }
})

test('a value of seven characters is found only as it is', () => {
  const redactor = redactorOf(textForms, 'abc-123')
  expect(redactor.redact('abc-123 ABC-123 abc -123')).toBe('<redacted> ABC-123 abc -123')
})

test.each(['secret', 'hidden', 'secret-hidden', '<secret-hidden>', '<sec', 'den>', 'en>x'])(
  'the mark stays as it is when a value is a part of it: %s',
  (value) => {
    const redactor = new Redactor({ mark: '<secret-hidden>', forms: textForms })
    redactor.add(value)
    const once = redactor.redact(`a ${value} b "<secret-hidden>" x`)
    expect(redactor.redact(once)).toBe(once)
    expect(once.match(/hidden/g)?.length).toBe(2)
  },
)

test('stars are no value', () => {
  const redactor = new Redactor({ mark: '**********', forms: textForms })
  redactor.add('****')
  redactor.add('**********')
  expect(redactor.redact('**** ************')).toBe('**** ************')
})

test('the beginnings of addresses, paths and PEM blocks stay', () => {
  const redactor = redactorOf(
    textForms,
    'postgresql://localhost:5432/db?x=1',
    '/usr/share/something/long/enough',
    '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----',
  )
  const text = 'postgresql://localhost:5432/other /usr/share/something/else -----BEGIN PRIVATE KEY-----'
  expect(redactor.redact(text)).toBe(text)
})

test('a megabyte with fifty values takes linear time', () => {
  const values = Array.from({ length: 50 }, (_, at) => `key-${at}-${'0123456789abcdef'.repeat(2)}-${at}`)
  const redactor = redactorOf(encodedForms, ...values)
  const line = 'The quick brown fox jumps over key-7 and "key-" \\n %20 &amp; aGVsbG8gd29ybGQ=.\n'
  const elapsed = (length: number) => {
    const text = line.repeat(length / line.length)
    const start = performance.now()
    redactor.redact(text)
    return performance.now() - start
  }
  elapsed(100_000)
  // A bound that a loaded machine keeps: one value at a time takes seconds.
  expect(elapsed(1_000_000)).toBeLessThan(2_000)
})

test('JSON stays JSON where a value begins or ends with a character that JSON escapes', () => {
  const redactor = redactorOf(textForms, '"quoted-value-1"')
  const once = JSON.stringify({ text: 'say "QUOTED-value-1" now' })
  expect(JSON.parse(redactor.redact(once))).toEqual({ text: 'say <redacted> now' })
  const twice = JSON.stringify({ once })
  expect(JSON.parse(JSON.parse(redactor.redact(twice)).once)).toEqual({ text: 'say <redacted> now' })
})

test.each([
  [
    'the header of another token',
    `eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.${'a1'.repeat(20)}`,
    'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.b2',
  ],
  [
    'the rest of a connection string',
    'DefaultEndpointsProtocol=https;AccountName=a;AccountKey=b1c2d3e4==;EndpointSuffix=core.windows.net',
    'DefaultEndpointsProtocol=https is set, and EndpointSuffix=core.windows.net',
  ],
  [
    'another host of a provider',
    'mine-0123456789.abcdef.eu-west-1.rds.amazonaws.com',
    'other.eu-west-1.rds.amazonaws.com',
  ],
  ['a word in other case', 'postgres', 'PostgreSQL POSTGRES_USER'],
  ['a broken word', 'changeit', 'change it'],
  ['numbers in lines', '12345678', '1234\n5678'],
])('an ordinary text is shown: %s', (_, value, text) => {
  expect(redactorOf(textForms, value).redact(text)).toBe(text)
})
