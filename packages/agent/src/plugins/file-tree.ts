import { constants } from 'node:fs'
import { lstat, mkdir, open, opendir, readlink, realpath, rm, symlink } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { codeOf, isWithin } from '../skills/small-file.ts'
import { isGit } from './source.ts'

/** What one fetched tree may hold. */
export const limits = { files: 20_000, fileBytes: 16 * 1024 * 1024, bytes: 128 * 1024 * 1024, depth: 40 }

/** Files that are written at one time: each is made durable, which is waiting above all. */
const atOnce = 16

/** Something about a tree for which nothing of it is taken; a sentence that begins with a verb. */
export class TreeRefused extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'TreeRefused'
  }
}

/**
 * Writes a tree of files that somebody else made into a directory that is not there yet. Nothing is written outside of it,
 * whatever the names are: names of no ordinary file are refused, nothing is written over, and links come last.
 */
export class Tree {
  readonly #root: string
  readonly #links = new Map<string, string>()
  readonly #folders = new Set<string>()
  #files = 0
  #bytes = 0

  private constructor(root: string) {
    this.#root = root
  }

  /** The directory's parent is made when it is not there. */
  static async start(root: string): Promise<Tree> {
    await mkdir(dirname(root), { recursive: true, mode: 0o700 })
    await mkdir(root, { mode: 0o700 })
    return new Tree(root)
  }

  /** Counts a file before it is read, so that nothing is read that is too much. */
  expect(path: string, sizeBytes: number): void {
    mustBePath(path)
    this.#bytes += sizeBytes
    if (sizeBytes > limits.fileBytes) throw new TreeRefused(`holds a file that is too large: ${shown(path)}`)
    if (this.#bytes > limits.bytes) throw new TreeRefused('is too large')
    if (++this.#files > limits.files) throw new TreeRefused('has too many files')
  }

  async file(path: string, content: Buffer, isExecutable: boolean): Promise<void> {
    await this.#folder(dirname(path))
    try {
      await using file = await open(join(this.#root, path), 'wx', isExecutable ? 0o700 : 0o600)
      await file.writeFile(content)
      await file.sync()
    } catch (error) {
      throw clash(error, path)
    }
  }

  link(path: string, target: string): void {
    mustBePath(path)
    if (++this.#files > limits.files) throw new TreeRefused('has too many files')
    this.#links.set(path, target)
  }

  /** Makes the links, and refuses the tree when one leads out of it. One that leads nowhere is left out. */
  async end(): Promise<void> {
    for (const [path, target] of this.#links) {
      const lexical = resolve(this.#root, dirname(path), target)
      if (isAbsolute(target) || !isWithin(lexical, this.#root)) throw leadsOut(path)
      await this.#folder(dirname(path))
      await symlink(target, join(this.#root, path)).catch((error: unknown) => {
        throw clash(error, path)
      })
    }
    const root = await realpath(this.#root)
    for (const path of this.#links.keys()) {
      const real = await realpath(join(this.#root, path)).catch(() => undefined)
      if (real === undefined) await rm(join(this.#root, path), { force: true })
      else if (!isWithin(real, root)) throw leadsOut(path)
    }
  }

  async #folder(path: string): Promise<void> {
    if (path === '.' || this.#folders.has(path)) return
    await this.#folder(dirname(path))
    try {
      await mkdir(join(this.#root, path), { mode: 0o700 })
    } catch (error) {
      const found = codeOf(error) === 'EEXIST' ? await lstat(join(this.#root, path)) : undefined
      if (found?.isDirectory() !== true) throw clash(error, path)
    }
    this.#folders.add(path)
  }
}

/**
 * Copies a directory without its git folders. All of it is looked at before anything is read. Rejects with TreeRefused, and
 * when the signal aborts.
 */
export async function copyDirectory(from: string, into: string, signal: AbortSignal): Promise<void> {
  const root = await realpath(from).catch(() => undefined)
  if (root === undefined || !(await lstat(root)).isDirectory()) throw new TreeRefused('is no directory')
  if (isWithin(resolve(into), root)) throw new TreeRefused('holds the data of this server')
  const tree = await Tree.start(into)
  const files: Expected[] = []
  await lookAt(tree, { root, path: '', files }, signal)
  await sideBySide(files, (file) => copyFile(tree, root, file), signal)
  await tree.end()
}

interface Expected {
  readonly path: string
  readonly sizeBytes: number
}

async function lookAt(
  tree: Tree,
  { root, path, files }: { readonly root: string; readonly path: string; readonly files: Expected[] },
  signal: AbortSignal,
): Promise<void> {
  for await (const entry of await opendir(join(root, path))) {
    signal.throwIfAborted()
    if (isGit(entry.name)) continue
    const inner = path === '' ? entry.name : `${path}/${entry.name}`
    mustBePath(inner)
    if (entry.isDirectory()) await lookAt(tree, { root, path: inner, files }, signal)
    else if (entry.isSymbolicLink()) tree.link(inner, await targetOf(root, inner))
    else if (entry.isFile()) {
      const { size: sizeBytes } = await lstat(join(root, inner))
      tree.expect(inner, sizeBytes)
      files.push({ path: inner, sizeBytes })
    } else throw new TreeRefused(`holds something that is no file: ${shown(inner)}`)
  }
}

/** Does something with each item, a few at a time. When one fails, it rejects after those that were begun are over. */
export async function sideBySide<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < items.length; at += atOnce) {
    signal.throwIfAborted()
    const results = await Promise.allSettled(items.slice(at, at + atOnce).map(work))
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }
}

/** A link that names a place in the tree by its absolute path is made relative. */
async function targetOf(root: string, path: string): Promise<string> {
  const target = await readlink(join(root, path))
  return isAbsolute(target) && isWithin(target, root)
    ? relative(join(root, dirname(path)), target) || '.'
    : target
}

async function copyFile(tree: Tree, root: string, { path, sizeBytes }: Expected): Promise<void> {
  await using file = await open(
    join(root, path),
    constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW,
  )
  const { size, mode } = await file.stat()
  if (size > sizeBytes) throw new TreeRefused(`changes while it is copied: ${shown(path)}`)
  const content = Buffer.alloc(size)
  const { bytesRead } = await file.read(content, 0, size, 0)
  await tree.file(path, content.subarray(0, bytesRead), (mode & 0o100) !== 0)
}

function mustBePath(path: string): void {
  const parts = path.split('/')
  const isGood = (part: string) =>
    part !== '' &&
    part !== '.' &&
    part !== '..' &&
    part.length <= 255 &&
    !isGit(part) &&
    !/[\p{Cc}\\]/u.test(part)
  if (parts.length > limits.depth || path.length > 2_000 || !parts.every(isGood))
    throw new TreeRefused(`holds a name that is not taken: ${shown(path)}`)
}

function leadsOut(path: string): TreeRefused {
  return new TreeRefused(`holds a link that leads out of it: ${shown(path)}`)
}

function clash(error: unknown, path: string): unknown {
  const code = codeOf(error)
  return ['EEXIST', 'ENOTDIR', 'ENAMETOOLONG', 'EISDIR'].includes(code)
    ? new TreeRefused(`holds two entries in one place: ${shown(path)}`)
    : error
}

function shown(path: string): string {
  return path.replace(/[\p{Cc}]/gu, '?').slice(0, 200)
}
