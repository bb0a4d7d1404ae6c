import type { Timer } from '@slipway/shared/time'
import { leaveAuditTrail, type SandboxRow } from '@slipway/storage/control-plane'
import type { DesiredStateWriter } from './desired-state.ts'
import type { ActivityMonitor } from './lifetimes/activity-monitor.ts'
import type { Reconciler } from './reconcile/reconciler.ts'
import type { Worker } from './reconcile/worker.ts'
import type { SandboxContext } from './state/context.ts'
import type { WarmPool } from './warm-pool.ts'

/** How long a refill waits for the settings of the claimed sandbox. */
const refillWaitMs = 5_000
const startTimeoutMs = 10_000

type ControlLoopDeps = SandboxContext & {
  readonly reconciler: Reconciler
  readonly desired: DesiredStateWriter
  readonly pool: WarmPool
  readonly activityMonitor: ActivityMonitor
}

/** Periodically reconciles all sandboxes, checks settled ones for activity and fills the warm pool. */
export class ControlLoop implements AsyncDisposable {
  readonly #deps: ControlLoopDeps
  #reconciling: Promise<void> = Promise.resolve()
  #checkingActivity: Promise<void> | undefined
  #timer: Timer | undefined
  #watches: readonly Disposable[] = []

  constructor(deps: ControlLoopDeps) {
    this.#deps = deps
  }

  /** Starts the loop. Resolves when each difference was handled once, or after ten seconds. */
  async start(): Promise<void> {
    const { onRunning, rows, clock } = this.#deps
    this.#watchBackends()
    const notified = await this.#reconcileAll()
    const settled = Promise.all(notified.map((worker) => worker.running))
    const limit = new AbortController()
    const timeout = clock.sleep(startTimeoutMs, { signal: limit.signal }).catch(() => {})
    await Promise.race([settled, timeout]).finally(() => limit.abort())
    if (onRunning !== undefined)
      for await (const { id, status } of rows.iterateAll()) if (status === 'RUNNING') onRunning(id)
    this.#schedule()
  }

  /** Fills the pool once the claimed sandbox is ready, for which a caller waits. */
  refillPool(claimed: string | undefined): void {
    const { signal, desired, pool, clock } = this.#deps
    const refill = async () => {
      if (claimed !== undefined)
        await desired.waitSettled(claimed, clock.timeout(refillWaitMs)).catch(() => undefined)
      if (!signal.aborted) await pool.fill()
    }
    leaveAuditTrail(refill).catch((error: unknown) => this.#logFailure(error))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#timer?.cancel()
    for (const watch of this.#watches) watch[Symbol.dispose]()
    await this.#deps.reconciler[Symbol.asyncDispose]()
    await this.#reconciling
    await this.#checkingActivity
  }

  /** A sandbox without a row waits for the next comparison: its row may be about to be written. */
  #watchBackends(): void {
    const { backends, repository, reconciler, signal } = this.#deps
    const onChange = async (id: string) => {
      if (!signal.aborted && (await repository.get(id)) !== undefined) reconciler.notify(id)
    }
    this.#watches = [...backends.values()].flatMap((backend) => {
      const watch = backend.watchChanges?.(
        (id) => void onChange(id).catch((error: unknown) => this.#logFailure(error)),
      )
      return watch === undefined ? [] : [watch]
    })
  }

  async #reconcileAll(): Promise<readonly Worker[]> {
    const { reconciler, activityMonitor, pool } = this.#deps
    const settled: SandboxRow[] = []
    const notified = await reconciler.reconcileAll((row) => void settled.push(row))
    if (this.#deps.signal.aborted) return notified
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
    const { signal, clock, reconcileMs } = this.#deps
    if (signal.aborted) return
    this.#timer = clock.schedule(reconcileMs, () => {
      this.#reconciling = this.#reconcileAll()
        .catch((error: unknown) => this.#logFailure(error))
        .then(() => this.#schedule())
    })
  }

  #logFailure(error: unknown): void {
    const { signal, log } = this.#deps
    if (signal.aborted) return
    log('error', 'reconciling the sandboxes failed', { error: String(error) })
  }
}
