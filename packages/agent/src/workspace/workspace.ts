import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chownSync } from 'node:fs'
import * as systemFiles from 'node:fs/promises'
import { isAbsolute, resolve, sep } from 'node:path'
import type { IPty } from '@lydell/node-pty'
import { isWithin } from '@slipway/shared/fs'
import { loadLibc } from '@slipway/shared/process'
import { errorText } from '@slipway/shared/text'
import * as toolFiles from '@slipway/shared/tool-files'
import { BoundedBuffer } from './bounded-buffer.ts'
import { type ActiveSandbox, sandboxCommand } from './command-sandbox.ts'
import { currentPaths } from './current-paths.ts'
import { findProgram, hidingCommand, hidingProbe } from './hide-paths.ts'
import {
  hasPrograms,
  killByEnvironment,
  killGroupsByEnvironment,
  killProcessGroup,
  killSession,
} from './processes.ts'
import { PathNotAllowedError, type PathReader, resolveRealPath } from './resolve-path.ts'
import { type ExitStatus, type StreamProcessOptions, streamProcess } from './stream-process.ts'

interface WorkspaceOptions {
  /** Must exist. */
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
  /** Directories outside it that may be read; they need not exist yet. */
  readonly readable?: readonly string[]
  /** Directories that are refused, except what the workspace and `readable` have of them. */
  readonly reserved?: readonly string[]
  /**
   * Hide the reserved directories from programs too, where bubblewrap works and tools have the rights of the
   * server; default false. Programs see, and may change, `shown`: directories in them.
   */
  readonly hidesReserved?: { readonly shown: readonly string[] } | undefined
  /** Restrict file access to these; default true. */
  readonly isConfined?: boolean
  /** Programs run as the server's user, also where tools have another one; default false. */
  readonly isOfServer?: boolean
  /** What terminals may change and reach; writing by path is restricted likewise. */
  readonly sandbox?: ActiveSandbox | undefined
}

/** A program on its own terminal. */
export interface Terminal {
  readonly pty: IPty
  /** Whether programs run in it besides `shell`, a process id, and its ancestors; true without /proc. */
  hasPrograms(shell: number): Promise<boolean>
  /** Kills the program and everything started in the terminal, background processes included. */
  close(): Promise<void>
}

interface ProcessOptions {
  /** Default: the workspace's directory. */
  readonly cwd?: string | undefined
  /** Besides the workspace's own variables. */
  readonly env?: Readonly<Record<string, string>>
}

interface TerminalOptions extends ProcessOptions {
  readonly columns: number
  readonly rows: number
  /** Not in the sandbox of the workspace. */
  readonly isOutside?: boolean
}

export interface RunOptions extends ProcessOptions {
  readonly input?: string | Buffer
  /** Milliseconds until the process group is killed; none by default. */
  readonly timeoutMs?: number
  /** Bytes stored of each stream; the rest is read and dropped. Default 10 MiB. */
  readonly maxBytes?: number
}

export interface ProcessResult extends Omit<ExitStatus, 'signal'> {
  readonly stdout: Buffer
  readonly stderr: Buffer
  readonly isTruncated: boolean
}

/** Variable that marks the processes of `runStreaming`: `<marker of the workspace>/<name>`. */
const commandEnvPrefix = 'SLIPWAY_COMMAND='

/**
 * A directory, its files and its processes: the only place of this package that starts processes. Each
 * process leads its own process group, which is killed as a whole, and sees `env` and no other variable. Path
 * confinement holds for the agent's file tools, and for terminals where there is a sandbox. Files and
 * processes have the rights of the tool user, where there is one, otherwise those of this process.
 */
export class Workspace implements AsyncDisposable {
  /** Absolute, without symbolic links. */
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
  #readablePaths: readonly string[]
  readonly #reserved: readonly string[]
  readonly #shown: readonly string[]
  /** Undefined: programs see what is reserved, as far as they have the rights. */
  readonly #bubblewrap: string | undefined
  readonly #isConfined: boolean
  readonly #isOfServer: boolean
  /** Undefined: terminals have all rights of this process. */
  readonly sandbox: ActiveSandbox | undefined
  readonly #killHandlers = new Set<() => void | Promise<void>>()
  /** In the environment of the programs of `runStreaming`. */
  readonly #marker = randomUUID()
  /** Programs of `runStreaming` whose streams are open. */
  readonly #streamed = new Set<ChildProcess>()
  #hasStreamed = false
  #isClosed = false

  private constructor(options: Required<WorkspaceOptions>, bubblewrap: string | undefined) {
    const { directory, env, readable, reserved, isConfined, isOfServer, sandbox, hidesReserved } = options
    this.#reserved = reserved
    this.#shown = hidesReserved?.shown ?? []
    this.#bubblewrap = bubblewrap
    this.sandbox = sandbox
    this.directory = directory
    this.env = env
    this.#readablePaths = readable
    this.#isConfined = isConfined
    this.#isOfServer = isOfServer
  }

  static async open(options: WorkspaceOptions): Promise<Workspace> {
    const { directory, env, readable = [], reserved = [] } = options
    const { isConfined = true, isOfServer = false, sandbox, hidesReserved } = options
    const files: PathReader = isOfServer ? systemFiles : toolFiles
    const hides = hidesReserved !== undefined && !isOfServer && toolFiles.toolUser() === undefined
    const resolved = {
      directory: await files.realpath(directory),
      env,
      readable: await Promise.all(readable.map((path) => resolveRealPath(resolve(path), systemFiles))),
      reserved: await Promise.all(reserved.map(resolveReserved)),
      isConfined,
      isOfServer,
      sandbox,
      hidesReserved: hidesReserved && { shown: await Promise.all(hidesReserved.shown.map(resolveReserved)) },
    }
    return new Workspace(resolved, hides ? await Workspace.findBubblewrap(env.PATH) : undefined)
  }

  /** The path of bubblewrap in `path`, if it can hide directories from programs here. It is tried once. */
  static findBubblewrap(path: string | undefined): Promise<string | undefined> {
    const found = bubblewraps.get(path) ?? tryBubblewrap(path)
    bubblewraps.set(path, found)
    return found
  }

  /**
   * The real path of a file or directory that may be read or written; it need not exist yet. Callers use it
   * instead of the requested one. Rejects with PathNotAllowedError for a path with a NUL byte, one outside
   * the workspace and one that cannot be resolved.
   */
  async resolve(path: string, intent: 'read' | 'write'): Promise<string> {
    if (path.includes('\0')) throw new PathNotAllowedError('The path contains a NUL byte.')
    // Not `join`, which resolves `link/..` to the directory of the link; the system resolves it to that of
    // its target.
    const real = await resolveRealPath(isAbsolute(path) ? path : `${this.directory}${sep}${path}`)
    if (this.isReserved(real))
      throw new PathNotAllowedError(
        `The path ${path} is in a directory that holds keys of Slipway, which tools must not touch.`,
      )
    if (intent === 'write' && this.sandbox?.mode === 'read-only')
      throw new PathNotAllowedError(
        `${path} was not changed: the sandbox of this conversation is read-only. Ask the user, or say what you would change.`,
      )
    if (!this.#isConfined && !(intent === 'write' && this.sandbox !== undefined)) return real
    const roots = intent === 'read' ? [this.directory, ...this.#readablePaths] : [this.directory]
    if (roots.some((root) => isWithin(root, real))) return real
    throw new PathNotAllowedError(
      `The path ${path} is outside the workspace ${this.directory}; only files below it may be ${intent === 'read' ? 'read' : 'written'}.`,
    )
  }

  /**
   * Whether a real path is in a reserved directory, and not in what the workspace and `readable` have of it.
   */
  isReserved(path: string): boolean {
    const own = [this.directory, ...this.#readablePaths]
    return currentPaths(this.#reserved).some(
      (reserved) =>
        isWithin(reserved, path) && !own.some((root) => isWithin(reserved, root) && isWithin(root, path)),
    )
  }

  /** Whether programs outside of a sandbox run behind bubblewrap, and gain no privileges. */
  get isHiding(): boolean {
    return this.#bubblewrap !== undefined
  }

  /** Whether programs of tools cannot see what is reserved. */
  get isReservedHidden(): boolean {
    return this.#bubblewrap !== undefined || this.sandbox !== undefined || toolFiles.toolUser() !== undefined
  }

  /** Makes more directories outside readable; they need not exist yet. */
  async allowRead(readable: readonly string[]): Promise<void> {
    const paths = await Promise.all(readable.map((path) => resolveRealPath(resolve(path), systemFiles)))
    this.#readablePaths = [...new Set([...this.#readablePaths, ...paths])]
  }

  /**
   * Runs a program to its end, then kills the rest of its process group. One that cannot be started exits
   * with 127 and the reason in `stderr`. Waits at most a second for output of background processes.
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
    let exit: Omit<ExitStatus, 'signal'> = { exitCode: 127, isTimedOut: false }
    try {
      const child = this.spawn(command, args, options)
      child.stdin?.end(input ?? '')
      const kill = async () => killProcessGroup(child.pid)
      const onOutput = (stream: 'stdout' | 'stderr', bytes: Buffer) =>
        (stream === 'stdout' ? stdout : stderr).append(bytes)
      exit = await streamProcess(child, { timeoutMs, graceMs: 0, kill, onOutput }, signal)
      await kill()
    } catch (error) {
      stderr.append(Buffer.from(errorText(error)))
    }
    const { exitCode, isTimedOut } = exit
    const isTruncated = stdout.isTruncated || stderr.isTruncated
    return { exitCode, stdout: stdout.bytes(), stderr: stderr.bytes(), isTruncated, isTimedOut }
  }

  /**
   * Starts a program; its process group is killed when the workspace is closed. Emits `error` when it cannot
   * be started (listening is optional); invalid arguments (a NUL byte, too long) throw.
   */
  spawn(
    command: string,
    args: readonly string[],
    options: ProcessOptions = {},
  ): ChildProcessWithoutNullStreams {
    this.#assertOpen()
    const [program = command, ...rest] = this.#hiding(command, args, options)
    const child = spawn(program, rest, {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env },
      stdio: 'pipe',
      detached: true,
      ...this.#credentials,
    })
    // Without a listener, these events would end the server.
    child.on('error', () => {})
    child.stdin?.on('error', () => {})
    this.#track(
      () => killProcessGroup(child.pid),
      (done) => child.once('close', done),
    )
    return child
  }

  /**
   * Starts a program with open streams in the workspace's sandbox, if there is one, where it may also change
   * `writable`. Its end, and that of the workspace, ends everything that it has started. Invalid arguments
   * (a NUL byte, too long) throw; `isStarted` is false when there is no such program.
   */
  async openProgram(
    command: string,
    args: readonly string[],
    options: ProcessOptions & { readonly writable?: readonly string[] } = {},
  ): Promise<{ readonly child: ChildProcessWithoutNullStreams; readonly isStarted: Promise<boolean> }> {
    const { sandbox } = this
    const { writable = [] } = options
    const places = {
      directory: this.directory,
      readable: this.#readablePaths,
      hidden: this.#reserved,
      writable,
      cwd: options.cwd,
    }
    const [program = command, ...rest] =
      sandbox === undefined
        ? this.#hiding(command, args, options)
        : [...(await sandboxCommand(sandbox, places)), command, ...args]
    this.#assertOpen()
    const marker = `${this.#marker}/${randomUUID()}`
    const child = spawn(program, rest, {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env, SLIPWAY_COMMAND: marker },
      stdio: 'pipe',
      detached: true,
      ...this.#credentials,
    })
    const isStarted = new Promise<boolean>((done) => {
      child.once('spawn', () => done(true))
      child.once('error', () => done(false))
    })
    child.stdin.on('error', () => {})
    let killed: Promise<void> | undefined
    const kill = () => {
      killed ??=
        child.pid === undefined ? Promise.resolve() : killSession(child.pid, commandEnvPrefix + marker)
      return killed
    }
    this.#track(kill, (done) => child.once('exit', done))
    return { child, isStarted }
  }

  /**
   * Runs a program without input to its end and streams its output. Its background processes live until the
   * workspace is closed; after a timeout or an abort none is left. Rejects when it cannot be started.
   */
  async runStreaming(
    command: string,
    args: readonly string[],
    options: ProcessOptions & StreamProcessOptions,
    signal?: AbortSignal,
  ): Promise<ExitStatus> {
    this.#assertOpen()
    const marker = `${this.#marker}/${options.name}`
    const [program = command, ...rest] = this.#hiding(command, args, options)
    const child = spawn(program, rest, {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env, SLIPWAY_COMMAND: marker },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      ...this.#credentials,
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

  /**
   * Kills what an earlier process of a server left running: all processes whose environment has
   * `SLIPWAY_SERVER=<server>`, or a `HOME` below the directory `homes`, and the process groups that they lead.
   * Needs /proc; of other processes it does not find those that cleared their environment.
   */
  static async killLeftovers(server: string, homes: readonly string[] = []): Promise<void> {
    const escaped = RegExp.escape(server)
    const isMarked = new RegExp(`(?:^|\\0)SLIPWAY_SERVER=${escaped}(?:\\0|$)`)
    const found = homes.map((home) => Buffer.from(`\0HOME=${home}/`))
    await killGroupsByEnvironment(
      (environment) =>
        (environment.includes(server) && isMarked.test(environment.toString('latin1'))) ||
        found.some((home) => environment.includes(home) || startsWith(environment, home.subarray(1))),
    )
  }

  /**
   * Starts a program on a new terminal, as the leader of its session, in the workspace's sandbox if there is
   * one. `onData` gives Buffers typed as text. Processes of the terminal carry a marker in their environment,
   * by which `close` finds them.
   */
  async openTerminal(command: string, args: readonly string[], options: TerminalOptions): Promise<Terminal> {
    const [{ spawn: spawnPty }, libc] = await Promise.all([import('@lydell/node-pty'), loadLibc()])
    const { sandbox } = this
    const places = { directory: this.directory, readable: this.#readablePaths, hidden: this.#reserved }
    const [program = command, ...rest] =
      options.isOutside === true || sandbox === undefined
        ? this.#hiding(command, args, options)
        : [...(await sandboxCommand(sandbox, places)), command, ...args]
    await waitForForkTurn()
    this.#assertOpen()
    const id = randomUUID()
    const marker = `SLIPWAY_TERMINAL=${id}`
    const pty = spawnPty(program, rest, {
      cwd: options.cwd ?? this.directory,
      env: { ...this.env, ...options.env, SLIPWAY_TERMINAL: id },
      cols: options.columns,
      rows: options.rows,
      name: options.env?.TERM ?? 'xterm-256color',
      encoding: null,
      ...this.#credentials,
    })
    // In the same turn of the event loop: no other program may inherit the terminal and type into it.
    const { fd, ptsName } = pty as IPty & { readonly fd: number; readonly ptsName: string }
    libc?.closeOnExec(fd)
    const { uid, gid } = this.#credentials
    // Programs open their terminal by its name, too.
    if (uid !== undefined && gid !== undefined) chownSync(ptsName, uid, gid)
    // Once: after its end the process id may be reused.
    let killPromise: Promise<void> | undefined
    const kill = () => {
      killPromise ??= killSession(pty.pid, marker)
      return killPromise
    }
    this.#track(kill, (done) => pty.onExit(done))
    return { pty, hasPrograms: (shell) => hasPrograms(pty.pid, marker, shell), close: kill }
  }

  /** Kills all running processes of the workspace. Nothing can be started afterwards. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#killHandlers].map((kill) => kill()))
    this.#killHandlers.clear()
    if (this.#hasStreamed)
      await killByEnvironment((environment) => environment.includes(`${commandEnvPrefix}${this.#marker}/`))
    // Without /proc, processes may be left; their streams must not keep this process alive.
    for (const { stdout, stderr } of this.#streamed) for (const stream of [stdout, stderr]) stream?.destroy()
  }

  /** The command line by which a program does not see what is reserved. */
  #hiding(command: string, args: readonly string[], options: ProcessOptions): string[] {
    const cwd = options.cwd ?? this.directory
    const line = [command, ...args]
    const path = options.env?.PATH ?? this.env.PATH
    // One that does not exist fails as it would without bubblewrap.
    if (this.#bubblewrap === undefined || findProgram(command, path, cwd) === undefined) return line
    const writable = [...this.#shown, this.directory]
    const places = { hidden: this.#reserved, readable: this.#readablePaths, writable }
    return [...hidingCommand(this.#bubblewrap, places, cwd), ...line]
  }

  /** Whose rights programs have; the one who starts them has no supplementary groups to pass on. */
  get #credentials(): { readonly uid?: number; readonly gid?: number } {
    const user = this.#isOfServer ? undefined : toolFiles.toolUser()
    return user === undefined ? {} : { uid: user.uid, gid: user.gid }
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

/** By search path. */
const bubblewraps = new Map<string | undefined, Promise<string | undefined>>()

async function tryBubblewrap(path: string | undefined): Promise<string | undefined> {
  const [bubblewrap, ...args] = hidingProbe(path) ?? []
  if (bubblewrap === undefined) return undefined
  await using workspace = await Workspace.open({ directory: '/', env: {}, isOfServer: true })
  const { exitCode } = await workspace.run(bubblewrap, args, { timeoutMs: 30_000 })
  return exitCode === 0 ? bubblewrap : undefined
}

/** One that this user cannot reach stays as it is: it may be in the home directory of another one. */
async function resolveReserved(path: string): Promise<string> {
  return await resolveRealPath(resolve(path), systemFiles).catch(() => resolve(path))
}

function startsWith(bytes: Buffer, prefix: Buffer): boolean {
  return bytes.subarray(0, prefix.length).equals(prefix)
}

let lastForkTurn: Promise<void> = Promise.resolve()

/** Forking a large process takes milliseconds: at most one fork for each turn of the event loop. */
function waitForForkTurn(): Promise<void> {
  lastForkTurn = lastForkTurn.then(() => new Promise((done) => setImmediate(done)))
  return lastForkTurn
}
