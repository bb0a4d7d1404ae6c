import { spawn } from 'node:child_process'
import { Problem } from '@slipway/protocol'
import { sanitizeLine } from '../output/sanitize.ts'

export interface GitResult {
  readonly code: number
  readonly stdout: Buffer
  readonly stderr: string
}

interface GitOptions {
  readonly input?: string | Uint8Array
  readonly env?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/** Git in a directory. */
export class Git {
  readonly directory: string
  readonly #env: Readonly<Record<string, string | undefined>>

  /** `env`: the environment of the user. */
  constructor(directory: string, env: Readonly<Record<string, string | undefined>>) {
    this.directory = directory
    this.#env = env
  }

  /** Runs git to its end, whatever its exit code is. A Problem where git is not installed. */
  async try(args: readonly string[], { input, env, signal }: GitOptions = {}): Promise<GitResult> {
    const child = spawn('git', ['-C', this.directory, ...args], {
      env: { ...this.#env, GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C', ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
      signal,
    })
    const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []]
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
    // It may end without reading.
    child.stdin.on('error', () => undefined)
    child.stdin.end(input ?? '')
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

  /** Runs git and returns its output without the last line break; a Problem with git's error if it fails. */
  async run(args: readonly string[], options: GitOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.try(args, options)
    if (code === 0) return stdout.toString('utf8').replace(/\n$/, '')
    throw new Problem('bad_request', `git ${args[0]} failed: ${sanitizeLine(stderr).trim().slice(0, 500)}`)
  }

  /** As `run`; undefined when it fails. */
  async find(args: readonly string[], options: GitOptions = {}): Promise<string | undefined> {
    const { code, stdout } = await this.try(args, options)
    return code === 0 ? stdout.toString('utf8').trim() : undefined
  }
}

/** Git at the root of the working tree that a directory is in; a Problem where there is none. */
export async function openWorkingTree(
  directory: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Git> {
  const root = await new Git(directory, env).find(['rev-parse', '--show-toplevel'])
  if (root !== undefined && root !== '') return new Git(root, env)
  throw new Problem('bad_request', `${directory} is in no git working tree. Make one with: git init`)
}
