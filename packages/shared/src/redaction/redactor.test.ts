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
