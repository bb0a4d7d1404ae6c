import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ToolFailure } from '../core/tool-failure.ts'
import { decodeText, encodeText, restoreLineEnds } from './encoding.ts'

const text = 'Grüße, 世界 😀\n'
const utf16le = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')])
const utf16be = Buffer.concat([Buffer.from([0xfe, 0xff]), Buffer.from(text, 'utf16le').swap16()])

test.each([
  ['utf-8', Buffer.from(text), text],
  ['utf-8-bom', Buffer.from(`\ufeff${text}`), text],
  ['utf-16le', utf16le, text],
  ['utf-16be', utf16be, text],
  ['latin-1', Buffer.from('Grüße\n', 'latin1'), 'Grüße\n'],
  ['utf-8', Buffer.alloc(0), ''],
])('%s is recognised', (encoding, bytes, expected) => {
  expect(decodeText(bytes)).toMatchObject({ encoding, text: expected })
})

test.each([
  ['a NUL', Buffer.from('a\0b')],
  ['UTF-32', Buffer.from([0xff, 0xfe, 0, 0, 0x41, 0, 0, 0])],
  ['many control characters', Buffer.from([0xff, 1, 2, 3, 4, 5])],
  ['a PNG', Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1')],
])('%s is binary', (_, bytes) => {
  expect(decodeText(bytes)).toBeUndefined()
})

test('line ends are unified only where all are the same', () => {
  expect(decodeText(Buffer.from('a\r\nb\r\n'))).toMatchObject({ text: 'a\nb\n', lineEnd: '\r\n' })
  expect(decodeText(Buffer.from('a\r\nb\n'))).toMatchObject({ text: 'a\r\nb\n', lineEnd: '\n' })
  expect(decodeText(Buffer.from('\na\r\n'))).toMatchObject({ lineEnd: '\n' })
})

test('bytes that are text come back as they were', () => {
  const pieces = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.array(fc.constantFrom(0x0a, 0x0d, 0xef, 0xbb, 0xbf, 0xff, 0xfe, 0xe4, 0x61, 0x00), { maxLength: 30 }),
    fc.string({ unit: 'binary' }).map((value) => Buffer.from(value)),
    fc.string({ unit: 'binary' }).map((value) => Buffer.from(`\ufeff${value}`, 'utf16le')),
  )
  fc.assert(
    fc.property(pieces, (values) => {
      const bytes = Buffer.from(values)
      const read = decodeText(bytes)
      if (read !== undefined) expect(encodeText(read).equals(bytes)).toBe(true)
    }),
    { numRuns: 2000 },
  )
})

test('what an encoding cannot express is refused', () => {
  expect(() => encodeText({ text: '€', encoding: 'latin-1', lineEnd: '\n' })).toThrow(ToolFailure)
  expect(() => encodeText({ text: '\ud800', encoding: 'utf-8', lineEnd: '\n' })).toThrow(ToolFailure)
  expect(() => encodeText({ text: 'a\0', encoding: 'utf-8', lineEnd: '\n' })).toThrow(ToolFailure)
})

test('the text of a file has the line ends of the file', () => {
  expect(restoreLineEnds({ text: 'a\nb', lineEnd: '\r\n' })).toBe('a\r\nb')
})
