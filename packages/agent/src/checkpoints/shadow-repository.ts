/**
 * Stores the files of a workspace as trees of a git repository outside of it.
 *
 * Problem: a user goes back to the files before a step. The workspace may be a repository with hooks, filters
 * and attributes that somebody else wrote, have others within it, and be too large. Restoring must not lose
 * what is there now.
 *
 * Idea: git with its own directory and the workspace as its work tree. Its index says what the workspace
 * had at the last checkpoint, so storing looks at changed files alone.
 *
 * Invariants:
 * - Nothing of the workspace runs or changes what is stored: no configuration of users or the system
 *   (`environment`), no template with hooks (`init`), and `info/attributes`, which stands above the
 *   attributes of the workspace, so that files are stored byte for byte.
 * - A repository within the workspace is listed with an empty index and this configuration (`#addNested`);
 *   git alone would store it as a reference to a commit.
 * - `checkOut` removes what the index has and the tree has not. So the caller writes a tree of the present
 *   files first; ignored files are not in the index, and stay.
 * - An ignored file that a restore would replace is stored first (`findUnsaved`).
 * - A list that was cut off is a failure (`isTruncated`): a checkpoint would lack files, and a restore would
 *   remove them.
 * - Numbers and sizes are limited before anything is stored, and all programs of a session share one time
 *   limit.
 * - Lock files of killed programs are removed at the start and after a timeout. So one operation runs at a
 *   time: WorkspaceCheckpoints has the mutex.
 * - Programs and files are those of the tool user (`Workspace.run`, `tool-files`).
 *
 * If you change this: a restore that loses files, or a program of the workspace that runs with the rights of
 * the server. Objects are not synced (`core.fsync`): a loss of power may cost checkpoints, never files.
 */

import { join, relative } from 'node:path'
import { isWithin } from '@slipway/shared/fs'
import { gitCommand } from '@slipway/shared/process'
import { firstChars } from '@slipway/shared/text'
import { isReadable, lstat, mkdir, rm, writeFile } from '@slipway/shared/tool-files'
import type { Workspace } from '../workspace/workspace.ts'

/** What a checkpoint may take; beyond it there is none. */
export interface CheckpointLimits {
  /** Files that are new or changed. */
  readonly maxFiles: number
  /** Larger files are left out. */
  readonly maxFileBytes: number
  /** Of all files that are new or changed. */
  readonly maxBytes: number
  /** Of all programs of one operation together. */
  readonly timeoutMs: number
}

export const defaultLimits: CheckpointLimits = {
  maxFiles: 200_000,
  maxFileBytes: 20 * 1024 * 1024,
  maxBytes: 1024 * 1024 * 1024,
  timeoutMs: 30_000,
}

/** The workspace cannot be read or written as a tree of git; the message is for the user. */
export class CheckpointError extends Error {
  override readonly name = 'CheckpointError'
}

/** Most that is read from a program. */
const maxOutputBytes = 256 * 1024 * 1024
/** Files of one program: the pack that it writes is searched for each of them. */
const filesPerProgram = 4000
/** Files that are looked at concurrently. */
const concurrentStats = 256
/** Repositories within the workspace that are looked into. */
const maxNestedRepositories = 200
const environment = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_OPTIONAL_LOCKS: '1',
}
const config: readonly (readonly [string, string])[] = [
  ['core.bare', 'false'],
  ['core.fsync', 'none'],
  ['core.compression', '1'],
  ['core.autocrlf', 'false'],
  ['index.version', '4'],
]
/** Its commits are the checkpoints. */
export const branch = 'refs/heads/checkpoints'
/** The files at the end of steps; the message of a commit is the checkpoint of its step. */
export const endsBranch = 'refs/heads/ends'
const locks = ['index', 'mixed-index', 'config', 'HEAD', 'packed-refs', branch, endsBranch].map(
  (file) => `${file}.lock`,
)
const attributes = '* -text -eol -filter -ident -working-tree-encoding -export-subst\n'

export type RunGit = (
  args: readonly string[],
  options?: { readonly input?: string; readonly env?: Readonly<Record<string, string>> },
) => Promise<Buffer>

/** The id of a tree, and the files that were left out of it. */
export interface StoredTree {
  readonly tree: string
  readonly skipped: readonly string[]
}

/**
 * A git repository outside of the workspace that stores its files as trees: all but ignored ones, those of
 * repositories within it included. Not safe for concurrent use.
 */
export class ShadowRepository {
  readonly #workspace: Workspace
  readonly #directory: string
  readonly #excluded: readonly string[]
  readonly #limits: CheckpointLimits

  /** `excluded`: directories that are not stored, where they are in the workspace. */
  constructor(options: {
    readonly workspace: Workspace
    readonly directory: string
    readonly excluded: readonly string[]
    readonly limits: CheckpointLimits
  }) {
    this.#workspace = options.workspace
    this.#directory = options.directory
    this.#excluded = options.excluded
    this.#limits = options.limits
  }

  /** Creates it if needed. Rejects with CheckpointError without git. */
  async open(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    await this.#removeLocks()
    const git = this.session()
    await git(['init', '-q', '--template='])
    await mkdir(join(this.#directory, 'info'), { recursive: true })
    const root = this.#workspace.directory
    const inside = this.#excluded.filter((path) => isWithin(root, path) && path !== root)
    const exclude = inside.map((path) => `/${relative(root, path).replace(/[\\*?[\s]/g, '\\$&')}/\n`).join('')
    await writeFile(join(this.#directory, 'info/exclude'), exclude)
    await writeFile(join(this.#directory, 'info/attributes'), attributes)
  }

  /** Runs git; all programs of a session share the time limit. Rejects with CheckpointError. */
  session(signal?: AbortSignal): RunGit {
    const end = performance.now() + this.#limits.timeoutMs
    return (args, options) => this.#git(args, { ...options, end, signal })
  }

  /**
   * Stores the present files; returns the id of the tree and what was left out. `forced` paths are stored
   * although they are ignored or large.
   */
  async writeTree(git: RunGit, forced: readonly string[] = []): Promise<StoredTree> {
    const { maxFiles, maxBytes } = this.#limits
    const changed = new Set(splitPaths(await git(['ls-files', '-z', '-o', '-m', '-d', '--exclude-standard'])))
    await this.#addNested(changed, git)
    for (const path of forced) changed.add(path)
    if (changed.size > maxFiles)
      throw new CheckpointError(`More than ${maxFiles} files are new or changed (${changed.size}).`)
    const sorted = await this.#sortFiles([...changed], new Set(forced))
    if (sorted.bytes > maxBytes)
      throw new CheckpointError(`More than ${Math.round(maxBytes / 2 ** 20)} MiB are new or changed.`)
    await this.#updateIndex(git, ['--force-remove'], sorted.removed)
    await this.#updateIndex(git, ['--add', '--replace', '--remove'], sorted.added)
    return { tree: text(await git(['write-tree'])), skipped: sorted.skipped }
  }

  /** Makes the files those of a tree; the index must be that of the present files. Ignored files stay. */
  async checkOut(git: RunGit, tree: string): Promise<void> {
    await git(['read-tree', '--reset', '-u', tree])
  }

  /** The paths of both lists: files of `target` that are there and not in `present`. */
  async findUnsaved(git: RunGit, present: string, target: string): Promise<readonly string[]> {
    const args = ['diff-tree', '-r', '-z', '--name-only', '--no-renames', '--diff-filter=A', present, target]
    const paths = splitPaths(await git(args))
    const { added } = await this.#sortFiles(paths, new Set(paths))
    return added
  }

  /**
   * A repository within the workspace is a name that ends with a slash, as long as nothing of it is stored.
   */
  async #addNested(changed: Set<string>, git: RunGit): Promise<void> {
    let count = 0
    for (const path of changed) {
      if (!path.endsWith('/')) continue
      changed.delete(path)
      if (++count > maxNestedRepositories) continue
      const location = ['-C', join(this.#workspace.directory, path), '--work-tree=.']
      const list = ['ls-files', '-z', '-o', '--exclude-standard']
      const env = { GIT_INDEX_FILE: join(this.#directory, 'no-index') }
      for (const file of splitPaths(await git([...location, ...list], { env }))) changed.add(path + file)
    }
  }

  async #sortFiles(paths: readonly string[], forced: ReadonlySet<string>) {
    const { maxFileBytes } = this.#limits
    const added: string[] = []
    const removed: string[] = []
    const skipped: string[] = []
    let bytes = 0
    const sort = async (path: string) => {
      const file = join(this.#workspace.directory, path)
      const stats = await lstat(file).catch(() => undefined)
      if (stats === undefined || !(stats.isFile() || stats.isSymbolicLink())) return removed.push(path)
      const mayRead = !stats.isFile() || (await isReadable(file))
      if (!mayRead || (stats.size > maxFileBytes && !forced.has(path))) {
        skipped.push(path)
        return removed.push(path)
      }
      bytes += stats.size
      return added.push(path)
    }
    for (let at = 0; at < paths.length; at += concurrentStats)
      await Promise.all(paths.slice(at, at + concurrentStats).map(sort))
    return { added, removed, skipped, bytes }
  }

  async #updateIndex(git: RunGit, options: readonly string[], paths: readonly string[]): Promise<void> {
    for (let at = 0; at < paths.length; at += filesPerProgram) {
      const input = `${paths.slice(at, at + filesPerProgram).join('\0')}\0`
      // Objects go to one pack of the program; single ones would be a file each.
      await git(['-c', 'core.bigFileThreshold=1', 'update-index', ...options, '-z', '--stdin'], { input })
    }
  }

  async #removeLocks(): Promise<void> {
    for (const lock of locks) await rm(join(this.#directory, lock), { force: true })
  }

  async #git(
    args: readonly string[],
    options: {
      readonly input?: string
      readonly env?: Readonly<Record<string, string>>
      readonly end: number
      readonly signal: AbortSignal | undefined
    },
  ): Promise<Buffer> {
    const { end, signal, env, ...more } = options
    const timeoutMs = Math.max(1, end - performance.now())
    const location = [`--git-dir=${this.#directory}`, `--work-tree=${this.#workspace.directory}`]
    const git = gitCommand([...location, ...args], { config, env: { ...environment, ...env } })
    const run = { ...more, timeoutMs, maxBytes: maxOutputBytes, env: git.env }
    const result = await this.#workspace.run(git.command, git.args, run, signal)
    if (result.isTimedOut || signal?.aborted) await this.#removeLocks()
    if (result.isTimedOut)
      throw new CheckpointError(
        `The workspace is too large: it took more than ${this.#limits.timeoutMs / 1000} seconds.`,
      )
    if (result.exitCode === 0 && !result.isTruncated) return result.stdout
    const reason = result.isTruncated ? 'too much output' : firstChars(result.stderr.toString().trim(), 500)
    throw new CheckpointError(`git failed: ${reason}`)
  }
}

export function text(output: Buffer): string {
  return output.toString().trim()
}

function splitPaths(output: Buffer): string[] {
  return output
    .toString()
    .split('\0')
    .filter((path) => path !== '')
}
