import { open } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { ignoreErrors } from './host/files.ts'

/** The supervisor writes what a sandbox prints to `output`, and begins anew when it is long; the one before is `output.1`. */
export const outputFiles = ['output.1', 'output'] as const

const maxLines = 20
const maxLength = 2_000
const tailBytes = 16_384

/** The last lines that a sandbox printed, as plain text: no colours, no control characters. */
export async function readLastOutput(root: string): Promise<string> {
  const ends = await Promise.all(outputFiles.map((name) => readTail(join(root, name))))
  return stripControlCharacters(ends.join(''))
    .split('\n')
    .slice(-maxLines)
    .join('\n')
    .slice(-maxLength)
    .trim()
}

/** Text that is safe to show, whatever a program printed. */
export function stripControlCharacters(text: string): string {
  const stripped = stripVTControlCharacters(text).replaceAll(/\r\n?/g, '\n')
  // Also what turns the direction of writing, which could make a line read as another.
  return stripped.replaceAll(/[^\n\t\P{C}]|[\u2028\u2029\ufffd]/gu, '').trim()
}

async function readTail(path: string): Promise<string> {
  const file = await ignoreErrors(['ENOENT'], open(path, 'r'))
  if (file === undefined) return ''
  try {
    const { size } = await file.stat()
    const length = Math.min(size, tailBytes)
    const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** What an exit code of a shell tells, in words. */
export function describeExitCode(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0]
  return signal === undefined ? `It ended with exit code ${code}` : `It was ended by ${signal}`
}
