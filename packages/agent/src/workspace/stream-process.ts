import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { killProcessGroup } from './processes.ts'

/** The longest that a timer takes. */
export const maxTimerMs = 2 ** 31 - 1
/** Time between SIGTERM and SIGKILL. */
const graceMs = 1_000

export interface StreamProcessOptions {
  /** Tells it from all others, also of other servers; of ASCII. */
  readonly name: string
  /** Milliseconds until SIGTERM goes to the process group, and a second later SIGKILL; none by default. */
  readonly timeoutMs?: number
  /** Called with output as it comes. While a promise that it gave is open, nothing more is read; it never rejects. */
  onOutput(stream: 'stdout' | 'stderr', bytes: Buffer): Promise<void> | undefined
}

export interface ExitStatus {
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly isTimedOut: boolean
}

/** A process that leads its group, as far as it is looked at here. */
interface StartedProcess {
  readonly pid?: number | undefined
  readonly stdout: Readable | null
  readonly stderr: Readable | null
  once(event: 'close', listener: () => void): unknown
  once(event: 'error', listener: (error: Error) => void): unknown
  once(event: 'exit', listener: (exitCode: number | null, signal: NodeJS.Signals | null) => void): unknown
}

/**
 * Hands on the output of a process until it ends; `kill` ends everything that it has started, when time is over or the signal
 * aborts. A process in the background may hold the streams open: it is waited for as long as more comes, at most a second, and
 * read on for nobody. Rejects when the process could not be started.
 */
export async function streamProcess(
  child: StartedProcess,
  options: Omit<StreamProcessOptions, 'name'> & { kill(): Promise<void> },
  signal?: AbortSignal,
): Promise<ExitStatus> {
  const output = new ProcessOutput(child, options.onOutput)
  const closed = new Promise<void>((done) => child.once('close', () => done()))
  const exitStatus = waitForExit(child)
  let termination: Promise<void> | undefined
  let isTimedOut = false
  const onTimeout = () => {
    isTimedOut = true
    termination ??= terminateGracefully(child.pid, closed, options.kill)
  }
  const onAbort = () => {
    termination ??= options.kill()
  }
  const { timeoutMs } = options
  const timer = timeoutMs && setTimeout(onTimeout, Math.min(timeoutMs, maxTimerMs))
  signal?.addEventListener('abort', onAbort, { once: true })
  if (signal?.aborted) onAbort()
  try {
    const exit = await exitStatus
    clearTimeout(timer)
    await termination
    await Promise.race([closed, output.waitUntilQuiet()])
    return { ...exit, isTimedOut }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    output.detach()
  }
}

async function terminateGracefully(
  pid: number | undefined,
  closed: Promise<void>,
  kill: () => Promise<void>,
): Promise<void> {
  killProcessGroup(pid, 'SIGTERM')
  const grace = new AbortController()
  await Promise.race([closed, sleep(graceMs, undefined, { signal: grace.signal }).catch(() => {})])
  grace.abort()
  await kill()
}

async function waitForExit(child: StartedProcess): Promise<Omit<ExitStatus, 'isTimedOut'>> {
  return await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
  })
}

/** The two streams of a process, read as fast as they are taken. */
class ProcessOutput {
  readonly #streams: readonly Readable[]
  #onOutput: StreamProcessOptions['onOutput'] | undefined
  #byteCount = 0
  /** Promises of the taker that are open. */
  #pendingCount = 0

  constructor({ stdout, stderr }: StartedProcess, onOutput: StreamProcessOptions['onOutput']) {
    // Without a free file descriptor the process has no streams, whatever its type says.
    this.#streams = [stdout, stderr].filter((stream) => stream != null)
    this.#onOutput = onOutput
    stdout?.on('data', (bytes: Buffer) => this.#handleData('stdout', bytes))
    stderr?.on('data', (bytes: Buffer) => this.#handleData('stderr', bytes))
  }

  /** Resolves when no output came for 50 ms although there was time to read it, or after a second in which there was. */
  async waitUntilQuiet(): Promise<void> {
    for (let round = 0; round < 20; ) {
      const previousCount = this.#byteCount
      await sleep(50)
      // After a timer the streams are read before an immediate runs.
      await new Promise((done) => setImmediate(done))
      if (this.#pendingCount > 0) continue
      if (this.#byteCount === previousCount) return
      round++
    }
  }

  /** Hands nothing on any more, and reads on: a process in the background must not stand still, or end, for that. */
  detach(): void {
    this.#onOutput = undefined
    for (const stream of this.#streams) stream.resume()
  }

  #handleData(name: 'stdout' | 'stderr', bytes: Buffer): void {
    this.#byteCount += bytes.length
    const pending = this.#onOutput?.(name, bytes)
    if (pending === undefined) return
    this.#pendingCount++
    for (const stream of this.#streams) stream.pause()
    void pending.then(() => {
      this.#pendingCount--
      if (this.#pendingCount === 0) for (const stream of this.#streams) stream.resume()
    })
  }
}
