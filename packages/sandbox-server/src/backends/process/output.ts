import { open, stat } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { lastChars } from '@slipway/shared/text'
import { ignoreErrors } from './host/files.ts'

/** The supervisor writes output to `output`; a full one becomes `output.1`. */
const outputFiles = ['output.1', 'output'] as const

const maxLines = 20
const maxCharacters = 2_000
const tailBytes = 16_384

/**
 * The last lines that a sandbox printed, as plain text: no colours, no control characters. `from`: where the
 * newest start began, unless a new file was begun since.
 */
export async function readLastOutput(root: string, from = 0): Promise<string> {
  const size = await outputSize(root)
  const maxBytes = size < from ? tailBytes : Math.min(tailBytes, size - from)
  if (from > 0 && maxBytes === 0) return ''
  const lines = (await readOutput(root, from > 0 ? maxBytes : tailBytes)).split('\n').slice(-maxLines)
  return lastChars(lines.join('\n'), maxCharacters).trim()
}

/** Of the file that is written. */
export async function outputSize(root: string): Promise<number> {
  return (await ignoreErrors(['ENOENT'], stat(join(root, 'output'))))?.size ?? 0
}

/** The end of what it printed, likewise. */
export async function readOutput(root: string, maxBytes: number): Promise<string> {
  const ends = await Promise.all(outputFiles.map((name) => readTail(join(root, name), maxBytes)))
  return stripControlCharacters(Buffer.concat(ends).subarray(-maxBytes).toString())
}

/** Text of a program that is safe to show. */
export function stripControlCharacters(text: string): string {
  const stripped = stripVTControlCharacters(text).replaceAll(/\r\n?/g, '\n')
  // Also marks of the writing direction, which can change how a line reads.
  return stripped.replaceAll(/[^\n\t\P{C}]|[\u2028\u2029\ufffd]/gu, '').trim()
}

async function readTail(path: string, maxBytes: number): Promise<Buffer> {
  await using file = await ignoreErrors(['ENOENT'], open(path, 'r'))
  if (file === undefined) return Buffer.alloc(0)
  const { size } = await file.stat()
  const length = Math.min(size, maxBytes)
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
  return buffer.subarray(0, bytesRead)
}

export function describeExitCode(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0]
  return signal === undefined ? `It ended with exit code ${code}` : `It was ended by ${signal}`
}
