import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { maxTimerMs } from '@slipway/shared/time'
import { killProcessGroup } from './processes.ts'

export interface StreamProcessOptions {
  /** Unique among all servers; ASCII. */
  readonly name: string
  /** Milliseconds until SIGTERM to the process group, and a second later SIGKILL; default none. */
  readonly timeoutMs?: number | undefined
  /** Ends it as the timeout does. */
  readonly stop?: AbortSignal | undefined
  /** Reading pauses until a returned promise resolves; it must not reject. */
  onOutput(stream: 'stdout' | 'stderr', bytes: Buffer): Promise<void> | void
}

export interface ExitStatus {
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly isTimedOut: boolean
}

/** The used part of a child process that leads its group. */
interface StartedProcess {
  readonly pid?: number | undefined
  readonly stdout: Readable | null
  readonly stderr: Readable | null
  once(event: 'close', listener: () => void): unknown
  once(event: 'error', listener: (error: Error) => void): unknown
  once(event: 'exit', listener: (exitCode: number | null, signal: NodeJS.Signals | null) => void): unknown
}

/**
 * Passes on the output of a process until it ends. After a timeout or `stop` (SIGTERM first, unless `graceMs`
 * is 0) and on abort, `kill` ends it and all that it started. While background processes hold the streams
 * open, output is awaited for at most a second. Rejects when the process cannot be started.
 */
export async function streamProcess(
  child: StartedProcess,
  options: Omit<StreamProcessOptions, 'name'> & {
    /** Time between SIGTERM and `kill`; default 1 s. */
    readonly graceMs?: number
    kill(): Promise<void>
  },
  signal?: AbortSignal,
): Promise<ExitStatus> {
  const { timeoutMs, stop, graceMs = 1_000 } = options
  const output = new ProcessOutput(child, options.onOutput)
  const closed = new Promise<void>((done) => child.once('close', () => done()))
  const exitStatus = waitForExit(child)
  let termination: Promise<void> | undefined
  let isTimedOut = false
  const terminate = async () => {
    if (graceMs > 0) await terminateGracefully(child.pid, closed, graceMs)
    await options.kill()
  }
  const onTimeout = () => {
    isTimedOut = true
    termination ??= terminate()
  }
  const onStop = () => {
    termination ??= terminate()
  }
  const onAbort = () => {
    termination ??= options.kill()
  }
  const timer = timeoutMs && setTimeout(onTimeout, Math.min(timeoutMs, maxTimerMs))
  signal?.addEventListener('abort', onAbort, { once: true })
  if (signal?.aborted) onAbort()
  stop?.addEventListener('abort', onStop, { once: true })
  if (stop?.aborted) onStop()
  try {
    const exit = await exitStatus
    clearTimeout(timer)
    await termination
    await Promise.race([closed, output.waitUntilQuiet()])
    return { ...exit, isTimedOut }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    stop?.removeEventListener('abort', onStop)
    output.detach()
  }
}

async function terminateGracefully(
  pid: number | undefined,
  closed: Promise<void>,
  graceMs: number,
): Promise<void> {
  killProcessGroup(pid, 'SIGTERM')
  await Promise.race([closed, sleep(graceMs, undefined, { ref: false })])
}

async function waitForExit(child: StartedProcess): Promise<Omit<ExitStatus, 'isTimedOut'>> {
  return await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
  })
}

/** The two output streams of a process, with back-pressure. */
class ProcessOutput {
  readonly #streams: readonly Readable[]
  #onOutput: StreamProcessOptions['onOutput'] | undefined
  #byteCount = 0
  /** Unresolved promises of `onOutput`. */
  #pendingCount = 0

  constructor({ stdout, stderr }: StartedProcess, onOutput: StreamProcessOptions['onOutput']) {
    // Without a free file descriptor the process has no streams, despite its type.
    this.#streams = [stdout, stderr].filter((stream) => stream != null)
    this.#onOutput = onOutput
    stdout?.on('data', (bytes: Buffer) => this.#handleData('stdout', bytes))
    stderr?.on('data', (bytes: Buffer) => this.#handleData('stderr', bytes))
  }

  /** Resolves after 50 ms without output, at most after a second in which reading is not paused. */
  async waitUntilQuiet(): Promise<void> {
    for (let round = 0; round < 20; ) {
      const previousCount = this.#byteCount
      await sleep(50)
      // Streams are read between a timer and an immediate.
      await new Promise((done) => setImmediate(done))
      if (this.#pendingCount > 0) continue
      if (this.#byteCount === previousCount) return
      round++
    }
  }

  /** Drops further output, but reads it, so that a background process does not block. */
  detach(): void {
    this.#onOutput = undefined
    for (const stream of this.#streams) stream.resume()
  }

  #handleData(name: 'stdout' | 'stderr', bytes: Buffer): void {
    this.#byteCount += bytes.length
    const pending = this.#onOutput?.(name, bytes)
    if (!pending) return
    this.#pendingCount++
    for (const stream of this.#streams) stream.pause()
    void pending.then(() => {
      this.#pendingCount--
      if (this.#pendingCount === 0) for (const stream of this.#streams) stream.resume()
    })
  }
}
