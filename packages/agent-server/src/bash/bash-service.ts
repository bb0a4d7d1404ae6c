import { stat } from 'node:fs/promises'
import { constants } from 'node:os'
import { resolve } from 'node:path'
import { Secrets, Workspace } from '@slipway/agent'
import { type BashOutput, Counts, type ExecuteBashRequest, Problem } from '@slipway/protocol'
import { BashEvents, type BashEventsOptions } from './event-store.ts'
import { BashRun } from './output-recorder.ts'

export interface BashOptions extends BashEventsOptions {
  /** Where commands run that name no directory. */
  readonly workingDirectory: string
  readonly environment: Readonly<Record<string, string>>
  /** Values that no output shows. */
  readonly hidden: readonly string[]
  /** Most commands at a time; 100 unless given. */
  readonly maxRunning?: number
  /** Bytes of output that are kept of one command; 64 MiB unless given. */
  readonly maxOutputBytes?: number
}

/**
 * Commands beside the conversations (wire 1.5): each runs in a process group of its own, and what it prints is kept as events.
 * What a command leaves running in the background goes on until the server stops.
 */
export class Bash implements AsyncDisposable {
  readonly events: BashEvents
  /** How commands ended. */
  readonly ended = new Counts('outcome')
  readonly #options: BashOptions
  readonly #workspace: Workspace
  readonly #secrets = new Secrets()
  readonly #running = new Map<string, Promise<void>>()
  readonly #stop = new AbortController()
  #starting = 0

  private constructor(options: BashOptions, workspace: Workspace) {
    this.#options = options
    this.#workspace = workspace
    this.events = new BashEvents(options)
    for (const value of options.hidden) this.#secrets.hide(value)
  }

  static async open(options: BashOptions): Promise<Bash> {
    const { workingDirectory: directory, environment: env } = options
    const bash = new Bash(options, await Workspace.open({ directory, env, isConfined: false }))
    // Nobody has to wait until what a server that died has left is read, and ended.
    const endLeft = async () => {
      const ids = await bash.events.kept()
      if (ids.size > 0) await Workspace.endLeft(ids)
    }
    endLeft().catch((error) => options.log('error', 'kept commands cannot be read', { error: String(error) }))
    return bash
  }

  /** Commands that run. */
  get running(): number {
    return this.#running.size
  }

  /** Starts a command and answers its event as JSON. Whatever comes of it, also that it cannot run, is in its output. */
  async start(request: ExecuteBashRequest): Promise<Buffer> {
    return (await this.#begin(request)).line
  }

  /** Runs a command to its end; all of its output in one. The signal ends the waiting, not the command. */
  async execute(request: ExecuteBashRequest, signal: AbortSignal): Promise<BashOutput> {
    const { id } = await this.#begin(request)
    const { promise: left, reject } = Promise.withResolvers<never>()
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    try {
      await Promise.race([this.#running.get(id), left])
    } finally {
      signal.removeEventListener('abort', leave)
    }
    const output = await this.events.whole(id)
    if (output === undefined) throw new Problem('conflict', 'The output of the command has been removed')
    return output
  }

  /** Ends what runs, also in the background. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await Promise.all(this.#running.values())
    await this.#workspace[Symbol.asyncDispose]()
    await this.events[Symbol.asyncDispose]()
  }

  async #begin(request: ExecuteBashRequest): Promise<{ id: string; line: Buffer }> {
    const { maxRunning = 100 } = this.#options
    if (this.#stop.signal.aborted) throw new Problem('unavailable', 'The server is stopping')
    if (this.#running.size + this.#starting >= maxRunning)
      throw new Problem('too_many', `${maxRunning} commands run already`)
    this.#starting++
    try {
      const { command, cwd, timeout } = request
      const begun = await this.events.begin({
        command: this.#secrets.mask(command),
        cwd: cwd === undefined ? null : this.#secrets.mask(cwd),
        timeout,
      })
      const run = this.#run(begun.id, request).finally(() => this.#running.delete(begun.id))
      this.#running.set(begun.id, run)
      return begun
    } finally {
      this.#starting--
    }
  }

  /** Runs a command and keeps its output; it is over in any case. */
  async #run(id: string, request: ExecuteBashRequest): Promise<void> {
    const { maxOutputBytes = 64 * 1024 * 1024 } = this.#options
    const run = new BashRun(this.events, { id, secrets: this.#secrets, maxOutputBytes })
    try {
      const outcome = await this.#follow(run, id, request)
      this.ended.add({ outcome: outcome.exitCode === 0 ? 'ok' : 'failed' })
      await run.end(outcome)
    } catch (error) {
      this.#options.log('error', 'the output of a command is lost', { error: String(error) })
    }
  }

  async #follow(run: BashRun, name: string, request: ExecuteBashRequest): Promise<Outcome> {
    const { command, cwd, timeout } = request
    const directory = resolve(this.#workspace.directory, cwd ?? '')
    if (!(await isDirectory(directory))) return failed(`There is no directory ${directory}.`)
    if (Buffer.byteLength(command) > maxCommandBytes)
      return failed(`The command is longer than ${maxCommandBytes} bytes.`)
    try {
      const options = {
        name,
        cwd: directory,
        timeoutMs: timeout * 1000,
        onOutput: (stream: 'stdout' | 'stderr', bytes: Buffer) => run.add(stream, bytes),
      }
      const ending = await this.#workspace.follow('bash', ['-c', command], options, this.#stop.signal)
      if (ending.isTimedOut) return failed(`The command timed out after ${timeout} seconds.`)
      if (this.#stop.signal.aborted) return failed('The server was stopped while this command ran.')
      return { exitCode: ending.exitCode ?? -numberOf(ending.signal), notice: undefined }
    } catch (error) {
      return failed(`The command could not be started: ${error instanceof Error ? error.message : error}`)
    }
  }
}

/** What the system takes as one argument. */
const maxCommandBytes = 131_071

/** How a command ended; the notice is added to what it wrote to standard error. */
export interface Outcome {
  readonly exitCode: number
  readonly notice: string | undefined
}

function failed(notice: string): Outcome {
  return { exitCode: -1, notice }
}

function numberOf(signal: NodeJS.Signals | null): number {
  return signal === null ? 1 : constants.signals[signal]
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch {
    return false
  }
}
