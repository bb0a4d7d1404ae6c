import { formatInstant } from '@slipway/protocol'
import { Semaphore } from '@slipway/shared/async'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { fetchInstance, fetchJson, isDormant, isSameInstance } from '../../network/agent-server-probe.ts'
import type { Reconciler } from '../reconcile/reconciler.ts'
import type { SandboxContext } from '../state/context.ts'
import { decide, findDeletion, type Lifetimes, needsIdleTime } from '../state/lifetimes.ts'
import type { SandboxConnection, SandboxInfoReader } from '../state/sandbox-info.ts'
import { notAnsweringDetail } from '../state/status-reason.ts'
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

const restartedDetail = 'Its agent server was started again in the sandbox.'
/** An agent server that misses fewer may be busy. */
const maxMissedAnswers = 12
const healthIntervalMs = 15_000

/**
 * Applies the lifetimes of `lifetimes.ts` to sandboxes, and checks the health of those that run. An agent
 * server that something in the sandbox started again is STARTING again: it gets its settings, is told what
 * starts told it, and RUNNING says that it has them.
 */
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
      const initial = { nextHealth: 0, nextIdle: 0, missedAnswers: 0 }
      if (status === 'RUNNING') this.#states.set(id, previous.get(id) ?? initial)
    }
    this.#deps.instances.retain((id) => this.#states.has(id))
    await Promise.all(rows.map((row) => this.#check(row)))
  }

  async #check(row: SandboxRow): Promise<void> {
    const { clock, getLifetimes } = this.#deps
    const lifetimes = getLifetimes(row.spec)
    const action = this.#decide(row, lifetimes)
    if (action === 'pause') return await this.#pause(row, 'its session is over')
    if (action !== 'none') return await this.#applyDeletion(row)
    const state = this.#states.get(row.id)
    if (state === undefined) return
    const isIdleDue =
      clock.now() >= state.nextIdle &&
      needsIdleTime(row, lifetimes, clock.now() * 1000, this.#deps.lastUse.lastUse(row))
    if (!isIdleDue && clock.now() < state.nextHealth) return
    const connection = this.#deps.infoReader.getConnection(row)
    if (connection === undefined) return
    await this.#semaphore.run(() =>
      isIdleDue
        ? this.#checkIdle(row, connection, lifetimes, state)
        : this.#checkHealth(row, connection, state),
    )
  }

  #decide(row: SandboxRow, lifetimes: Lifetimes, idleSeconds?: number) {
    const facts = { lastUse: this.#deps.lastUse.lastUse(row), idleSeconds }
    return decide(row, lifetimes, this.#deps.clock.now() * 1000, facts)
  }

  async #checkIdle(
    row: SandboxRow,
    connection: SandboxConnection,
    lifetimes: Lifetimes,
    state: ActivityState,
  ): Promise<void> {
    const { clock, lastUse } = this.#deps
    const before = lastUse.lastUse(row)
    const idle = await fetchIdleSeconds(connection, this.#deps)
    if (idle === undefined || lastUse.lastUse(row) !== before) return
    if (this.#decide(row, lifetimes, idle) === 'pause') await this.#pause(row, 'it is idle')
    else state.nextIdle = clock.now() + (lifetimes.idleSeconds - idle) * 1000
  }

  /** With the lock under which its owner resumes it, and by the row of then: of several servers one acts. */
  async #applyDeletion({ id, owner, spec }: SandboxRow): Promise<void> {
    const { forOwner, repository, getLifetimes, clock, lastUse, log } = this.#deps
    await forOwner(owner ?? '', async () => {
      const row = await repository.get(id)
      if (row === undefined) return
      const lifetimes = getLifetimes(spec)
      const action = this.#decide(row, lifetimes)
      const deletion = findDeletion(row, lifetimes, clock.now() * 1000, lastUse.lastUse(row))
      if (action === 'announce' && deletion !== undefined) {
        log('info', 'announce the deletion of a sandbox', {
          sandbox: id,
          deletes_at: formatInstant(deletion.at),
        })
        await repository.update(row, { deletes_at: deletion.at })
      } else if (action === 'delete') {
        log('info', 'delete a sandbox: it has not run for long', { sandbox: id })
        await this.#setDesired(row, 'gone', 'it has not run for long')
      }
    })
  }

  async #pause(row: SandboxRow, reason: string): Promise<void> {
    this.#deps.log('info', `pause a sandbox: ${reason}`, { sandbox: row.id })
    await this.#setDesired(row, 'paused', reason)
  }

  /** A sandbox that does not answer keeps its status, as it may be busy; its detail says it. */
  async #checkHealth(row: SandboxRow, connection: SandboxConnection, state: ActivityState): Promise<void> {
    const { clock, repository } = this.#deps
    state.nextHealth = clock.now() + healthIntervalMs
    const isAlive = typeof (await fetchJson(`${connection.url}/alive`, {}, this.#deps)) !== 'string'
    state.missedAnswers = isAlive ? 0 : state.missedAnswers + 1
    if (state.missedAnswers >= maxMissedAnswers && row.detail === null)
      await repository.update(row, { detail: notAnsweringDetail })
    if (!isAlive) return
    if (row.detail === notAnsweringDetail) await repository.update(row, { detail: null })
    await this.#checkInstance(row, connection)
  }

  /**
   * Nothing is known of one that another server has started: there one that waits for its settings was
   * started again.
   */
  async #checkInstance(row: SandboxRow, connection: SandboxConnection): Promise<void> {
    const { repository, reconciler, instances, log } = this.#deps
    const before = instances.find(row)
    const instance = await fetchInstance(connection, this.#deps)
    const isKnown = before !== undefined && (instance === undefined || isSameInstance(instance, before))
    if (isKnown || (before === undefined && !(await isDormant(connection.url, this.#deps)))) {
      instances.note(row, instance ?? before)
      return
    }
    log('info', 'the agent server of a sandbox was started again', { sandbox: row.id })
    // When that cannot be stored, the next look finds it again.
    const changed = await repository.update(row, { status: 'STARTING', detail: restartedDetail })
    if (changed !== undefined) reconciler.notify(row.id)
  }

  /** A row that has changed in the meantime stays as it is. */
  async #setDesired(row: SandboxRow, wanted: 'paused' | 'gone', detail: string): Promise<void> {
    if ((await this.#deps.repository.update(row, { wanted }, { detail })) !== undefined)
      this.#deps.reconciler.notify(row.id)
  }
}
