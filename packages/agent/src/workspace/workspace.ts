import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readlink, realpath } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path'
import type { IPty } from '@lydell/node-pty'
import { killByEnvironment, killProcessGroup, killSession } from './processes.ts'
import { type ExitStatus, maxTimerMs, type StreamProcessOptions, streamProcess } from './stream-process.ts'

export type { IPty as Pty } from '@lydell/node-pty'
export { killProcessGroup } from './processes.ts'

/** A path that the workspace does not give, and why; the text is for the model. */
export class PathNotAllowedError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'PathNotAllowedError'
  }
}

export interface ProcessOptions {
  /** Default: the workspace's directory. */
  readonly cwd?: string
  /** Besides the workspace's own variables. */
  readonly env?: Readonly<Record<string, string>>
}

export interface RunOptions extends ProcessOptions {
  readonly input?: string | Buffer
  /** Milliseconds until the process group is killed; none by default. */
  readonly timeoutMs?: number
  /** Bytes kept of each stream, the rest is read and dropped; default 10 MiB. */
  readonly maxBytes?: number
}

export interface ProcessResult {
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  readonly stdout: Buffer
  readonly stderr: Buffer
  readonly isTruncated: boolean
  readonly isTimedOut: boolean
}

/** In the environment of what is followed, before the mark of its workspace, a slash and its name. */
const commandEnvPrefix = 'SLIPWAY_COMMAND='

/**
 * A directory, its files and its processes: the only place of this package that starts processes. Each process leads a
 * group of its own, and the whole group is killed with it. Processes see `env` and nothing else of the server's environment.
 *
 * The path jail keeps an agent's file tools where they belong; it is no wall against the agent's own processes. Between
 * `resolve` and the use of what it gave, a process may put a link in the way, and a process of the same user reads and
 * writes everywhere anyhow. What must not be reached has to be out of the user's reach (a container, a user of its own).
 */
export class Workspace implements AsyncDisposable {
  /** Absolute, without symbolic links. */
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
  #readablePaths: readonly string[]
  readonly #isConfined: boolean
  readonly #killHandlers = new Set<() => void | Promise<void>>()
  readonly #terminals = new WeakMap<IPty, () => Promise<void>>()
  /** What followed programs carry in their environment, and who holds their output. */
  readonly #marker = randomUUID()
  readonly #streamed = new Set<ChildProcess>()
  #hasStreamed = false
  #isClosed = false

  private constructor(
    directory: string,
    options: {
      readonly env: Readonly<Record<string, string>>
      readonly readable: readonly string[]
      readonly isConfined: boolean
    },
  ) {
    this.directory = directory
    this.env = options.env
    this.#readablePaths = options.readable
    this.#isConfined = options.isConfined
  }

  /**
   * `readable`: directories outside that may be read too; they need not be there yet. `isConfined` (default true) keeps
   * file access inside. The directory must exist.
   */
  static async open(options: {
    readonly directory: string
    readonly env: Readonly<Record<string, string>>
    readonly readable?: readonly string[]
    readonly isConfined?: boolean
  }): Promise<Workspace> {
    const { directory, env, readable = [], isConfined = true } = options
    return new Workspace(await realpath(directory), {
      env,
      readable: await Promise.all(readable.map((path) => resolveRealPath(resolve(path)))),
      isConfined,
    })
  }

  /**
   * The real path of a file or directory that may be read or written, also of one that is not there yet (symbolic links
   * on the way are followed first). Relative paths start at the workspace's directory. Use the path that it gives, not the
   * one that was asked for. Rejects with PathRefused for a path with a NUL byte, for one that leads out of the workspace
   * and for one that cannot be followed.
   */
  async resolve(path: string, intent: 'read' | 'write'): Promise<string> {
    if (path.includes('\0')) throw new PathNotAllowedError('The path contains a NUL byte.')
    // Not `join`: it would take `link/..` for the link's own directory, the system takes it for that of its target.
    const real = await resolveRealPath(isAbsolute(path) ? path : `${this.directory}${sep}${path}`)
    if (!this.#isConfined) return real
    const roots = intent === 'read' ? [this.directory, ...this.#readablePaths] : [this.directory]
    if (roots.some((root) => isInside(real, root))) return real
    throw new PathNotAllowedError(
      `The path ${path} is outside the workspace ${this.directory}; only files below it may be ${intent === 'read' ? 'read' : 'written'}.`,
    )
  }

  /** Lets more directories outside be read; they need not be there yet. */
  async allowRead(readable: readonly string[]): Promise<void> {
    const paths = await Promise.all(readable.map((path) => resolveRealPath(resolve(path))))
    this.#readablePaths = [...new Set([...this.#readablePaths, ...paths])]
  }

  /**
   * Runs a program to its end, then kills what it left running in its group. Never rejects because of the program; one
   * that cannot be started exits with 127 and says why in `stderr`. What it leaves running may hold its streams open: it
   * is waited for as long as more output comes, at most a second.
   */
  async run(
    command: string,
    args: readonly string[],
    options: RunOptions = {},
    signal?: AbortSignal,
  ): Promise<ProcessResult> {
    const { input, timeoutMs, maxBytes = 10 * 1024 * 1024 } = options
    const stdout = new BoundedBuffer(maxBytes)
    const stderr = new BoundedBuffer(maxBytes)
    let isTimedOut = false
    let exitCode: number | null = 127
    try {
      const process = this.spawn(command, args, options)
      // Without a free file descriptor the process has no streams, whatever its type says.
      process.stdout?.on('data', (chunk: Buffer) => stdout.append(chunk))
      process.stderr?.on('data', (chunk: Buffer) => stderr.append(chunk))
      process.stdin?.end(input ?? '')
      const kill = () => killProcessGroup(process.pid)
      const onTimeout = () => {
        isTimedOut = true
        kill()
      }
      const timer =
        timeoutMs === undefined ? undefined : setTimeout(onTimeout, Math.min(timeoutMs, maxTimerMs))
      signal?.addEventListener('abort', kill, { once: true })
      if (signal?.aborted) kill()
      exitCode = await waitForExit(process, () => stdout.totalBytes + stderr.totalBytes)
      clearTimeout(timer)
      signal?.removeEventListener('abort', kill)
      kill()
    } catch (error) {
      stderr.append(Buffer.from(error instanceof Error ? error.message : String(error)))
    }
    return {
      exitCode,
      stdout: stdout.bytes(),
      stderr: stderr.bytes(),
      isTruncated: stdout.isTruncated || stderr.isTruncated,
      isTimedOut,
    }
  }

  /**
   * Starts a program that stays; killed with its group when the workspace is closed. One that cannot be started emits
   * `error` (nobody has to listen), or, when its arguments can be no program's (a NUL byte, too long), this throws.
   */
  spawn(
    command: string,
    args: readonly string[],
    options: ProcessOptions = {},
  ): ChildProcessWithoutNullStreams {
    this.#assertOpen()
    const process = spawn(command, args, {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env },
      stdio: 'pipe',
      detached: true,
    })
    // An event that nobody listens to would end the server: the program is gone, and what it was sent with it.
    process.on('error', () => {})
    process.stdin?.on('error', () => {})
    this.#track(
      () => killProcessGroup(process.pid),
      (done) => process.once('close', done),
    )
    return process
  }

  /**
   * Runs a program without input, whose output is wanted as it comes, to its end. What it leaves running in the background goes
   * on until the workspace is closed, and what that prints is dropped, but for what comes within the first moments. When time
   * is over, or the signal aborts, nothing of it is left running. Rejects when it cannot be started.
   */
  async runStreaming(
    command: string,
    args: readonly string[],
    options: ProcessOptions & StreamProcessOptions,
    signal?: AbortSignal,
  ): Promise<ExitStatus> {
    this.#assertOpen()
    const marker = `${this.#marker}/${options.name}`
    const child = spawn(command, args, {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env, SLIPWAY_COMMAND: marker },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const kill = async () => {
      if (child.pid !== undefined) await killSession(child.pid, commandEnvPrefix + marker)
    }
    this.#hasStreamed = true
    this.#streamed.add(child)
    child.once('close', () => this.#streamed.delete(child))
    this.#killHandlers.add(kill)
    try {
      return await streamProcess(child, { ...options, kill }, signal)
    } finally {
      this.#killHandlers.delete(kill)
    }
  }

  /** Kills what programs of these names have left running when the process that followed them died, where there is /proc. */
  static async killOrphans(names: ReadonlySet<string>): Promise<void> {
    const namePattern = /(?:^|\0)SLIPWAY_COMMAND=[^/\0]*\/([^\0]*)/
    await killByEnvironment((environment) => {
      const name =
        environment.includes(commandEnvPrefix) && namePattern.exec(environment.toString('latin1'))?.[1]
      return typeof name === 'string' && names.has(name)
    })
  }

  /**
   * Starts a program on a terminal of its own (its session's leader). Raw bytes: `onData` gives Buffers typed as text.
   * Everything that is started in it carries a mark in its environment, by which `endTerminal` finds it again.
   */
  async openTerminal(
    command: string,
    args: readonly string[],
    options: ProcessOptions & { readonly columns: number; readonly rows: number },
  ): Promise<IPty> {
    const { spawn: spawnPty } = await import('@lydell/node-pty')
    await waitForForkTurn()
    this.#assertOpen()
    const marker = randomUUID()
    const pty = spawnPty(command, [...args], {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env, SLIPWAY_TERMINAL: marker },
      cols: options.columns,
      rows: options.rows,
      name: options.env?.TERM ?? 'xterm-256color',
      encoding: null,
    })
    // Once: after its end the program's id may be another's.
    let killPromise: Promise<void> | undefined
    const kill = () => {
      killPromise ??= killSession(pty.pid, `SLIPWAY_TERMINAL=${marker}`)
      return killPromise
    }
    this.#terminals.set(pty, kill)
    this.#track(kill, (done) => pty.onExit(done))
    return pty
  }

  /** Kills a terminal's program and everything that was started in it, also in the background. */
  async closeTerminal(pty: IPty): Promise<void> {
    await this.#terminals.get(pty)?.()
  }

  /** Kills everything that was started here and is not over. Nothing can be started any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#killHandlers].map((kill) => kill()))
    this.#killHandlers.clear()
    if (this.#hasStreamed)
      await killByEnvironment((environment) => environment.includes(`${commandEnvPrefix}${this.#marker}/`))
    // Where nothing finds what is left, it must not keep this process alive.
    for (const { stdout, stderr } of this.#streamed) for (const stream of [stdout, stderr]) stream?.destroy()
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new Error('The workspace is closed.')
  }

  #track(kill: () => void | Promise<void>, onEnd: (onDone: () => void) => void): void {
    this.#killHandlers.add(kill)
    onEnd(async () => {
      await kill()
      this.#killHandlers.delete(kill)
    })
  }
}

let lastForkTurn: Promise<void> = Promise.resolve()

/** Forking a large process takes milliseconds: one in each turn of the event loop, so that others come in between. */
function waitForForkTurn(): Promise<void> {
  lastForkTurn = lastForkTurn.then(() => new Promise((done) => setImmediate(done)))
  return lastForkTurn
}

/** The exit code of a process that was started; null when a signal ended it. Rejects when it could not be started. */
async function waitForExit(process: ChildProcess, byteCount: () => number): Promise<number | null> {
  return await new Promise((resolve, reject) => {
    process.once('error', reject)
    process.once('close', resolve)
    process.once('exit', (code) => {
      void waitUntilQuiet(byteCount).then(() => resolve(code))
    })
  })
}

/** Resolves when no output came for 50 ms although there was time to read it, or after a second. */
async function waitUntilQuiet(byteCount: () => number): Promise<void> {
  for (let round = 0; round < 20; round++) {
    const previousCount = byteCount()
    await new Promise((done) => setTimeout(done, 50))
    // After a timer the streams are read before an immediate runs: output is not missed when the process was not scheduled.
    await new Promise((done) => setImmediate(done))
    if (byteCount() === previousCount) return
  }
}

function isInside(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep)
}

/** The real path of the deepest part that exists, and the rest below it. A dangling link leads to where it points. */
async function resolveRealPath(requested: string, depth = 0): Promise<string> {
  // With a slash at its end, a dangling link would not be seen as a link.
  const path = requested.replace(/(?<=.)\/+$/, '')
  if (depth > 4096 || path.length > 4096) throw new PathNotAllowedError('The path is too long.')
  try {
    return await realpath(path)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code !== 'ENOENT' && code !== 'ENOTDIR')
      throw new PathNotAllowedError(`The path ${path} cannot be followed (${String(code)}).`)
  }
  const target = await readLinkTarget(path)
  if (target !== undefined) return await resolveRealPath(target, depth + 1)
  const parent = dirname(path)
  if (parent === path) return path
  const real = join(await resolveRealPath(parent, depth + 1), basename(path))
  // What is missing on the way may be left again (`missing/../link`): then the rest is there, and may be a link.
  return real === path ? path : await resolveRealPath(real, depth + 1)
}

async function readLinkTarget(path: string): Promise<string | undefined> {
  try {
    const target = await readlink(path)
    return isAbsolute(target) ? target : `${await realpath(dirname(path))}${sep}${target}`
  } catch {
    return undefined
  }
}

/** The first bytes of a stream. */
class BoundedBuffer {
  readonly #max: number
  readonly #chunks: Buffer[] = []
  #size = 0
  /** Bytes that came, kept or not. */
  totalBytes = 0
  isTruncated = false

  constructor(max: number) {
    this.#max = max
  }

  append(chunk: Buffer): void {
    this.totalBytes += chunk.length
    const room = this.#max - this.#size
    if (chunk.length > room) this.isTruncated = true
    if (room <= 0) return
    this.#chunks.push(chunk.subarray(0, room))
    this.#size += Math.min(room, chunk.length)
  }

  bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }
}
