import { constants } from 'node:fs'
import { Problem } from '@slipway/protocol'
import { inRealDirectory, lstat, openReal, readlink } from '@slipway/shared/tool-files'
import type { GitRepository } from './repository.ts'

/** A larger text of a commit is answered by its size: a page can show a note. */
const maxBytes = 1024 * 1024
/** Where git looks for a NUL, which no text has. */
const sampleBytes = 8000

/** Content of a revision's file, like `HEAD:./a.txt`; null when it does not exist. */
export async function readCommittedFile(repository: GitRepository, name: string): Promise<string | null> {
  const size = Number(await repository.runText(['cat-file', '-s', name]))
  const bytes = await repository.runBytes(['cat-file', 'blob', name], maxBytes + 1)
  return bytes === undefined ? null : toDisplayText(bytes, Math.max(size || 0, bytes.length))
}

/**
 * Content of a file in the working tree, of a link its target as git stores it; null when missing. A Problem
 * when it is too large.
 */
export async function readWorkingFile(path: string): Promise<string | null> {
  const stats = await inRealDirectory(path, (held) => lstat(held)).catch(() => undefined)
  if (stats?.isSymbolicLink()) return await inRealDirectory(path, (held) => readlink(held)).catch(() => null)
  if (stats === undefined || !stats.isFile()) return null
  // It may be something else by now; a pipe would never open.
  await using file = await openReal(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => undefined)
  if (file === undefined) return null
  const { size } = await file.stat()
  if (size > maxBytes)
    throw new Problem('bad_request', `File too large for git diff: ${size} bytes (max: ${maxBytes} bytes)`)
  const bytes = Buffer.alloc(Math.min(size, maxBytes + 1))
  const { bytesRead } = await file.read(bytes, 0, bytes.length, 0)
  return toDisplayText(bytes.subarray(0, bytesRead), size)
}

function toDisplayText(bytes: Buffer, sizeBytes: number): string {
  if (bytes.subarray(0, sampleBytes).includes(0)) return `[This is no text: ${sizeBytes} bytes.]`
  if (sizeBytes > maxBytes) return `[This file is larger than 1 MiB: ${sizeBytes} bytes.]`
  return bytes.toString()
}
