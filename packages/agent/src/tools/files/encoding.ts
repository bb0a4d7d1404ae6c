import { isUtf8 } from 'node:buffer'
import { ToolError } from '../core/tool-failure.ts'
import {
  decodeSingleByte,
  detectSingleByte,
  encodeSingleByte,
  type SingleByteEncoding,
} from './single-byte.ts'

type UnicodeEncoding = 'utf-8' | 'utf-8-bom' | 'utf-16le' | 'utf-16be'

/** `unknown-8-bit`: one byte for each character, above 127 of unknown meaning; read as Latin-1. */
export type Encoding = 'utf-8' | 'utf-8-bom' | 'utf-16le' | 'utf-16be' | 'unknown-8-bit' | SingleByteEncoding

export interface TextFile {
  /** With `\n` line ends when all are `\r\n`, or all `\r`; otherwise as in the file. */
  readonly text: string
  readonly encoding: Encoding
  readonly lineEnd: LineEnd
}

type LineEnd = '\n' | '\r\n' | '\r'

export const utf8Format: Omit<TextFile, 'text'> = { encoding: 'utf-8', lineEnd: '\n' }

const byteOrderMark = '\ufeff'
/** Bytes with a larger share of unusual control characters are binary. */
const maxControlShare = 0.1

/** The text of a file; undefined when it is binary. `encodeText` restores the same bytes. */
export function decodeText(bytes: Buffer): TextFile | undefined {
  const encoding = detectEncoding(bytes)
  if (encoding === undefined) return undefined
  const text = decodeBytes(bytes, encoding)
  const lineEnd = detectLineEnd(text)
  return { text: lineEnd === '\n' ? text : text.replaceAll(lineEnd, '\n'), encoding, lineEnd }
}

/** `\n` also for a file of several. */
function detectLineEnd(text: string): LineEnd {
  if (!text.includes('\n')) return text.includes('\r') ? '\r' : '\n'
  return text.includes('\r\n') && !/(?:^|[^\r])\n/.test(text) ? '\r\n' : '\n'
}

/** The text of a file; throws ToolError when it is binary. */
export function requireText(path: string, bytes: Buffer): TextFile {
  const text = decodeText(bytes)
  if (text === undefined)
    throw new ToolError(`${path} is a binary file. Look into it with a command in the terminal.`)
  return text
}

/**
 * The bytes of a text with the encoding and line ends of its file. Throws ToolError when they cannot
 * express it.
 */
export function encodeText({ text, encoding, lineEnd }: TextFile): Buffer {
  const fullText = restoreLineEnds({ text, lineEnd })
  if (encoding === 'utf-16le') return Buffer.from(byteOrderMark + fullText, 'utf16le')
  if (encoding === 'utf-16be') return Buffer.from(byteOrderMark + fullText, 'utf16le').swap16()
  if (fullText.includes('\0'))
    throw new ToolError('The text contains a NUL character, so the file would not be a text file.')
  if (!isUnicode(encoding)) {
    const bytes = encodeSingleByte(fullText, singleByte(encoding))
    if (bytes !== undefined) return bytes
    throw new ToolError(`The file is encoded in ${encoding}, which cannot express all of the new text.`)
  }
  if (!fullText.isWellFormed())
    throw new ToolError('The text contains half of a surrogate pair, which UTF-8 cannot express.')
  return Buffer.from(encoding === 'utf-8-bom' ? byteOrderMark + fullText : fullText)
}

/**
 * A new text for a file: in its encoding, or in UTF-8 when that cannot express it, which `note` tells the
 * model. Throws ToolError for new characters besides ASCII in a file of an unknown encoding.
 */
export function encodeChange(
  oldFile: TextFile,
  text: string,
): { readonly file: TextFile; readonly bytes: Buffer; readonly note: string } {
  const file = { ...oldFile, text }
  const { encoding } = oldFile
  if (encoding === 'unknown-8-bit' && hasNewCharacters(oldFile.text, text))
    throw new ToolError(
      'The encoding of the file is not known, so new characters besides ASCII would be wrong in it. Convert it to UTF-8 with a command in the terminal first, for example with iconv.',
    )
  if (isUnicode(encoding) || encodeSingleByte(text, singleByte(encoding)) !== undefined)
    return { file, bytes: encodeText(file), note: '' }
  const upgraded: TextFile = { ...file, encoding: 'utf-8' }
  const note = `\n[The file was encoded in ${encoding}, which lacks a character of the new text: it is UTF-8 now.]`
  return { file: upgraded, bytes: encodeText(upgraded), note }
}

/** Whether a character besides ASCII occurs more often than before. */
function hasNewCharacters(before: string, after: string): boolean {
  const count = (text: string) => {
    const counts = new Map<string, number>()
    for (const [char] of text.matchAll(/[^\0-\x7f]/g)) counts.set(char, (counts.get(char) ?? 0) + 1)
    return counts
  }
  const known = count(before)
  return [...count(after)].some(([char, times]) => times > (known.get(char) ?? 0))
}

/** The text with the line ends of the file. */
export function restoreLineEnds({ text, lineEnd }: Pick<TextFile, 'text' | 'lineEnd'>): string {
  return lineEnd === '\n' ? text : text.replaceAll('\n', lineEnd)
}

/** A text of a model, with the line ends of `TextFile.text`. */
export function normalizeLineEnds(input: string, { lineEnd }: Pick<TextFile, 'lineEnd'>): string {
  if (lineEnd === '\n') return input
  const text = input.replaceAll('\r\n', '\n')
  return lineEnd === '\r' ? text.replaceAll('\r', '\n') : text
}

function detectEncoding(bytes: Buffer): Encoding | undefined {
  const isEven = bytes.length % 2 === 0
  if (bytes[0] === 0xff && bytes[1] === 0xfe && isEven && !(bytes[2] === 0 && bytes[3] === 0))
    return 'utf-16le'
  if (bytes[0] === 0xfe && bytes[1] === 0xff && isEven) return 'utf-16be'
  if (bytes.includes(0)) return undefined
  if (!isUtf8(bytes))
    return hasManyControlCharacters(bytes) ? undefined : (detectSingleByte(bytes) ?? 'unknown-8-bit')
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 'utf-8-bom' : 'utf-8'
}

function decodeBytes(bytes: Buffer, encoding: Encoding): string {
  if (encoding === 'utf-16le') return bytes.toString('utf16le', 2)
  if (encoding === 'utf-16be') return Buffer.from(bytes.subarray(2)).swap16().toString('utf16le')
  if (!isUnicode(encoding)) return decodeSingleByte(bytes, singleByte(encoding))
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

function isUnicode(encoding: Encoding): encoding is UnicodeEncoding {
  return encoding.startsWith('utf-')
}

function singleByte(encoding: Exclude<Encoding, UnicodeEncoding>): SingleByteEncoding {
  return encoding === 'unknown-8-bit' ? 'latin-1' : encoding
}
