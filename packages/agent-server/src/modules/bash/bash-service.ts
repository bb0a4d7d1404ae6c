import { constants } from 'node:os'
import { resolve } from 'node:path'
import { Secrets, Workspace } from '@slipway/agent'
import { type BashOutput, type ExecuteBashRequest, Problem } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { isDirectory } from '@slipway/shared/fs'
import { createCounter } from '@slipway/shared/metrics'
import { errorText } from '@slipway/shared/text'
import { BashEventStore, type BashEventStoreOptions, type StoredCommand } from './event-store.ts'
import { type CommandOutcome, OutputRecorder } from './output-recorder.ts'

export interface BashServiceOptions extends BashEventStoreOptions {
  /** Working directory of commands that name none. */
  readonly workingDirectory: string
  readonly environment: Readonly<Record<string, string>>
  /** Values that are redacted in all output. */
  readonly redactedValues: readonly string[]
  /** Most commands that run at the same time; 100 unless passed. */
  readonly maxRunning?: number
  /** Most bytes of output stored of one command; 64 MiB unless passed. */
  readonly maxOutputBytes?: number
}

/** The conversation in whose workspace a command runs, and the directory of commands that name none. */
export interface BashScope {
  readonly conversationId: string
  readonly workingDirectory: string
}

interface RunningCommand {
  readonly conversationId: string | null
  /** Never rejects. */
  readonly completion: Promise<void>
  readonly stop: AbortController
}

/**
 * Commands of clients, outside of conversations (wire 1.5) or in the workspace of one, each in its own
 * process group. Their output is stored as events. Background processes of a command run until the server
 * stops.
 */
export class BashService implements AsyncDisposable {
  readonly events: BashEventStore
  readonly endedCommands = createCounter(
    'slipway_bash_commands_total',
    'Commands of /api/bash that ended.',
    'outcome',
  )
  readonly #options: BashServiceOptions
  readonly #workspace: Workspace
  readonly #secrets = new Secrets()
  readonly #running = new Map<string, RunningCommand>()
  readonly #stop = new AbortController()
  #starting = 0

  private constructor(options: BashServiceOptions, workspace: Workspace) {
    this.#options = options
    this.#workspace = workspace
    this.events = new BashEventStore(options)
    for (const value of options.redactedValues) this.#secrets.addValue(value)
  }

  static async open(options: BashServiceOptions): Promise<BashService> {
    const { workingDirectory: directory, environment: env } = options
    return new BashService(options, await Workspace.open({ directory, env, isConfined: false }))
  }

  get runningCount(): number {
    return this.#running.size
  }

  /** Does a command run in the workspace of the conversation? */
  isRunning(conversationId: string): boolean {
    return this.#running.values().some((command) => command.conversationId === conversationId)
  }

  /** Starts a command and answers its event as JSON. A failure to run is reported in its output. */
  async start(request: ExecuteBashRequest, scope?: BashScope): Promise<Buffer> {
    return (await this.#launch(request, scope)).line
  }

  /** Runs a command to its end; all of its output in one. The signal ends the waiting, not the command. */
  async execute(request: ExecuteBashRequest, signal: AbortSignal, scope?: BashScope): Promise<BashOutput> {
    const { id } = await this.#launch(request, scope)
    await raceAbort(this.#running.get(id)?.completion ?? Promise.resolve(), signal)
    const output = await this.events.getCombinedOutput(id)
    if (output === undefined) throw new Problem('conflict', 'The output of the command has been removed')
    return output
  }

  /** Ends a command with SIGTERM, then SIGKILL; does nothing to one that is over. False for an unknown id. */
  async stop(id: string, conversationId: string | null = null): Promise<boolean> {
    const running = this.#running.get(id)
    if (running?.conversationId === conversationId) running.stop.abort()
    const [event] = await this.events.get([id], conversationId)
    return event !== undefined
  }

  /** Ends the commands of a conversation and removes their events. */
  async removeConversation(conversationId: string): Promise<void> {
    const running = [...this.#running.values()].filter((command) => command.conversationId === conversationId)
    for (const { stop } of running) stop.abort()
    await Promise.all(running.map(({ completion }) => completion))
    await this.events.removeConversation(conversationId)
  }

  /** Ends the running commands and their background processes. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await Promise.all([...this.#running.values()].map(({ completion }) => completion))
    await this.#workspace[Symbol.asyncDispose]()
    await this.events[Symbol.asyncDispose]()
  }

  async #launch(
    given: ExecuteBashRequest,
    scope: BashScope | undefined,
  ): Promise<{ id: string; line: Buffer }> {
    const { maxRunning = 100 } = this.#options
    if (this.#stop.signal.aborted) throw new Problem('unavailable', 'The server is stopping')
    if (this.#running.size + this.#starting >= maxRunning)
      throw new Problem('too_many', `${maxRunning} commands run already`)
    this.#starting++
    try {
      const request = { ...given, cwd: given.cwd ?? scope?.workingDirectory }
      const { command, cwd, timeout } = request
      const conversationId = scope?.conversationId ?? null
      const draft = {
        command: this.#secrets.redact(command),
        cwd: cwd === undefined ? null : this.#secrets.redact(cwd),
        timeout,
      }
      const entry = await this.events.addCommand(draft, conversationId)
      const stop = new AbortController()
      const stored = { commandId: entry.id, conversationId }
      const completion = this.#run(stored, request, stop.signal).finally(() => this.#running.delete(entry.id))
      this.#running.set(entry.id, { conversationId, completion, stop })
      return entry
    } finally {
      this.#starting--
    }
  }

  /** Runs a command and stores its output; never rejects. */
  async #run(stored: StoredCommand, request: ExecuteBashRequest, stop: AbortSignal): Promise<void> {
    const { maxOutputBytes = 64 * 1024 * 1024 } = this.#options
    const recorder = new OutputRecorder(this.events, {
      command: stored,
      secrets: this.#secrets,
      maxOutputBytes,
    })
    try {
      const outcome = await this.#runProcess(recorder, { name: stored.commandId, stop }, request)
      this.endedCommands.inc({ outcome: outcome.exitCode === 0 ? 'ok' : 'failed' })
      await recorder.end(outcome)
    } catch (error) {
      this.#options.log('error', 'the output of a command is lost', { error: String(error) })
    }
  }

  async #runProcess(
    recorder: OutputRecorder,
    process: { readonly name: string; readonly stop: AbortSignal },
    request: ExecuteBashRequest,
  ): Promise<CommandOutcome> {
    const { command, cwd, timeout } = request
    const directory = resolve(this.#workspace.directory, cwd ?? '')
    if (!(await isDirectory(directory)))
      return failedOutcome(`Error executing command: there is no directory ${directory}.`)
    if (Buffer.byteLength(command) > maxCommandBytes)
      return failedOutcome(`The command is longer than ${maxCommandBytes} bytes.`)
    try {
      const options = {
        ...process,
        cwd: directory,
        timeoutMs: timeout * 1000,
        onOutput: (stream: 'stdout' | 'stderr', bytes: Buffer) => recorder.add(stream, bytes),
      }
      const result = await this.#workspace.runStreaming('bash', ['-c', command], options, this.#stop.signal)
      if (result.isTimedOut) return failedOutcome(`The command timed out after ${timeout} seconds.`)
      if (this.#stop.signal.aborted) return failedOutcome('The server was stopped while this command ran.')
      return { exitCode: result.exitCode ?? -signalNumber(result.signal), notice: undefined }
    } catch (error) {
      return failedOutcome(`Error executing command: it could not be started: ${errorText(error)}`)
    }
  }
}

/** The system's limit for one argument. */
const maxCommandBytes = 131_071

function failedOutcome(notice: string): CommandOutcome {
  return { exitCode: -1, notice }
}

function signalNumber(signal: NodeJS.Signals | null): number {
  return signal === null ? 1 : constants.signals[signal]
}
