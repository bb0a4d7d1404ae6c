import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { Problem } from '@slipway/protocol'
import { errorCode, isWithin } from '@slipway/shared/fs'
import {
  inRealDirectory,
  lstat,
  makeRealDirectory,
  open,
  openReal,
  realpath,
  rename,
  rm,
  rmdir,
  toolUser,
} from '@slipway/shared/tool-files'
import { assertServedFolder } from './server-files.ts'

/** Of the system. */
const maxPathBytes = 4095
const blockBytes = 256 * 1024

/** The path; a Problem `bad_request` when it is not absolute or not valid. */
export function assertAbsolutePath(path: string): string {
  if (!isAbsolute(path)) throw new Problem('bad_request', 'Path must be absolute')
  if (path.includes('\0')) throw new Problem('bad_request', 'The path contains a NUL byte')
  if (Buffer.byteLength(path) > maxPathBytes) throw new Problem('bad_request', 'The path is too long')
  return path
}

/**
 * Writes a file and missing directories, all or nothing, and returns its size. A replaced file keeps its
 * mode; links are followed, as long as they stay within the real path of `root`, if there is one. A Problem
 * `forbidden` for the server's own files.
 */
export async function saveFile(
  path: string,
  bytes: AsyncIterable<Buffer>,
  { root, dataDirectory }: { readonly root?: string | undefined; readonly dataDirectory: string },
): Promise<number> {
  const requestedPath = assertAbsolutePath(path)
  try {
    const target = await resolveNewFile(requestedPath)
    await assertWithin(root, target)
    await assertServedFolder(dirname(target), dataDirectory)
    const firstCreatedDirectory = await makeRealDirectory(dirname(target))
    try {
      return await inRealDirectory(target, (held) => replaceFile(held, bytes))
    } catch (error) {
      if (firstCreatedDirectory !== undefined)
        await removeEmptyDirectories(dirname(target), firstCreatedDirectory)
      throw error
    }
  } catch (error) {
    throw toFileProblem(error, 'bad_request')
  }
}

/** The real path of a file, or of what exists of its path with the rest. */
async function resolveNewFile(path: string): Promise<string> {
  const missing: string[] = []
  for (let existing = resolve(path); ; existing = dirname(existing)) {
    const real = await realpath(existing === resolve(path) ? path : existing).catch((error: unknown) => {
      if (!['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '') || existing === dirname(existing))
        throw error
      return undefined
    })
    if (real !== undefined) return join(real, ...missing)
    missing.unshift(basename(existing))
  }
}

/** Throws a Problem `invalid` for a real path outside of a root; without one every path is within. */
async function assertWithin(root: string | undefined, real: string): Promise<void> {
  if (root === undefined || isWithin(await realpath(root).catch(() => resolve(root)), real)) return
  throw new Problem('invalid', 'path must be inside the conversation workspace')
}

/** `path`: in a directory that is held open. */
async function replaceFile(path: string, bytes: AsyncIterable<Buffer>): Promise<number> {
  const existing = await statReplaceable(path)
  const temporaryPath = join(dirname(path), `.slipway-${randomBytes(8).toString('hex')}.upload`)
  try {
    const sizeBytes = await writeTemporaryFile(temporaryPath, bytes, existing)
    await rename(temporaryPath, path)
    return sizeBytes
  } catch (error) {
    await rm(temporaryPath, { force: true }).catch(() => {})
    throw error
  }
}

export interface FoundFile {
  /** Without links. */
  readonly real: string
  readonly size: number
}

/**
 * A regular file, within the real path of `root` if there is one; a Problem for anything else: a pipe or a
 * device may never end.
 */
export async function findFile(path: string, root?: string): Promise<FoundFile> {
  try {
    const real = await realpath(assertAbsolutePath(path))
    await assertWithin(root, real)
    const { size } = assertRegularFile(await inRealDirectory(real, (held) => lstat(held)))
    return { real, size }
  } catch (error) {
    throw toFileProblem(error, 'not_found', 'File not found')
  }
}

/**
 * The bytes of a regular file: as many as announced, or all when that is 0, as for files of the system. A
 * Problem also when the file became shorter.
 */
export async function* readFileBytes({ real, size: announcedBytes }: FoundFile): AsyncGenerator<Buffer> {
  const limit = announcedBytes === 0 ? Number.POSITIVE_INFINITY : announcedBytes
  try {
    // Without blocking, in case it is a pipe by now.
    await using file = await openReal(real, constants.O_RDONLY | constants.O_NONBLOCK)
    assertRegularFile(await file.stat())
    let offset = 0
    while (offset < limit) {
      const block = Buffer.allocUnsafe(Math.min(blockBytes, limit - offset))
      const { bytesRead } = await file.read(block, 0, block.length)
      if (bytesRead === 0) break
      offset += bytesRead
      yield block.subarray(0, bytesRead)
    }
    if (offset < announcedBytes) throw new Problem('conflict', 'The file became shorter while it was read')
  } catch (error) {
    throw toFileProblem(error, 'not_found')
  }
}

/** Creates a directory and its missing parents, within the real path of `root` if there is one. */
export async function createDirectory(path: string, root?: string): Promise<void> {
  const directory = assertAbsolutePath(path)
  try {
    const real = await resolveNewFile(directory)
    await assertWithin(root, real)
    await makeRealDirectory(real)
  } catch (error) {
    if (['EEXIST', 'ENOTDIR'].includes(errorCode(error) ?? ''))
      throw new Problem('bad_request', 'Path exists and is not a directory')
    throw toFileProblem(error, 'bad_request')
  }
}

/** The value of a Content-Disposition header with the last name of a path, of any characters (RFC 6266). */
export function contentDisposition(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1).toWellFormed()
  const plain = name.replaceAll(/[^ !#-$&-[\]-~]/g, '_')
  if (plain === name) return `attachment; filename="${name}"`
  const encoded = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}

const problemsByCode: Readonly<
  Record<string, readonly ['forbidden' | 'bad_request' | 'storage_full' | 'unavailable', string]>
> = {
  EACCES: ['forbidden', 'Permission denied'],
  EPERM: ['forbidden', 'Permission denied'],
  EROFS: ['forbidden', 'The file system is read-only'],
  ENOSPC: ['storage_full', 'The disk is full'],
  EDQUOT: ['storage_full', 'The disk quota is used up'],
  EFBIG: ['storage_full', 'The file is larger than files may be here'],
  EMFILE: ['unavailable', 'Too many files are open'],
  ENFILE: ['unavailable', 'Too many files are open'],
  ENOTDIR: ['bad_request', 'A part of the path is not a directory'],
  EISDIR: ['bad_request', 'Path is a directory'],
  ELOOP: ['bad_request', 'The path has too many links'],
  ENAMETOOLONG: ['bad_request', 'The path is too long'],
}

/** A system error as a Problem, any other error unchanged. */
export function toFileProblem(
  error: unknown,
  missingCode: 'not_found' | 'bad_request',
  missingText = 'There is no such file or directory',
): unknown {
  if (error instanceof Problem || !(error instanceof Error) || !('syscall' in error)) return error
  const code = errorCode(error) ?? ''
  if (code === 'ENOENT') return new Problem(missingCode, missingText)
  const [problem, text] = problemsByCode[code] ?? ['bad_request', `The path cannot be used so (${code})`]
  return new Problem(problem, text)
}

function assertRegularFile(stats: Stats): Stats {
  if (!stats.isFile()) throw new Problem('bad_request', 'Path is not a file')
  return stats
}

/** Stats of an existing file; a Problem unless it is regular: replacing a device would remove it. */
async function statReplaceable(path: string): Promise<Stats | undefined> {
  try {
    const stats = await lstat(path)
    // A link that leads nowhere is replaced.
    return stats.isSymbolicLink() ? undefined : assertRegularFile(stats)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

async function writeTemporaryFile(
  path: string,
  bytes: AsyncIterable<Buffer>,
  existing: Stats | undefined,
): Promise<number> {
  await using file = await open(path, 'wx', existing === undefined ? 0o666 : existing.mode & 0o777)
  let sizeBytes = 0
  for await (const block of bytes) {
    await file.writeFile(block)
    sizeBytes += block.length
  }
  if (existing === undefined) return sizeBytes
  // Only a privileged server may give a file away.
  if (toolUser() === undefined) await file.chown(existing.uid, existing.gid).catch(() => {})
  await file.chmod(existing.mode & (toolUser() === undefined ? 0o7777 : 0o777))
  return sizeBytes
}

/** Removes the directories created on the way that are still empty. */
async function removeEmptyDirectories(from: string, to: string): Promise<void> {
  for (let path = from; path.length >= to.length; path = dirname(path)) {
    try {
      await rmdir(path)
    } catch {
      return
    }
  }
}
