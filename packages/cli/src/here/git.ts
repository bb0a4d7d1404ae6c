import { spawn } from 'node:child_process'
import { Problem } from '@slipway/protocol/client'
import { RepositoryView } from '@slipway/shared/git'
import { type GitCommand, gitCommand } from '@slipway/shared/process'
import { firstChars } from '@slipway/shared/text'
import { sanitizeLine } from '../output/sanitize.ts'

export interface GitResult {
  readonly code: number
  readonly stdout: Buffer
  readonly stderr: string
}

interface GitOptions {
  readonly input?: string | Uint8Array | undefined
  readonly env?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  /** Descriptor of a file that gets the output instead. */
  readonly output?: number | undefined
}

type Env = Readonly<Record<string, string | undefined>>

/** Git at the root of a working tree. */
export class Git implements AsyncDisposable {
  readonly directory: string
  readonly #env: Env
  readonly #view: RepositoryView

  /** `env`: the environment of the user. */
  constructor(view: RepositoryView, env: Env) {
    this.directory = view.root
    this.#env = env
    this.#view = view
  }

  /** Runs git to its end, whatever its exit code is. A Problem where git is not installed. */
  async try(args: readonly string[], { input, env, signal, output }: GitOptions = {}): Promise<GitResult> {
    const git = gitCommand(args, { env: { ...this.#view.env, ...env } })
    return await run(git, { directory: this.directory, env: this.#env, input, signal, output })
  }

  /** Runs git and returns its output without the last line break; a Problem with git's error if it fails. */
  async run(args: readonly string[], options: GitOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.try(args, options)
    if (code === 0) return stdout.toString('utf8').replace(/\n$/, '')
    throw new Problem('bad_request', `git ${args[0]} failed: ${firstChars(sanitizeLine(stderr).trim(), 500)}`)
  }

  /** As `run`; undefined when it fails. */
  async find(args: readonly string[], options: GitOptions = {}): Promise<string | undefined> {
    const { code, stdout } = await this.try(args, options)
    return code === 0 ? stdout.toString('utf8').trim() : undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#view[Symbol.asyncDispose]()
  }
}

/** Git at the root of the working tree that a directory is in; a Problem where there is none. */
export async function openWorkingTree(directory: string, env: Env): Promise<Git> {
  const view = await RepositoryView.open(async (command) => {
    const { code, stdout } = await run(command, { directory, env })
    return { exitCode: code, stdout }
  })
  if (view !== undefined) return new Git(view, env)
  throw new Problem('bad_request', `${directory} is in no git working tree. Make one with: git init`)
}

async function run(
  git: GitCommand,
  options: Omit<GitOptions, 'env'> & { readonly directory: string; readonly env: Env },
): Promise<GitResult> {
  const { directory, env, input, signal, output } = options
  const child = spawn(git.command, git.args, {
    cwd: directory,
    env: { ...env, ...git.env },
    stdio: ['pipe', output ?? 'pipe', 'pipe'],
    signal,
  })
  const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []]
  child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk))
  child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk))
  // It may end without reading.
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(input ?? '')
  return await new Promise((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(error.code === 'ENOENT' ? new Problem('bad_request', 'git is not installed.') : error),
    )
    child.once('close', (code) =>
      resolve({
        code: code ?? 1,
        stdout: Buffer.concat(stdout),
        stderr: Buffer.concat(stderr).toString('utf8'),
      }),
    )
  })
}
