import { join, resolve } from 'node:path'
import { Workspace } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { copyIndex, RepositoryView, RepositoryViewError } from '@slipway/shared/git'
import { type GitCommand, gitCommand } from '@slipway/shared/process'
import { redact } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import { lstat } from '@slipway/shared/tool-files'

type GitResult = Awaited<ReturnType<Workspace['run']>>

const timeoutMs = 30_000
const maxListBytes = 64 * 1024 * 1024

/** One repository, seen from a directory in it. Read-only; a Problem `bad_request` when git fails. */
export class GitRepository implements AsyncDisposable {
  /** Real path of the directory that it is seen from. */
  readonly directory: string
  readonly #workspace: Workspace
  readonly #view: RepositoryView
  readonly #signal: AbortSignal
  /** A copy of the index: a comparison refreshes the index, and a lock on it would make commits fail. */
  #index: Promise<string> | undefined

  private constructor(workspace: Workspace, view: RepositoryView, signal: AbortSignal) {
    this.directory = workspace.directory
    this.#workspace = workspace
    this.#view = view
    this.#signal = signal
  }

  static async open(
    directory: string,
    env: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<GitRepository | undefined> {
    const workspace = await Workspace.open({ directory, env }).catch(() => undefined)
    if (workspace === undefined) return undefined
    try {
      const view = await RepositoryView.open((command) => runGit(workspace, command, {}, signal))
      if (view !== undefined) return new GitRepository(workspace, view, signal)
    } catch (error) {
      await workspace[Symbol.asyncDispose]()
      if (error instanceof RepositoryViewError) throw new Problem('bad_request', error.message)
      throw error
    }
    await workspace[Symbol.asyncDispose]()
    return undefined
  }

  /** Output of git without the final line feed; undefined when git fails. */
  async runText(args: readonly string[]): Promise<string | undefined> {
    const exit = await this.#run(args)
    return exit.exitCode === 0 ? outputText(exit) : undefined
  }

  /** Fields of git's output with `-z`. */
  async runFields(
    args: readonly string[],
    options: { readonly comparesFiles?: boolean; readonly input?: string } = {},
  ): Promise<string[]> {
    const exit = await this.#run(args, { ...options, maxBytes: maxListBytes })
    if (exit.exitCode !== 0) throw gitProblem(exit)
    if (exit.isTruncated) throw new Problem('bad_request', 'There are too many files to list')
    const fields = exit.stdout.toString().split('\0')
    fields.pop()
    return fields
  }

  /** The first bytes of git's output; undefined when git fails. */
  async runBytes(
    args: readonly string[],
    maxBytes: number,
    options: { readonly comparesFiles?: boolean } = {},
  ): Promise<Buffer | undefined> {
    const exit = await this.#run(args, { ...options, maxBytes })
    return exit.exitCode === 0 ? exit.stdout : undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // In reverse order: nothing runs in the view when it is removed.
    await using resources = new AsyncDisposableStack()
    resources.use(this.#view)
    resources.defer(async () => void (await this.#index?.catch(() => undefined)))
    resources.use(this.#workspace)
  }

  async #run(
    args: readonly string[],
    { comparesFiles, ...limits }: { readonly comparesFiles?: boolean } & Limits = {},
  ): Promise<GitResult> {
    const index = comparesFiles ? { GIT_INDEX_FILE: await this.#getIndexCopy() } : {}
    const command = gitCommand(args, { env: { ...this.#view.env, ...index } })
    return await runGit(this.#workspace, command, limits, this.#signal)
  }

  #getIndexCopy(): Promise<string> {
    this.#index ??= this.#copyIndex()
    return this.#index
  }

  async #copyIndex(): Promise<string> {
    const path = await this.runText(['rev-parse', '--git-path', 'index'])
    const copy = join(this.#view.directory, 'index-copy')
    try {
      if (path !== undefined) await copyIndex(resolve(this.directory, path), copy)
    } catch (error) {
      // A repository in which nothing was ever added has none.
      if (errorCode(error) !== 'ENOENT') throw new Problem('bad_request', 'The index cannot be read')
    }
    return copy
  }
}

interface Limits {
  readonly maxBytes?: number
  readonly input?: string
}

/** A Problem where git is not installed and when it takes too long. */
async function runGit(
  workspace: Workspace,
  { command, args, env }: GitCommand,
  limits: Limits,
  signal: AbortSignal,
): Promise<GitResult> {
  const exit = await workspace.run(command, args, { env, timeoutMs, ...limits }, signal)
  signal.throwIfAborted()
  if (exit.exitCode === 127) throw new Problem('bad_request', 'git is not installed')
  if (exit.isTimedOut) throw new Problem('bad_request', `git took longer than ${timeoutMs / 1000} s`)
  return exit
}

function outputText({ stdout }: GitResult): string {
  return stdout.toString().replace(/\n$/, '')
}

function gitProblem({ stderr }: GitResult): Problem {
  const [line = ''] = stderr.toString().split('\n')
  return new Problem('bad_request', `git failed: ${firstChars(String(redact(line)), 500)}`)
}

/** Whether a directory is the top of a repository. */
export async function hasRepository(directory: string): Promise<boolean> {
  return await lstat(join(directory, '.git')).then(
    () => true,
    () => false,
  )
}
