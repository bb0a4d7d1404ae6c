import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { KeyedMutex } from '@slipway/shared/async'
import { errorCode } from '@slipway/shared/fs'
import {
  inRealDirectory,
  lstat,
  open,
  openReal,
  rename,
  rm,
  toolUser,
  unlink,
} from '@slipway/shared/tool-files'
import { ToolError } from './tool-failure.ts'

// Paths here were resolved and checked by the workspace, so they have no links. Another process may put one
// into a part of the path before it is used here, and would read and write outside of its sandbox so: each
// access goes through the directory of the file, which is opened without following any (`inRealDirectory`).

/** Mode of a conversation's own files: other users of the machine cannot read them. */
export const privateFileMode = 0o600

/** Larger files are neither read nor edited. */
export const maxFileBytes = 10 * 1024 * 1024

interface FileContent {
  readonly bytes: Buffer
  readonly stats: Stats
}

/** The stats of a path, without following a link in its last part; undefined when it does not exist. */
export async function lstatIfExists(real: string): Promise<Stats | undefined> {
  return await inRealDirectory(real, (path) => lstat(path)).catch(undefinedIfMissing)
}

function undefinedIfMissing(error: unknown): undefined {
  if (!['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) throw error
}

/** Removes a file. */
export async function removeFile(real: string, options: { readonly force?: boolean } = {}): Promise<void> {
  await inRealDirectory(real, (path) => rm(path, options))
}

export async function moveFile(real: string, target: string): Promise<void> {
  await inRealDirectory(real, (from) => inRealDirectory(target, (to) => rename(from, to)))
}

/**
 * A whole regular file; undefined when nothing exists. Rejects with ToolError for anything else and above
 * `max`.
 */
export async function readFileIfExists(real: string, max = maxFileBytes): Promise<FileContent | undefined> {
  const linkStats = await lstatIfExists(real)
  if (linkStats === undefined) return undefined
  assertRegularFile(real, linkStats)
  // Non-blocking: a pipe that replaced the file must not block the thread that opens it.
  await using file = await openReal(real, constants.O_RDONLY | constants.O_NONBLOCK)
  const stats = await file.stat()
  assertRegularFile(real, stats)
  return { bytes: await readBounded(file, stats.size, real, max), stats }
}

/** As `readFileIfExists`, but the file must exist. */
export async function readExistingFile(real: string): Promise<FileContent> {
  const content = await readFileIfExists(real)
  if (content === undefined) throw new ToolError(`There is no file ${real}.`)
  return content
}

/** Reads to the end, or to one byte above the limit: the stated size may be 0 (in /proc) or out of date. */
async function readBounded(file: FileHandle, size: number, real: string, max: number): Promise<Buffer> {
  const tooLarge = `${real} is larger than ${max} bytes, which is the limit of this tool. Look at parts of it with a command in the terminal.`
  if (size > max) throw new ToolError(tooLarge)
  const chunks: Buffer[] = []
  let length = 0
  for (;;) {
    const room = Math.min(max + 1 - length, Math.max(size + 1 - length, 65_536))
    const { bytesRead, buffer } = await file.read(Buffer.alloc(room), 0, room)
    if (bytesRead === 0) return Buffer.concat(chunks)
    chunks.push(buffer.subarray(0, bytesRead))
    length += bytesRead
    if (length > max) throw new ToolError(tooLarge)
  }
}

function assertRegularFile(real: string, stats: Stats): void {
  if (stats.isFile()) return
  if (stats.isDirectory()) throw new ToolError(`${real} is a directory, not a file.`)
  throw new ToolError(`${real} is not a regular file (it is a device, a pipe, a socket or a link).`)
}

/**
 * Replaces a file atomically: a reader, or a crash, sees the old bytes or the new ones. Preserves the mode,
 * and the owner where permitted; other hard links keep the old bytes (`replaceLinkedFile` does not). Rejects
 * with ToolError for a read-only file and for anything that is not a file. A new file gets `newMode` less the
 * umask.
 */
export async function replaceFile(real: string, bytes: Uint8Array, newMode = 0o666): Promise<void> {
  await inRealDirectory(real, async (path) => {
    const oldStats = await lstat(path).catch(undefinedIfMissing)
    if (oldStats !== undefined) assertWritable(real, oldStats)
    const temporary = join(dirname(path), `.slipway-${randomBytes(8).toString('hex')}.tmp`)
    await writeNewFile(temporary, bytes, oldStats ?? newMode)
    try {
      await rename(temporary, path)
    } catch (error) {
      await unlink(temporary).catch(() => {})
      throw error
    }
  })
}

/** Checks the mode bits, so that it holds for root too. */
function assertWritable(real: string, stats: Stats): void {
  assertRegularFile(real, stats)
  if ((stats.mode & 0o222) === 0)
    throw new ToolError(
      `${real} is read-only (mode ${(stats.mode & 0o777).toString(8)}). Change its mode first if it may be written.`,
    )
}

/** Returns the bytes; throws ToolError when the file would be too large to read again. */
export function checkFileSize(path: string, bytes: Buffer): Buffer {
  if (bytes.length <= maxFileBytes) return bytes
  throw new ToolError(
    `${path} would become larger than ${maxFileBytes} bytes, which is the limit of this tool.`,
  )
}

/** -1 stands for the owner that a new file has. */
type Owned = Pick<Stats, 'mode' | 'uid' | 'gid'>

/**
 * Creates a file with a mode less the umask, or with the mode and owner of another; rejects with ToolError
 * when the path exists.
 */
export async function createFile(
  real: string,
  bytes: Uint8Array,
  like: number | Owned = 0o666,
): Promise<void> {
  await inRealDirectory(real, (path) => writeNewFile(path, bytes, like)).catch((error: unknown) => {
    if (errorCode(error) === 'EEXIST') throw new ToolError(`${real} is already there.`)
    throw error
  })
}

async function writeNewFile(path: string, bytes: Uint8Array, like: number | Owned): Promise<void> {
  const file = await open(path, 'wx', typeof like === 'number' ? like : 0o600)
  try {
    await file.writeFile(bytes)
    if (typeof like !== 'number') {
      // Without permission the owner changes, as with any editor.
      if (toolUser() === undefined) await file.chown(like.uid, like.gid).catch(() => {})
      // This process may be root, which could make the file one that gives its rights away.
      await file.chmod(like.mode & (toolUser() === undefined ? 0o7777 : 0o777))
    }
    await file.sync()
  } catch (error) {
    await unlink(path).catch(() => {})
    throw error
  } finally {
    await file.close()
  }
}

/** Serializes reading and writing of a file, by real path, so that no edit of this process is lost. */
export const fileMutex = new KeyedMutex()

/** Runs work that changes files: in the order of their paths, so that two such never wait for each other. */
export async function withFileLocks<T>(paths: readonly string[], work: () => Promise<T>): Promise<T> {
  const [path, ...others] = [...new Set(paths)].sort()
  if (path === undefined) return await work()
  return await fileMutex.runExclusive(path, () => withFileLocks(others, work))
}
