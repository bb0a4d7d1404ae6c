import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxRow } from '@slipway/storage'
import type { DesiredState } from './desired-state.ts'
import type { ActivityMonitor } from './lifetimes/activity-monitor.ts'
import type { Reconciler } from './reconcile/reconciler.ts'
import type { Worker } from './reconcile/worker.ts'
import type { SandboxContext } from './state/context.ts'
import type { WarmPool } from './warm-pool.ts'

/** How long a refill waits for the settings of the claimed sandbox. */
const refillWaitMs = 5_000
const startTimeoutMs = 10_000

interface ControlLoopParts {
  readonly reconciler: Reconciler
  readonly desired: DesiredState
  readonly pool: WarmPool
  readonly activityMonitor: ActivityMonitor
}

/** Periodically reconciles all sandboxes, checks settled ones for activity and fills the warm pool. */
export class ControlLoop implements AsyncDisposable {
  readonly #context: SandboxContext
  readonly #parts: ControlLoopParts
  #reconciling: Promise<void> = Promise.resolve()
  #checkingActivity: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(context: SandboxContext, parts: ControlLoopParts) {
    this.#context = context
    this.#parts = parts
  }

  /** Starts the loop. Resolves when each difference was handled once, or after ten seconds. */
  async start(): Promise<void> {
    const { onRunning, rows } = this.#context
    const notified = await this.#reconcileAll()
    const settled = Promise.all(notified.map((worker) => worker.waitSettled()))
    const limit = new AbortController()
    const timeout = sleep(startTimeoutMs, undefined, { signal: limit.signal }).catch(() => {})
    await Promise.race([settled, timeout]).finally(() => limit.abort())
    if (onRunning !== undefined)
      for await (const { id, status } of rows.iterateAll()) if (status === 'RUNNING') onRunning(id)
    this.#schedule()
  }

  /**
   * Fills the pool after the claimed sandbox is ready: a start takes all resources of a small machine, and a
   * caller waits for the claimed one.
   */
  refillPool(claimed: string | undefined): void {
    const { signal } = this.#context
    const { desired, pool } = this.#parts
    const refill = async () => {
      if (claimed !== undefined)
        await desired.waitSettled(claimed, AbortSignal.timeout(refillWaitMs)).catch(() => undefined)
      if (!signal.aborted) await pool.fill()
    }
    refill().catch((error: unknown) => this.#logFailure(error))
  }

  /** Stops the loop; the sandboxes stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer)
    await this.#parts.reconciler[Symbol.asyncDispose]()
    await this.#reconciling
    await this.#checkingActivity
  }

  async #reconcileAll(): Promise<readonly Worker[]> {
    const { reconciler, activityMonitor, pool } = this.#parts
    const settled: SandboxRow[] = []
    const notified = await reconciler.reconcileAll((row) => void settled.push(row))
    if (this.#context.signal.aborted) return notified
    // Not awaited: some agent servers answer slowly.
    this.#checkingActivity ??= activityMonitor
      .checkAll(settled)
      .catch((error: unknown) => this.#logFailure(error))
      .finally(() => {
        this.#checkingActivity = undefined
      })
    await pool.fill()
    return notified
  }

  #schedule(): void {
    if (this.#context.signal.aborted) return
    this.#timer = setTimeout(() => {
      this.#reconciling = this.#reconcileAll()
        .catch((error: unknown) => this.#logFailure(error))
        .then(() => this.#schedule())
    }, this.#context.reconcileMs)
  }

  #logFailure(error: unknown): void {
    const { signal, log } = this.#context
    if (signal.aborted) return
    log('error', 'the sandboxes could not be looked after', { error: String(error) })
  }
}
