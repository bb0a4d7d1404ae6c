import { constants } from 'node:fs'
import { lstat, mkdir, open, opendir, readlink, realpath, rm, symlink } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { errorCode, isWithin, makeDirectory } from '@slipway/shared/fs'
import { firstChars } from '@slipway/shared/text'
import { isGitFolder } from './source.ts'

/** Limits of one fetched tree. */
export const treeLimits = { files: 20_000, fileBytes: 16 * 1024 * 1024, bytes: 128 * 1024 * 1024, depth: 40 }

/** Files written concurrently; each is synced, which is mostly waiting. */
const concurrency = 16

/** Why a whole tree is rejected; a sentence that begins with a verb. */
export class InvalidTreeError extends Error {
  override readonly name = 'InvalidTreeError'
}

/**
 * Writes an untrusted tree of files into a new directory, never outside of it: unusual names are rejected,
 * nothing is overwritten, and links are created last.
 */
export class FileTreeWriter {
  readonly #root: string
  readonly #links = new Map<string, string>()
  readonly #folders = new Set<string>()
  #files = 0
  #bytes = 0

  private constructor(root: string) {
    this.#root = root
  }

  /** Creates the directory and its parents. */
  static async start(root: string): Promise<FileTreeWriter> {
    await makeDirectory(dirname(root), 0o700)
    await mkdir(root, { mode: 0o700 })
    return new FileTreeWriter(root)
  }

  /** Counts a file against the limits before it is read. */
  reserve(path: string, sizeBytes: number): void {
    assertPath(path)
    this.#bytes += sizeBytes
    if (sizeBytes > treeLimits.fileBytes)
      throw new InvalidTreeError(`holds a file that is too large: ${displayedPath(path)}`)
    if (this.#bytes > treeLimits.bytes) throw new InvalidTreeError('is too large')
    if (++this.#files > treeLimits.files) throw new InvalidTreeError('has too many files')
  }

  async file(path: string, content: Buffer, isExecutable: boolean): Promise<void> {
    await this.#makeFolder(dirname(path))
    try {
      await using file = await open(join(this.#root, path), 'wx', isExecutable ? 0o700 : 0o600)
      await file.writeFile(content)
      await file.sync()
    } catch (error) {
      throw clashError(error, path)
    }
  }

  link(path: string, target: string): void {
    this.reserve(path, 0)
    this.#links.set(path, target)
  }

  /** Creates the links; rejects the tree when one leads out of it. A dangling link is dropped. */
  async finish(): Promise<void> {
    for (const [path, target] of this.#links) {
      const lexical = resolve(this.#root, dirname(path), target)
      if (isAbsolute(target) || !isWithin(this.#root, lexical)) throw linkEscapes(path)
      await this.#makeFolder(dirname(path))
      await symlink(target, join(this.#root, path)).catch((error: unknown) => {
        throw clashError(error, path)
      })
    }
    const root = await realpath(this.#root)
    for (const path of this.#links.keys()) {
      const real = await realpath(join(this.#root, path)).catch(() => undefined)
      if (real === undefined) await rm(join(this.#root, path), { force: true })
      else if (!isWithin(root, real)) throw linkEscapes(path)
    }
  }

  async #makeFolder(path: string): Promise<void> {
    if (path === '.' || this.#folders.has(path)) return
    await this.#makeFolder(dirname(path))
    try {
      await mkdir(join(this.#root, path), { mode: 0o700 })
    } catch (error) {
      const existing = errorCode(error) === 'EEXIST' ? await lstat(join(this.#root, path)) : undefined
      if (existing?.isDirectory() !== true) throw clashError(error, path)
    }
    this.#folders.add(path)
  }
}

/**
 * Copies a directory without its git folders, after scanning all of it. Rejects with InvalidTreeError, and on
 * abort.
 */
export async function copyDirectory(from: string, into: string, signal: AbortSignal): Promise<void> {
  const root = await realpath(from).catch(() => undefined)
  if (root === undefined || !(await lstat(root)).isDirectory()) throw new InvalidTreeError('is no directory')
  if (isWithin(root, resolve(into))) throw new InvalidTreeError('holds the data of this server')
  const tree = await FileTreeWriter.start(into)
  const files = await Array.fromAsync(scanDirectory(tree, root, '', signal))
  await forEachConcurrent(files, (file) => copyFile(tree, root, file), signal)
  await tree.finish()
}

interface ExpectedFile {
  readonly path: string
  readonly sizeBytes: number
}

/** Adds the links of a directory to the tree and yields its files. */
async function* scanDirectory(
  tree: FileTreeWriter,
  root: string,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<ExpectedFile> {
  for await (const entry of await opendir(join(root, path))) {
    signal.throwIfAborted()
    if (isGitFolder(entry.name)) continue
    const inner = path === '' ? entry.name : `${path}/${entry.name}`
    assertPath(inner)
    if (entry.isDirectory()) yield* scanDirectory(tree, root, inner, signal)
    else if (entry.isSymbolicLink()) tree.link(inner, await relativeTarget(root, inner))
    else if (entry.isFile()) {
      const { size: sizeBytes } = await lstat(join(root, inner))
      tree.reserve(inner, sizeBytes)
      yield { path: inner, sizeBytes }
    } else throw new InvalidTreeError(`holds something that is no file: ${displayedPath(inner)}`)
  }
}

/** Processes items with bounded concurrency. When one fails, it rejects after the started ones have ended. */
export async function forEachConcurrent<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < items.length; at += concurrency) {
    signal.throwIfAborted()
    const results = await Promise.allSettled(items.slice(at, at + concurrency).map(work))
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }
}

/** Makes an absolute link to a path in the tree relative. */
async function relativeTarget(root: string, path: string): Promise<string> {
  const target = await readlink(join(root, path))
  return isAbsolute(target) && isWithin(root, target)
    ? relative(join(root, dirname(path)), target) || '.'
    : target
}

async function copyFile(
  tree: FileTreeWriter,
  root: string,
  { path, sizeBytes }: ExpectedFile,
): Promise<void> {
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW
  await using file = await open(join(root, path), flags)
  const { size, mode } = await file.stat()
  if (size > sizeBytes) throw new InvalidTreeError(`changes while it is copied: ${displayedPath(path)}`)
  const content = Buffer.alloc(size)
  const { bytesRead } = await file.read(content, 0, size, 0)
  await tree.file(path, content.subarray(0, bytesRead), (mode & 0o100) !== 0)
}

function assertPath(path: string): void {
  const parts = path.split('/')
  const isGood = (part: string) =>
    !['', '.', '..'].includes(part) && part.length <= 255 && !isGitFolder(part) && !/[\p{Cc}\\]/u.test(part)
  if (parts.length > treeLimits.depth || path.length > 2_000 || !parts.every(isGood))
    throw new InvalidTreeError(`holds a name that is not accepted: ${displayedPath(path)}`)
}

function linkEscapes(path: string): InvalidTreeError {
  return new InvalidTreeError(`holds a link that leads out of it: ${displayedPath(path)}`)
}

function clashError(error: unknown, path: string): unknown {
  return ['EEXIST', 'ENOTDIR', 'ENAMETOOLONG', 'EISDIR'].includes(errorCode(error) ?? '')
    ? new InvalidTreeError(`holds two entries in one place: ${displayedPath(path)}`)
    : error
}

function displayedPath(path: string): string {
  return firstChars(path.replace(/[\p{Cc}]/gu, '?'), 200)
}
