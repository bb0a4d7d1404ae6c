import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, rename, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { getSystemErrorMessage } from 'node:util'
import { PathNotAllowedError } from '../../workspace/workspace.ts'

// Between the check of a path by the workspace and its use here another process may put a link in its way: a last
// part that became a link is refused (O_NOFOLLOW), a directory that became one is not noticed. A process that can do
// that has the rights of this one already.

/** What a conversation keeps for itself is for nobody else on the machine. */
export const privateFileMode = 0o600

/** Files above this are neither read nor edited. */
export const maxFileBytes = 10 * 1024 * 1024

/** Something that a file tool does not do, and why; the text is for the model. */
export class ToolFailure extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ToolFailure'
  }
}

/** What a failure of the world means to the model; undefined when the fault is ours. */
export function failureText(error: unknown): string | undefined {
  if (error instanceof ToolFailure || error instanceof PathNotAllowedError) return error.message
  if (!isSystemError(error)) return undefined
  return `The system refused it: ${getSystemErrorMessage(error.errno)} (${error.code}).`
}

interface SystemError extends Error {
  readonly code: string
  readonly errno: number
}

function isSystemError(error: unknown): error is SystemError {
  return (
    error instanceof Error &&
    'syscall' in error &&
    'code' in error &&
    typeof error.code === 'string' &&
    'errno' in error &&
    typeof error.errno === 'number'
  )
}

export interface FileContent {
  readonly bytes: Buffer
  readonly stats: Stats
}

/** What a path is, without following a link in its last part; undefined when nothing is there. */
export async function lstatIfExists(real: string): Promise<Stats | undefined> {
  try {
    return await lstat(real)
  } catch (error) {
    if (isSystemError(error) && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return undefined
    throw error
  }
}

/** All of a regular file; undefined when nothing is there. Rejects with Refused for anything else and above `max`. */
export async function readFileIfExists(real: string, max = maxFileBytes): Promise<FileContent | undefined> {
  const linkStats = await lstatIfExists(real)
  if (linkStats === undefined) return undefined
  assertRegularFile(real, linkStats)
  // Not blocking: a pipe that has just taken the place of the file must not hold the thread that opens it.
  await using file = await open(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  const stats = await file.stat()
  assertRegularFile(real, stats)
  return { bytes: await readBounded(file, stats.size, { real, max }), stats }
}

/** As `readIfThere`, but the file must be there. */
export async function readExistingFile(real: string): Promise<FileContent> {
  const content = await readFileIfExists(real)
  if (content === undefined) throw new ToolFailure(`There is no file ${real}.`)
  return content
}

/** Reads to the end, or to one byte above the limit: the size that a file states may be 0 (in /proc) or out of date. */
async function readBounded(
  file: FileHandle,
  size: number,
  { real, max }: { readonly real: string; readonly max: number },
): Promise<Buffer> {
  const tooLarge = `${real} is larger than ${max} bytes, which is the limit of this tool. Look at parts of it with a command in the terminal.`
  if (size > max) throw new ToolFailure(tooLarge)
  const chunks: Buffer[] = []
  let length = 0
  for (;;) {
    const room = Math.min(max + 1 - length, Math.max(size + 1 - length, 65_536))
    const { bytesRead, buffer } = await file.read(Buffer.alloc(room), 0, room)
    if (bytesRead === 0) return Buffer.concat(chunks)
    chunks.push(buffer.subarray(0, bytesRead))
    length += bytesRead
    if (length > max) throw new ToolFailure(tooLarge)
  }
}

function assertRegularFile(real: string, stats: Stats): void {
  if (stats.isFile()) return
  if (stats.isDirectory()) throw new ToolFailure(`${real} is a directory, not a file.`)
  throw new ToolFailure(`${real} is not a regular file (it is a device, a pipe, a socket or a link).`)
}

/**
 * Puts bytes in the place of a file at once: a reader sees the old ones or the new ones, and a crash leaves one of them. The mode
 * bits stay, and the owner where the rights suffice. Another name of the same file (a hard link) keeps the old bytes.
 * Rejects with Refused for a file that nobody may write, and for what is not a file. A file that was not there gets `newMode`,
 * less what the process takes away from it.
 */
export async function replaceFile(real: string, bytes: Uint8Array, newMode = 0o666): Promise<void> {
  const oldStats = await lstatIfExists(real)
  if (oldStats !== undefined) assertWritable(real, oldStats)
  const temporary = join(dirname(real), `.slipway-${randomBytes(8).toString('hex')}.tmp`)
  const file = await open(temporary, 'wx', oldStats === undefined ? newMode : 0o600)
  try {
    await writeAndSync(file, bytes, oldStats)
    await rename(temporary, real)
  } catch (error) {
    await unlink(temporary).catch(() => {})
    throw error
  }
}

async function writeAndSync(file: FileHandle, bytes: Uint8Array, oldStats: Stats | undefined): Promise<void> {
  try {
    await file.writeFile(bytes)
    if (oldStats !== undefined) {
      // Without the right to give a file away it becomes ours, as with any editor.
      await file.chown(oldStats.uid, oldStats.gid).catch(() => {})
      await file.chmod(oldStats.mode & 0o7777)
    }
    await file.sync()
  } finally {
    await file.close()
  }
}

/** By the mode bits, so that it holds for root too. */
function assertWritable(real: string, stats: Stats): void {
  assertRegularFile(real, stats)
  if ((stats.mode & 0o222) === 0)
    throw new ToolFailure(
      `${real} is read-only (mode ${(stats.mode & 0o777).toString(8)}). Change its mode first if it may be written.`,
    )
}

/** The bytes, or Refused when a file of them could not be read again. */
export function checkFileSize(path: string, bytes: Buffer): Buffer {
  if (bytes.length <= maxFileBytes) return bytes
  throw new ToolFailure(
    `${path} would become larger than ${maxFileBytes} bytes, which is the limit of this tool.`,
  )
}

/** Makes a file that is not there yet; rejects with Refused when something is. */
export async function createFile(real: string, bytes: Uint8Array): Promise<void> {
  const file = await open(real, 'wx').catch((error: unknown) => {
    if (isSystemError(error) && error.code === 'EEXIST') throw new ToolFailure(`${real} is already there.`)
    throw error
  })
  try {
    await writeAndSync(file, bytes, undefined)
  } catch (error) {
    await unlink(real).catch(() => {})
    throw error
  }
}

const fileQueues = new Map<string, Promise<unknown>>()

/** Runs what reads and then writes a file alone: of two edits of one file in this process, by whatever path, neither is lost. */
export async function runExclusive<T>(real: string, task: () => Promise<T>): Promise<T> {
  const previous = fileQueues.get(real) ?? Promise.resolve()
  const current = previous.then(task, task)
  fileQueues.set(real, current)
  try {
    return await current
  } finally {
    if (fileQueues.get(real) === current) fileQueues.delete(real)
  }
}
