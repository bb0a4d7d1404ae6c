import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { killGroup } from './processes.ts'

/** The longest that a timer takes. */
export const maxTimeoutMs = 2 ** 31 - 1
/** Time between SIGTERM and SIGKILL. */
const graceMs = 1_000

export interface FollowOptions {
  /** Tells it from all others, also of other servers; of ASCII. */
  readonly name: string
  /** Milliseconds until SIGTERM goes to the process group, and a second later SIGKILL; none by default. */
  readonly timeoutMs?: number
  /** Called with output as it comes. While a promise that it gave is open, nothing more is read; it never rejects. */
  onOutput(stream: 'stdout' | 'stderr', bytes: Buffer): Promise<void> | undefined
}

export interface Ending {
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly isTimedOut: boolean
}

/** A process that leads its group, as far as it is looked at here. */
interface Started {
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
export async function follow(
  child: Started,
  options: Omit<FollowOptions, 'name'> & { kill(): Promise<void> },
  signal?: AbortSignal,
): Promise<Ending> {
  const output = new Output(child, options.onOutput)
  const closed = new Promise<void>((done) => child.once('close', () => done()))
  const exited = exitOf(child)
  let ending: Promise<void> | undefined
  let isTimedOut = false
  const onTimeout = () => {
    isTimedOut = true
    ending ??= endGently(child.pid, closed, options.kill)
  }
  const onAbort = () => {
    ending ??= options.kill()
  }
  const { timeoutMs } = options
  const timer = timeoutMs && setTimeout(onTimeout, Math.min(timeoutMs, maxTimeoutMs))
  signal?.addEventListener('abort', onAbort, { once: true })
  if (signal?.aborted) onAbort()
  try {
    const exit = await exited
    clearTimeout(timer)
    await ending
    await Promise.race([closed, output.untilQuiet()])
    return { ...exit, isTimedOut }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    output.drop()
  }
}

async function endGently(
  pid: number | undefined,
  closed: Promise<void>,
  kill: () => Promise<void>,
): Promise<void> {
  killGroup(pid, 'SIGTERM')
  const grace = new AbortController()
  await Promise.race([closed, sleep(graceMs, undefined, { signal: grace.signal }).catch(() => {})])
  grace.abort()
  await kill()
}

async function exitOf(child: Started): Promise<Omit<Ending, 'isTimedOut'>> {
  return await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
  })
}

/** The two streams of a process, read as fast as they are taken. */
class Output {
  readonly #streams: readonly Readable[]
  #take: FollowOptions['onOutput'] | undefined
  #seen = 0
  /** Promises of the taker that are open. */
  #open = 0

  constructor({ stdout, stderr }: Started, take: FollowOptions['onOutput']) {
    // Without a free file descriptor the process has no streams, whatever its type says.
    this.#streams = [stdout, stderr].filter((stream) => stream != null)
    this.#take = take
    stdout?.on('data', (bytes: Buffer) => this.#add('stdout', bytes))
    stderr?.on('data', (bytes: Buffer) => this.#add('stderr', bytes))
  }

  /** Resolves when no output came for 50 ms although there was time to read it, or after a second in which there was. */
  async untilQuiet(): Promise<void> {
    for (let round = 0; round < 20; ) {
      const before = this.#seen
      await sleep(50)
      // After a timer the streams are read before an immediate runs.
      await new Promise((done) => setImmediate(done))
      if (this.#open > 0) continue
      if (this.#seen === before) return
      round++
    }
  }

  /** Hands nothing on any more, and reads on: a process in the background must not stand still, or end, for that. */
  drop(): void {
    this.#take = undefined
    for (const stream of this.#streams) stream.resume()
  }

  #add(name: 'stdout' | 'stderr', bytes: Buffer): void {
    this.#seen += bytes.length
    const taken = this.#take?.(name, bytes)
    if (taken === undefined) return
    this.#open++
    for (const stream of this.#streams) stream.pause()
    void taken.then(() => {
      this.#open--
      if (this.#open === 0) for (const stream of this.#streams) stream.resume()
    })
  }
}
