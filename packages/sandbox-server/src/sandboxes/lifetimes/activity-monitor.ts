import type { Instant, Log } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'
import { Gate } from '../../async/semaphore.ts'
import { type Ask, answerOf } from '../../network/agent-server-probe.ts'
import type { Rows } from '../state/sandbox-repository.ts'
import { idleSecondsOf } from './idle-time.ts'
import { due, type Lifetimes } from './lifetimes.ts'

interface Reachable {
  readonly url: string
  readonly key: { open(): string }
}

export interface WatchOptions {
  readonly rows: Rows
  readonly log: Log
  /** Milliseconds. */
  readonly now: () => number
  readonly reached: (row: SandboxRow) => Reachable | undefined
  readonly lifetimesOf: (row: SandboxRow) => Lifetimes
  readonly lastUse: (row: SandboxRow) => Instant
  /** What is wanted of it has changed. */
  readonly ring: (id: string) => void
  readonly ask: Ask
  /** Between two questions to the same one whether it answers; 60 s unless given. */
  readonly healthMs?: number
}

/** What is known of one that runs. */
interface Pulse {
  /** Milliseconds: when it is asked next whether it answers, and whether it is idle. */
  nextHealth: number
  nextIdle: number
  silent: number
}

const silence = 'Its agent server does not answer.'
/** One that misses a question or two is busy. */
const silentTimes = 3

/** Looks after sandboxes about which nothing else is to be done: pauses what is idle, deletes what nobody came back to. */
export class Watch {
  readonly #options: WatchOptions
  readonly #gate = new Gate(16)
  #pulses = new Map<string, Pulse>()

  constructor(options: WatchOptions) {
    this.#options = options
  }

  /** All that are settled at the moment. */
  async visit(rows: readonly SandboxRow[]): Promise<void> {
    const before = this.#pulses
    this.#pulses = new Map()
    for (const { id, status } of rows) {
      const fresh = { nextHealth: this.#options.now() + this.#healthMs, nextIdle: 0, silent: 0 }
      if (status === 'RUNNING') this.#pulses.set(id, before.get(id) ?? fresh)
    }
    await Promise.all(rows.map((row) => this.#look(row)))
  }

  async #look(row: SandboxRow): Promise<void> {
    const { now, lifetimesOf, lastUse, log } = this.#options
    const lifetimes = lifetimesOf(row)
    const step = due({ ...row, used_at: lastUse(row) }, lifetimes, now() * 1000)
    if (step === 'remove' || step === 'pause') {
      const why = step === 'remove' ? 'it was paused for long' : 'its session is long enough'
      log('info', `a sandbox is to ${step === 'remove' ? 'go' : 'pause'}: ${why}`, { sandbox: row.id })
      return await this.#want(row, step === 'remove' ? 'gone' : 'paused')
    }
    const pulse = this.#pulses.get(row.id)
    if (pulse === undefined) return
    if (step === 'ask' && now() >= pulse.nextIdle) {
      return await this.#gate.hold(() => this.#askIdle(row, lifetimes.idleSeconds, pulse))
    }
    if (now() >= pulse.nextHealth) await this.#gate.hold(() => this.#askHealth(row, pulse))
  }

  async #askIdle(row: SandboxRow, limitSeconds: number, pulse: Pulse): Promise<void> {
    const { reached, ask, now, lastUse, log } = this.#options
    const at = reached(row)
    const before = lastUse(row)
    const idle = at && (await idleSecondsOf(at.url, at.key.open(), ask))
    if (idle === undefined || lastUse(row) !== before) return
    if (idle < limitSeconds) pulse.nextIdle = now() + (limitSeconds - idle) * 1000
    else {
      log('info', 'a sandbox is to pause: nobody uses it', { sandbox: row.id, idle_seconds: idle })
      await this.#want(row, 'paused')
    }
  }

  /** One that does not answer stays as it is: it may be busy. Its owner is told. */
  async #askHealth(row: SandboxRow, pulse: Pulse): Promise<void> {
    const { reached, ask, now, rows } = this.#options
    const at = reached(row)
    if (at === undefined) return
    pulse.nextHealth = now() + this.#healthMs
    const answer = await answerOf(`${at.url}/alive`, {}, ask)
    pulse.silent = typeof answer === 'string' ? pulse.silent + 1 : 0
    if (pulse.silent >= silentTimes && row.detail === null) await rows.change(row, { detail: silence })
    if (pulse.silent === 0 && row.detail === silence) await rows.change(row, { detail: null })
  }

  async #want(row: SandboxRow, wanted: 'paused' | 'gone'): Promise<void> {
    // One that somebody has changed in the meantime is left as it is.
    if ((await this.#options.rows.change(row, { wanted })) !== undefined) this.#options.ring(row.id)
  }

  get #healthMs(): number {
    return this.#options.healthMs ?? 60_000
  }
}
