import { spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { commandMain } from '@slipway/shared/process/testing'
import { compiledCode } from './compiled-code.ts'

export const root = resolve(import.meta.dirname, '../..')

/** A fenced block of a page. */
export interface CodeBlock {
  /** From the root: `docs/streams.md`. */
  readonly page: string
  readonly language: string
  readonly text: string
}

/** All fenced blocks of the README, `docs/` and the READMEs of the packages. */
export function readCodeBlocks(): CodeBlock[] {
  const pages = globSync(['*.md', 'docs/**/*.md', '{packages/*,deploy,examples}/README.md'], { cwd: root })
  return pages
    .toSorted()
    .flatMap((page) =>
      [...readFileSync(join(root, page), 'utf8').matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(
        ([, language = '', text = '']) => ({ page, language, text }),
      ),
    )
}

export interface ProgramResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A directory in which the examples of the pages run as in a clone. */
export class ExampleRunner implements AsyncDisposable {
  /** The working directory; no symbolic link. */
  readonly directory: string
  readonly #bin: string
  readonly #env: Readonly<Record<string, string>>

  private constructor(directory: string, env: Readonly<Record<string, string>>) {
    this.directory = join(directory, 'work')
    this.#bin = join(directory, 'bin')
    this.#env = env
  }

  /** `env` is the environment of the examples besides `PATH` and their own `HOME`. */
  static async open(env: Readonly<Record<string, string>>): Promise<ExampleRunner> {
    const runner = new ExampleRunner(await realpath(await mkdtemp(join(tmpdir(), 'slipway-readme-'))), env)
    await mkdir(runner.directory)
    await runner.#installCommands()
    return runner
  }

  /** Runs a program of `examples/readme`. `maxMs` ends one that would not end. */
  async runProgram(name: string, args: readonly string[] = [], maxMs = 60_000): Promise<ProgramResult> {
    return await this.#run([process.execPath, join(root, 'examples/readme', `${name}.ts`), ...args], maxMs)
  }

  /** Runs a block of shell commands; `failures` has a line for each command whose exit code is not 0. */
  async runShell(
    text: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<ProgramResult & { failures: string[] }> {
    const trap = `trap 'echo "FAILED $?: $BASH_COMMAND" >&2' ERR\n`
    const result = await this.#run(['bash', '-c', `set -E\n${trap}${text}`], 120_000, env)
    return { ...result, failures: result.stderr.split('\n').filter((line) => line.startsWith('FAILED ')) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(resolve(this.directory, '..'), { recursive: true, force: true })
  }

  /**
   * `npx` runs the program of the tests. Commands that follow a log end after some seconds, which is no
   * failure.
   */
  async #installCommands(): Promise<void> {
    const commands = {
      slipway: `exec node ${commandMain} "$@"`,
      npx: `case "$1 $2" in
  "node "*) shift; exec node "$@" ;;
  "slipway tail") shift; timeout 4 node ${commandMain} "$@"; [ $? -eq 124 ] ;;
  "slipway "*) shift; exec node ${commandMain} "$@" ;;
  *) echo "npx $1: unknown" >&2; exit 2 ;;
esac`,
      // The stream of a start has an end.
      curl: `case "$*" in *stream-start*) seconds=60 ;; *) seconds=4 ;; esac
command -p curl --max-time $seconds "$@"; code=$?; [ $code -eq 28 ] || exit $code`,
    }
    await mkdir(this.#bin)
    for (const [name, script] of Object.entries(commands)) {
      await writeFile(join(this.#bin, name), `#!/bin/sh\n${script}\n`)
      await chmod(join(this.#bin, name), 0o755)
    }
  }

  async #run(
    [command = '', ...args]: readonly string[],
    timeout: number,
    env: Readonly<Record<string, string>> = {},
  ): Promise<ProgramResult> {
    const child = spawn(command, args, {
      cwd: this.directory,
      timeout,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: [this.#bin, resolve(process.execPath, '..'), process.env.PATH].join(delimiter),
        HOME: this.directory,
        ...compiledCode,
        NO_COLOR: '1',
        ...this.#env,
        ...env,
      },
    })
    const output = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk) => {
        output[name] += chunk
      })
    }
    const { promise, resolve: done, reject } = Promise.withResolvers<number | null>()
    child.once('error', reject).once('close', done)
    return { code: await promise, ...output }
  }
}
