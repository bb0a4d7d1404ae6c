import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ToolError } from '../core/tool-failure.ts'
import { decodeText, encodeText, restoreLineEnds } from './encoding.ts'
import { encodeSingleByte, type SingleByteEncoding } from './single-byte.ts'

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
  [
    'unknown-8-bit',
    Buffer.from([0x61, 0xd7, 0x62, 0xf8, 0xff, 0xe8, 0xfe]),
    'a\u00d7b\u00f8\u00ff\u00e8\u00fe',
  ],
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

/** Texts that are stored in several encodings. */
const texts: Readonly<Record<string, readonly string[]>> = {
  de: ['Grüße aus Köln, schöne Straße', 'x = 1 # größer', '“Ja” – sagte er, für 5 €'],
  fr: ['Où est l’été ? Ça dépend de la façon, à côté', '# modèle: données reçues'],
  es: ['El niño comió en la montaña. ¿Qué pasó?'],
  da: ['rødgrød med fløde på årets første øl'],
  ru: ['Привет, мир! Съешь ещё этих мягких французских булок', 'x = 1  # счётчик', '/* да */ int a;'],
  uk: ['Ґанок і їжак є в Україні'],
  cs: ['Příliš žluťoučký kůň úpěl ďábelské ódy'],
  pl: ['Zażółć gęślą jaźń, proszę o łódź'],
  hu: ['Árvíztűrő tükörfúrógép'],
  tr: ['Pijamalı hasta yağız şoföre çabucak güvendi'],
  el: ['Καλημέρα κόσμε, τι κάνεις'],
}
const stored: readonly (readonly [SingleByteEncoding, readonly string[]])[] = [
  ['windows-1252', ['de', 'fr', 'es', 'da']],
  ['windows-1251', ['ru', 'uk']],
  ['koi8-u', ['ru', 'uk']],
  ['ibm866', ['ru']],
  ['windows-1250', ['cs', 'pl', 'hu']],
  ['iso-8859-2', ['cs', 'pl', 'hu']],
  ['windows-1254', ['tr']],
  ['windows-1253', ['el']],
]
test.each(
  stored.flatMap(([encoding, names]) =>
    names.flatMap((name) => (texts[name] ?? []).map((one) => [encoding, one] as const)),
  ),
)('in %s, "%s" is read as it is or not at all', (encoding, one) => {
  const bytes = encodeSingleByte(one, encoding)
  if (bytes === undefined) return
  const read = decodeText(bytes)
  if (read?.encoding !== 'unknown-8-bit') expect(read?.text).toBe(one)
})

test('the commonest encodings are recognised', () => {
  const longer = (name: string) => (texts[name] ?? []).join('\n')
  for (const [name, encoding] of [
    ['ru', 'windows-1251'],
    ['ru', 'koi8-u'],
    ['de', 'windows-1252'],
    ['fr', 'windows-1252'],
    ['cs', 'windows-1250'],
    ['pl', 'windows-1250'],
    ['el', 'windows-1253'],
  ] as const)
    expect(decodeText(encodeSingleByte(longer(name), encoding) ?? Buffer.alloc(0))).toMatchObject({
      encoding,
      text: longer(name),
    })
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
  expect(() => encodeText({ text: '€', encoding: 'latin-1', lineEnd: '\n' })).toThrow(ToolError)
  expect(() => encodeText({ text: '\ud800', encoding: 'utf-8', lineEnd: '\n' })).toThrow(ToolError)
  expect(() => encodeText({ text: 'a\0', encoding: 'utf-8', lineEnd: '\n' })).toThrow(ToolError)
})

test('the text of a file has the line ends of the file', () => {
  expect(restoreLineEnds({ text: 'a\nb', lineEnd: '\r\n' })).toBe('a\r\nb')
})
