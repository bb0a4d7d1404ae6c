import type { Instant, LogFunction } from '@slipway/protocol'
import { Semaphore } from '@slipway/shared/async'
import type { SandboxRow } from '@slipway/storage'
import { fetchJson, type ProbeContext } from '../../network/agent-server-probe.ts'
import type { SandboxRepository } from '../state/sandbox-repository.ts'
import { fetchIdleSeconds } from './idle-time.ts'
import { dueAction, type Lifetimes } from './lifetimes.ts'

interface AgentServerAddress {
  readonly url: string
  readonly key: { reveal(): string }
}

export interface ActivityMonitorOptions {
  readonly repository: SandboxRepository
  readonly log: LogFunction
  /** Milliseconds. */
  readonly now: () => number
  readonly getConnection: (row: SandboxRow) => AgentServerAddress | undefined
  readonly getLifetimes: (row: SandboxRow) => Lifetimes
  readonly lastUse: (row: SandboxRow) => Instant
  /** What is wanted of it has changed. */
  readonly notify: (id: string) => void
  readonly probeContext: ProbeContext
  /** Between two questions to the same one whether it answers; 60 s unless given. */
  readonly healthMs?: number
}

/** What is known of one that runs. */
interface ActivityState {
  /** Milliseconds: when it is asked next whether it answers, and whether it is idle. */
  nextHealth: number
  nextIdle: number
  silent: number
}

const notAnsweringDetail = 'Its agent server does not answer.'
/** One that misses a question or two is busy. */
const maxMissedAnswers = 3

/** Looks after sandboxes about which nothing else is to be done: pauses what is idle, deletes what nobody came back to. */
export class ActivityMonitor {
  readonly #options: ActivityMonitorOptions
  readonly #semaphore = new Semaphore(16)
  #states = new Map<string, ActivityState>()

  constructor(options: ActivityMonitorOptions) {
    this.#options = options
  }

  /** All that are settled at the moment. */
  async checkAll(rows: readonly SandboxRow[]): Promise<void> {
    const previous = this.#states
    this.#states = new Map()
    for (const { id, status } of rows) {
      const initial = { nextHealth: this.#options.now() + this.#healthMs, nextIdle: 0, silent: 0 }
      if (status === 'RUNNING') this.#states.set(id, previous.get(id) ?? initial)
    }
    await Promise.all(rows.map((row) => this.#check(row)))
  }

  async #check(row: SandboxRow): Promise<void> {
    const { now, getLifetimes, lastUse, log } = this.#options
    const lifetimes = getLifetimes(row)
    const step = dueAction({ ...row, used_at: lastUse(row) }, lifetimes, now() * 1000)
    if (step === 'remove' || step === 'pause') {
      const reason = step === 'remove' ? 'it was paused for long' : 'its session is long enough'
      log('info', `a sandbox is to ${step === 'remove' ? 'go' : 'pause'}: ${reason}`, { sandbox: row.id })
      return await this.#setDesired(row, step === 'remove' ? 'gone' : 'paused')
    }
    const state = this.#states.get(row.id)
    if (state === undefined) return
    if (step === 'ask' && now() >= state.nextIdle) {
      return await this.#semaphore.run(() => this.#checkIdle(row, lifetimes.idleSeconds, state))
    }
    if (now() >= state.nextHealth) await this.#semaphore.run(() => this.#checkHealth(row, state))
  }

  async #checkIdle(row: SandboxRow, limitSeconds: number, state: ActivityState): Promise<void> {
    const { getConnection, probeContext, now, lastUse, log } = this.#options
    const connection = getConnection(row)
    const before = lastUse(row)
    const idle = connection && (await fetchIdleSeconds(connection.url, connection.key.reveal(), probeContext))
    if (idle === undefined || lastUse(row) !== before) return
    if (idle < limitSeconds) state.nextIdle = now() + (limitSeconds - idle) * 1000
    else {
      log('info', 'a sandbox is to pause: nobody uses it', { sandbox: row.id, idle_seconds: idle })
      await this.#setDesired(row, 'paused')
    }
  }

  /** One that does not answer stays as it is: it may be busy. Its owner is told. */
  async #checkHealth(row: SandboxRow, state: ActivityState): Promise<void> {
    const { getConnection, probeContext, now, repository } = this.#options
    const connection = getConnection(row)
    if (connection === undefined) return
    state.nextHealth = now() + this.#healthMs
    const answer = await fetchJson(`${connection.url}/alive`, {}, probeContext)
    state.silent = typeof answer === 'string' ? state.silent + 1 : 0
    if (state.silent >= maxMissedAnswers && row.detail === null)
      await repository.update(row, { detail: notAnsweringDetail })
    if (state.silent === 0 && row.detail === notAnsweringDetail)
      await repository.update(row, { detail: null })
  }

  async #setDesired(row: SandboxRow, desired: 'paused' | 'gone'): Promise<void> {
    // One that somebody has changed in the meantime is left as it is.
    if ((await this.#options.repository.update(row, { wanted: desired })) !== undefined)
      this.#options.notify(row.id)
  }

  get #healthMs(): number {
    return this.#options.healthMs ?? 60_000
  }
}
