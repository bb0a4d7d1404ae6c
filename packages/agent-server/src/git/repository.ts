import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Workspace } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { gitConfigEnvironment, untrustedGitEnvironment, untrustedGitSettings } from '@slipway/shared/process'
import { redact } from '@slipway/shared/redaction'
import { copyFile, lstat, mkdtemp, rm, stat, utimes } from '@slipway/shared/tool-files'

type GitResult = Awaited<ReturnType<Workspace['run']>>

const timeoutMs = 30_000
const maxListBytes = 64 * 1024 * 1024

/** One repository, seen from a directory in it. Read-only; a Problem `bad_request` when git fails. */
export class GitRepository implements AsyncDisposable {
  /** Real path of the directory that it is seen from. */
  readonly directory: string
  readonly #workspace: Workspace
  readonly #signal: AbortSignal
  readonly #config: Readonly<Record<string, string>>
  /** A copy of the index: a comparison refreshes the index, and a lock on it would make commits fail. */
  #index: Promise<string> | undefined

  private constructor(workspace: Workspace, config: Readonly<Record<string, string>>, signal: AbortSignal) {
    this.directory = workspace.directory
    this.#workspace = workspace
    this.#config = config
    this.#signal = signal
  }

  static async open(
    directory: string,
    env: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<GitRepository | undefined> {
    const workspace = await Workspace.open({ directory, env: { ...env, ...untrustedGitEnvironment } }).catch(
      () => undefined,
    )
    if (workspace === undefined) return undefined
    const unconfigured = new GitRepository(workspace, gitConfigEnvironment(untrustedGitSettings), signal)
    const result = await unconfigured.#run(['rev-parse', '--is-inside-work-tree'])
    if (result.exitCode === 127) throw new Problem('bad_request', 'git is not installed')
    if (result.exitCode !== 0 || outputText(result) !== 'true') {
      await unconfigured[Symbol.asyncDispose]()
      return undefined
    }
    return new GitRepository(
      workspace,
      gitConfigEnvironment([...untrustedGitSettings, ...(await unconfigured.#disabledFilterSettings())]),
      signal,
    )
  }

  /** Output of git without the final line feed; undefined when git fails. */
  async runText(args: readonly string[]): Promise<string | undefined> {
    const exit = await this.#run(args)
    return exit.exitCode === 0 ? outputText(exit) : undefined
  }

  /** Fields of git's output with `-z`. */
  async runFields(
    args: readonly string[],
    options: { readonly comparesFiles?: boolean } = {},
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
    await this.#workspace[Symbol.asyncDispose]()
    const index = await this.#index?.catch(() => undefined)
    if (index !== undefined) await rm(resolve(index, '..'), { recursive: true, force: true })
  }

  async #run(
    args: readonly string[],
    { comparesFiles, ...limits }: { readonly comparesFiles?: boolean; readonly maxBytes?: number } = {},
  ): Promise<GitResult> {
    const index = comparesFiles ? { GIT_INDEX_FILE: await this.#getIndexCopy() } : {}
    const env = { ...this.#config, ...index }
    const exit = await this.#workspace.run(
      'git',
      ['--no-pager', ...args],
      { env, timeoutMs, ...limits },
      this.#signal,
    )
    this.#signal.throwIfAborted()
    if (exit.isTimedOut) throw new Problem('bad_request', `git took longer than ${timeoutMs / 1000} s`)
    return exit
  }

  /** Disables the programs that the repository's config would run on the contents of files. */
  async #disabledFilterSettings(): Promise<(readonly [string, string])[]> {
    const exit = await this.#run([
      'config',
      '-z',
      '--show-scope',
      '--name-only',
      '--get-regexp',
      '^filter\\.',
    ])
    const fields = exit.exitCode === 0 ? exit.stdout.toString().split('\0') : []
    const localFilters = new Set<string>()
    for (let index = 0; index + 1 < fields.length; index += 2) {
      const [scope, name = ''] = fields.slice(index, index + 2)
      if (scope === 'local' || scope === 'worktree') localFilters.add(name.slice(0, name.lastIndexOf('.')))
    }
    return [...localFilters].flatMap((filter) => [
      [`${filter}.clean`, ''] as const,
      [`${filter}.smudge`, ''] as const,
      [`${filter}.process`, ''] as const,
      [`${filter}.required`, 'false'] as const,
    ])
  }

  #getIndexCopy(): Promise<string> {
    this.#index ??= this.#copyIndex()
    return this.#index
  }

  async #copyIndex(): Promise<string> {
    const path = await this.runText(['rev-parse', '--git-path', 'index'])
    const copy = join(await mkdtemp(join(tmpdir(), 'slipway-git-')), 'index')
    try {
      if (path !== undefined) await copyWithMtime(resolve(this.directory, path), copy)
    } catch (error) {
      // A repository in which nothing was ever added has none.
      if (errorCode(error) !== 'ENOENT') throw new Problem('bad_request', 'The index cannot be read')
    }
    return copy
  }
}

function outputText({ stdout }: GitResult): string {
  return stdout.toString().replace(/\n$/, '')
}

function gitProblem({ stderr }: GitResult): Problem {
  const [line = ''] = stderr.toString().split('\n')
  return new Problem('bad_request', `git failed: ${String(redact(line)).slice(0, 500)}`)
}

/** git detects files changed together with the index by its time, so the copy must not be newer. */
async function copyWithMtime(from: string, to: string): Promise<void> {
  const { atime, mtimeMs } = await stat(from)
  await copyFile(from, to)
  await utimes(to, atime, Math.floor(mtimeMs) / 1000)
}

/** Whether a directory is the top of a repository. */
export async function hasRepository(directory: string): Promise<boolean> {
  return await lstat(join(directory, '.git')).then(
    () => true,
    () => false,
  )
}
