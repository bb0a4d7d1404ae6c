import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, lchownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { commandMain } from '@slipway/shared/process/testing'

const isRoot = process.getuid?.() === 0

/** Root and an ordinary user; whoever runs the tests unless that is root. */
export const testUsers = [
  { name: 'root', uid: undefined, isPossible: isRoot },
  { name: 'an ordinary user', uid: isRoot ? 54_321 : undefined, isPossible: true },
]

/** A server that was started by a command with `--json`. */
export interface CommandServer {
  readonly url: string
  readonly key: string
  stop(): Promise<void>
}

export interface RunOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** Commands of one user with a home directory: of root, or of an ordinary user when the tests are root. */
export class UserPrograms {
  readonly home: string
  readonly #uid: number | undefined

  /** `uid` is undefined for the user of the tests. */
  constructor(home: string, uid: number | undefined) {
    this.home = home
    this.#uid = uid
    for (const name of ['bin', 'tmp']) mkdirSync(join(home, name), { recursive: true })
  }

  /** Variables of all commands. */
  get env(): Record<string, string> {
    return {
      PATH: [join(this.home, 'bin'), dirname(process.execPath), '/usr/bin', '/bin'].join(':'),
      HOME: this.home,
      TMPDIR: join(this.home, 'tmp'),
      LANG: 'C.UTF-8',
      SLIPWAY_LOG_LEVEL: 'error',
    }
  }

  /** Writes a program of the user below the home directory. */
  install(path: string, lines: string): void {
    const file = join(this.home, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, lines)
    chmodSync(file, 0o755)
  }

  /** Everything below the home directory belongs to the user. */
  own(path = this.home): void {
    if (this.#uid === undefined) return
    chownSync(path, this.#uid, this.#uid)
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const inner = join(path, entry.name)
      if (entry.isDirectory()) this.own(inner)
      else lchownSync(inner, this.#uid, this.#uid)
    }
  }

  spawn(words: readonly string[], { cwd, env }: RunOptions): ChildProcess {
    const user = String(this.#uid)
    const wrapper =
      this.#uid === undefined ? [] : ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups', '--']
    const [program = '', ...args] = [...wrapper, ...words]
    return spawn(program, args, { cwd, env: { ...this.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  }

  /** Runs a program to its end. */
  async run(words: readonly string[], options: RunOptions) {
    const child = this.spawn(words, options)
    const [stdout, stderr, [code]] = await Promise.all([
      child.stdout === null ? '' : text(child.stdout),
      child.stderr === null ? '' : text(child.stderr),
      once(child, 'close'),
    ])
    return { stdout, stderr, code: code as number | null }
  }

  async runCli(args: readonly string[], options: RunOptions) {
    return await this.run([process.execPath, commandMain, ...args], options)
  }

  /** Starts `serve` or `sandbox-server` on a free port. */
  async serve(args: readonly string[], options: RunOptions): Promise<CommandServer> {
    const words = [process.execPath, commandMain, ...args, '--json', '--port', '0']
    const child = this.spawn(words, options)
    let errors = ''
    child.stderr?.on('data', (chunk) => {
      errors += chunk
    })
    const ended = once(child, 'close')
    if (child.stdout === null) throw new Error('its output is a pipe')
    const ready = once(createInterface({ input: child.stdout }), 'line')
    const failed = ended.then(([code]) => Promise.reject(new Error(`it ended with ${code}: ${errors}`)))
    failed.catch(() => undefined)
    const [line] = await Promise.race([ready, failed])
    const { url, key, session_key_file: file } = JSON.parse(line)
    const shown = file === undefined ? undefined : await this.run(['cat', file], { cwd: this.home })
    return {
      url,
      key: key ?? shown?.stdout.trim() ?? '',
      async stop() {
        child.kill()
        await ended
      },
    }
  }
}
