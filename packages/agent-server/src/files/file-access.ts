import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { Problem } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { makeDirectory, open, realpath, rename, rm, rmdir, stat, toolUser } from '@slipway/shared/tool-files'

const blockBytes = 256 * 1024

/** The path; a Problem `bad_request` when it is not absolute or not valid. */
export function assertAbsolutePath(path: string): string {
  if (!isAbsolute(path)) throw new Problem('bad_request', 'Path must be absolute')
  if (path.includes('\0')) throw new Problem('bad_request', 'The path contains a NUL byte')
  return path
}

/**
 * Writes a file and missing directories, all or nothing, and returns its size. A replaced file keeps its
 * mode; links are followed.
 */
export async function saveFile(path: string, bytes: AsyncIterable<Buffer>): Promise<number> {
  const requestedPath = assertAbsolutePath(path)
  try {
    const target = await realpath(requestedPath).catch(() => resolve(requestedPath))
    const existing = await statReplaceable(target)
    const firstCreatedDirectory = await makeDirectory(dirname(target))
    const temporaryPath = join(dirname(target), `.slipway-${randomBytes(8).toString('hex')}.upload`)
    try {
      const sizeBytes = await writeTemporaryFile(temporaryPath, bytes, existing)
      await rename(temporaryPath, target)
      return sizeBytes
    } catch (error) {
      await rm(temporaryPath, { force: true }).catch(() => {})
      if (firstCreatedDirectory !== undefined)
        await removeEmptyDirectories(dirname(target), firstCreatedDirectory)
      throw error
    }
  } catch (error) {
    throw toFileProblem(error, 'bad_request')
  }
}

/** The size of a regular file; a Problem for anything else: a pipe or a device may never end. */
export async function getFileSize(path: string): Promise<number> {
  try {
    const { size } = assertRegularFile(await stat(assertAbsolutePath(path)))
    return size
  } catch (error) {
    throw toFileProblem(error, 'not_found', 'File not found')
  }
}

/**
 * The bytes of a regular file: as many as announced, or all when that is 0, as for files of the system. A
 * Problem also when the file became shorter.
 */
export async function* readFileBytes(path: string, announcedBytes: number): AsyncGenerator<Buffer> {
  const limit = announcedBytes === 0 ? Number.POSITIVE_INFINITY : announcedBytes
  try {
    // Without blocking, in case it is a pipe by now.
    await using file = await open(assertAbsolutePath(path), constants.O_RDONLY | constants.O_NONBLOCK)
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

/** Creates a directory and its missing parents. */
export async function createDirectory(path: string): Promise<void> {
  const directory = assertAbsolutePath(path)
  try {
    await makeDirectory(directory)
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
    return assertRegularFile(await stat(path))
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
