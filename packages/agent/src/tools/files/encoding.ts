import { isUtf8 } from 'node:buffer'
import { ToolFailure } from '../core/tool-failure.ts'

export type Encoding = 'utf-8' | 'utf-8-bom' | 'utf-16le' | 'utf-16be' | 'latin-1'

export interface TextFile {
  /** With `\n` line ends when `lineEnd` is `\r\n`; otherwise as in the file. */
  readonly text: string
  readonly encoding: Encoding
  readonly lineEnd: '\n' | '\r\n'
}

export const utf8Format: Omit<TextFile, 'text'> = { encoding: 'utf-8', lineEnd: '\n' }

const byteOrderMark = '\ufeff'
/** Bytes with a larger share of unusual control characters are binary. */
const maxControlShare = 0.1

/** The text of a file; undefined when it is binary. `encodeText` restores the same bytes. */
export function decodeText(bytes: Buffer): TextFile | undefined {
  const encoding = detectEncoding(bytes)
  if (encoding === undefined) return undefined
  const text = decodeBytes(bytes, encoding)
  const lineEnd = text.includes('\r\n') && !/(?:^|[^\r])\n/.test(text) ? '\r\n' : '\n'
  return { text: lineEnd === '\n' ? text : text.replaceAll('\r\n', '\n'), encoding, lineEnd }
}

/** The text of a file; throws ToolFailure when it is binary. */
export function requireText(path: string, bytes: Buffer): TextFile {
  const text = decodeText(bytes)
  if (text === undefined)
    throw new ToolFailure(`${path} is a binary file. Look into it with a command in the terminal.`)
  return text
}

/**
 * The bytes of a text with the encoding and line ends of its file. Throws ToolFailure when they cannot
 * express it.
 */
export function encodeText({ text, encoding, lineEnd }: TextFile): Buffer {
  const fullText = restoreLineEnds({ text, lineEnd })
  if (encoding === 'utf-16le') return Buffer.from(byteOrderMark + fullText, 'utf16le')
  if (encoding === 'utf-16be') return Buffer.from(byteOrderMark + fullText, 'utf16le').swap16()
  if (fullText.includes('\0'))
    throw new ToolFailure('The text contains a NUL character, so the file would not be a text file.')
  if (encoding === 'latin-1') {
    if (!isLatin1(fullText))
      throw new ToolFailure(
        'The file is encoded in Latin-1, which cannot express all of the new text. Use characters up to U+00FF, or convert the file to UTF-8 first.',
      )
    return Buffer.from(fullText, 'latin1')
  }
  if (!fullText.isWellFormed())
    throw new ToolFailure('The text contains half of a surrogate pair, which UTF-8 cannot express.')
  return Buffer.from(encoding === 'utf-8-bom' ? byteOrderMark + fullText : fullText)
}

/** The text with the line ends of the file. */
export function restoreLineEnds({ text, lineEnd }: Pick<TextFile, 'text' | 'lineEnd'>): string {
  return lineEnd === '\n' ? text : text.replaceAll('\n', '\r\n')
}

/** A text of a model, with the line ends of `TextFile.text`. */
export function normalizeLineEnds(input: string, { lineEnd }: Pick<TextFile, 'lineEnd'>): string {
  return lineEnd === '\n' ? input : input.replaceAll('\r\n', '\n')
}

function detectEncoding(bytes: Buffer): Encoding | undefined {
  const isEven = bytes.length % 2 === 0
  if (bytes[0] === 0xff && bytes[1] === 0xfe && isEven && !(bytes[2] === 0 && bytes[3] === 0))
    return 'utf-16le'
  if (bytes[0] === 0xfe && bytes[1] === 0xff && isEven) return 'utf-16be'
  if (bytes.includes(0)) return undefined
  if (!isUtf8(bytes)) return hasManyControlCharacters(bytes) ? undefined : 'latin-1'
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 'utf-8-bom' : 'utf-8'
}

function decodeBytes(bytes: Buffer, encoding: Encoding): string {
  if (encoding === 'utf-16le') return bytes.toString('utf16le', 2)
  if (encoding === 'utf-16be') return Buffer.from(bytes.subarray(2)).swap16().toString('utf16le')
  if (encoding === 'latin-1') return bytes.toString('latin1')
  return bytes.toString('utf8', encoding === 'utf-8-bom' ? 3 : 0)
}

function hasManyControlCharacters(bytes: Buffer): boolean {
  let controls = 0
  for (const byte of bytes) {
    const isUsual = (byte >= 0x08 && byte <= 0x0d) || byte === 0x1b
    if ((byte < 0x20 && !isUsual) || byte === 0x7f) controls++
  }
  return controls > bytes.length * maxControlShare
}

export function isLatin1(text: string): boolean {
  return !/[^\0-\xff]/.test(text)
}
