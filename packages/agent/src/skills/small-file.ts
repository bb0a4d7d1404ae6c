import { constants } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { errorCode, isWithin } from '@slipway/shared/fs'
import { filesFor } from '@slipway/shared/tool-files'

interface SmallFile {
  readonly text: string
  readonly isTruncated: boolean
  /** Absolute, without symbolic links. */
  readonly path: string
}

/**
 * Reads a small untrusted text file, truncated to `maxBytes`; undefined when it does not exist. `within`: a
 * real directory that must contain the file, links resolved. Never hangs (pipes and devices are refused) and
 * never throws; an issue is a sentence that begins with a verb.
 */
export async function readSmallFile(
  path: string,
  { maxBytes, within }: { readonly maxBytes: number; readonly within?: string | undefined },
): Promise<SmallFile | { readonly issue: string } | undefined> {
  const { open, realpath } = filesFor(path)
  try {
    const real = await realpath(path)
    if (within !== undefined && !isWithin(within, real)) return { issue: 'leads out of the workspace' }
    await using file = await open(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
    if (!(await file.stat()).isFile()) return { issue: 'is not a file' }
    const bytes = await readAtMost(file, maxBytes + 1)
    const isTruncated = bytes.length > maxBytes
    const content = bytes.subarray(0, maxBytes)
    if (content.includes(0)) return { issue: 'is a binary file' }
    const text = new TextDecoder('utf-8', { fatal: true }).decode(content, { stream: isTruncated })
    return { text, isTruncated, path: real }
  } catch (error) {
    const code = errorCode(error) ?? 'unknown'
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return { issue: 'is not UTF-8 text' }
    return code === 'ENOENT' || code === 'ENOTDIR' ? undefined : { issue: `cannot be read (${code})` }
  }
}

async function readAtMost(file: FileHandle, max: number): Promise<Buffer> {
  const buffer = Buffer.alloc(max)
  let size = 0
  while (size < max) {
    const { bytesRead } = await file.read(buffer, size, max - size, size)
    if (bytesRead === 0) break
    size += bytesRead
  }
  return buffer.subarray(0, size)
}
