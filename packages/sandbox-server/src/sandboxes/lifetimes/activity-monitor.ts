import { Semaphore } from '@slipway/shared/async'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { fetchJson } from '../../network/agent-server-probe.ts'
import type { Reconciler } from '../reconcile/reconciler.ts'
import type { SandboxContext } from '../state/context.ts'
import { dueAction } from '../state/lifetimes.ts'
import type { SandboxConnection, SandboxInfoReader } from '../state/sandbox-info.ts'
import { fetchIdleSeconds } from './idle-time.ts'
import type { LastUseTracker } from './last-use.ts'

type ActivityMonitorDeps = SandboxContext & {
  readonly infoReader: SandboxInfoReader
  readonly lastUse: LastUseTracker
  readonly reconciler: Reconciler
}

interface ActivityState {
  /** Milliseconds: the next check of its health and of its idle time. */
  nextHealth: number
  nextIdle: number
  missedAnswers: number
}

const notAnsweringDetail = 'Its agent server does not answer.'
/** An agent server that misses fewer may be busy. */
const maxMissedAnswers = 3
const healthIntervalMs = 60_000

/** Pauses idle sandboxes, deletes those that were paused for long, and checks the health of the others. */
export class ActivityMonitor {
  readonly #deps: ActivityMonitorDeps
  readonly #semaphore = new Semaphore(16)
  #states = new Map<string, ActivityState>()

  constructor(deps: ActivityMonitorDeps) {
    this.#deps = deps
  }

  /** `rows`: all settled sandboxes. */
  async checkAll(rows: readonly SandboxRow[]): Promise<void> {
    const previous = this.#states
    this.#states = new Map()
    for (const { id, status } of rows) {
      const initial = { nextHealth: this.#deps.clock.now() + healthIntervalMs, nextIdle: 0, missedAnswers: 0 }
      if (status === 'RUNNING') this.#states.set(id, previous.get(id) ?? initial)
    }
    await Promise.all(rows.map((row) => this.#check(row)))
  }

  async #check(row: SandboxRow): Promise<void> {
    const { clock, getLifetimes, log } = this.#deps
    const lifetimes = getLifetimes(row.spec)
    const action = dueAction(
      { ...row, used_at: this.#deps.lastUse.lastUse(row) },
      lifetimes,
      clock.now() * 1000,
    )
    if (action === 'remove' || action === 'pause') {
      const reason = action === 'remove' ? 'it was paused for long' : 'its session is over'
      log('info', `${action} a sandbox: ${reason}`, { sandbox: row.id })
      return await this.#setDesired(row, action === 'remove' ? 'gone' : 'paused')
    }
    const state = this.#states.get(row.id)
    const connection = this.#deps.infoReader.getConnection(row)
    if (state === undefined || connection === undefined) return
    if (action === 'checkIdle' && clock.now() >= state.nextIdle) {
      await this.#semaphore.run(() => this.#checkIdle(row, connection, lifetimes.idleSeconds, state))
    } else if (clock.now() >= state.nextHealth) {
      await this.#semaphore.run(() => this.#checkHealth(row, connection.url, state))
    }
  }

  async #checkIdle(
    row: SandboxRow,
    connection: SandboxConnection,
    limitSeconds: number,
    state: ActivityState,
  ): Promise<void> {
    const { clock, log, lastUse } = this.#deps
    const before = lastUse.lastUse(row)
    const idle = await fetchIdleSeconds(connection, this.#deps)
    if (idle === undefined || lastUse.lastUse(row) !== before) return
    if (idle < limitSeconds) state.nextIdle = clock.now() + (limitSeconds - idle) * 1000
    else {
      log('info', 'pause a sandbox: it is idle', { sandbox: row.id, idle_seconds: idle })
      await this.#setDesired(row, 'paused')
    }
  }

  /** A sandbox that does not answer keeps its status, as it may be busy; its detail says it. */
  async #checkHealth(row: SandboxRow, url: string, state: ActivityState): Promise<void> {
    const { clock, repository } = this.#deps
    state.nextHealth = clock.now() + healthIntervalMs
    const answer = await fetchJson(`${url}/alive`, {}, this.#deps)
    state.missedAnswers = typeof answer === 'string' ? state.missedAnswers + 1 : 0
    if (state.missedAnswers >= maxMissedAnswers && row.detail === null)
      await repository.update(row, { detail: notAnsweringDetail })
    if (state.missedAnswers === 0 && row.detail === notAnsweringDetail)
      await repository.update(row, { detail: null })
  }

  /** A row that has changed in the meantime stays as it is. */
  async #setDesired(row: SandboxRow, wanted: 'paused' | 'gone'): Promise<void> {
    if ((await this.#deps.repository.update(row, { wanted })) !== undefined)
      this.#deps.reconciler.notify(row.id)
  }
}
