import { Problem } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
import type { Timer } from '@slipway/shared/time'
import { type Lease, leaveAuditTrail, type SandboxRow } from '@slipway/storage/control-plane'
import type { Backend, ObservedSandbox } from '../../backends/backend.ts'
import type { SandboxContext } from '../state/context.ts'
import { parseSandboxStatus } from '../state/sandbox-repository.ts'
import { openSecrets } from '../state/sandbox-secrets.ts'
import { redactDetail } from '../state/status-detail.ts'
import { backoffDelay } from './backoff-delay.ts'
import { plan } from './plan.ts'
import { StepRunner } from './step-runner.ts'

/** Until the next look at a sandbox of which another server does the work. */
const busyMs = 300
/** A lease is kept during shorter delays. */
const keepMs = 1_000

/** Brings one sandbox to its desired state, one step at a time, until nothing is left to do. */
export class Worker {
  readonly id: string
  /** Why the last step failed; it is retried. */
  failure: string | undefined
  readonly #context: SandboxContext
  readonly #onIdle: () => void
  /** Resolves when all steps that need no waiting are done. */
  running: Promise<void> | undefined
  #isNotified = false
  #lease: Lease | undefined
  #timer: Timer | undefined
  #lastStep: string | undefined
  #repeats = 0
  #failures = 0
  #epoch: string | null | undefined
  #attemptStartedAt = 0
  #orphanBackend: Backend | undefined
  /** Notifies when the agent server of this epoch begins to listen. */
  #watch: ({ readonly epoch: string } & Disposable) | undefined

  constructor(id: string, context: SandboxContext, onIdle: () => void) {
    this.id = id
    this.#context = context
    this.#onIdle = onIdle
  }

  /** Looks again, now. `orphanBackend`: where a sandbox without a row was observed. */
  notify(orphanBackend?: Backend): void {
    this.#orphanBackend ??= orphanBackend
    this.#isNotified = true
    // The failed step is retried now.
    this.failure = undefined
    this.#timer?.cancel()
    this.#timer = undefined
    this.running ??= leaveAuditTrail(() => this.#run())
  }

  /** Starts no further step. Resolves when the current one is over. */
  async stop(): Promise<void> {
    this.#timer?.cancel()
    await this.running
    this.#watch?.[Symbol.dispose]()
    await this.#release()
  }

  async #run(): Promise<void> {
    let delayMs: number | undefined
    while (this.#isNotified && !this.#context.signal.aborted) {
      this.#isNotified = false
      delayMs = await this.#attempt()
      if (delayMs === 0) this.#isNotified = true
    }
    if (delayMs === undefined || delayMs === busyMs || delayMs > keepMs) await this.#release()
    if (this.#isNotified && !this.#context.signal.aborted) return await this.#run()
    this.running = undefined
    if (this.#context.signal.aborted) return
    if (delayMs === undefined) {
      this.#watch?.[Symbol.dispose]()
      this.#watch = undefined
      this.#onIdle()
    } else this.#timer = this.#context.clock.schedule(delayMs, () => this.notify())
  }

  /** Milliseconds until the next look; undefined when nothing is left to do. */
  async #attempt(): Promise<number | undefined> {
    try {
      this.#lease ??= await this.#context.leases.tryAcquire(`sandbox ${this.id}`)
      if (this.#lease === undefined) return busyMs
      const delayMs = await this.#lease.run(() => this.#reconcileOnce())
      this.#failures = 0
      this.failure = undefined
      return delayMs
    } catch (error) {
      if (this.#context.signal.aborted) return undefined
      return this.#isTakenOver(error) ? busyMs : await this.#handleFailure(error)
    }
  }

  /** Among several servers the database may have refused a write, or another server continues. */
  #isTakenOver(error: unknown): boolean {
    return this.#context.leases.isShared && error instanceof Problem && error.code === 'unavailable'
  }

  async #release(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  async #reconcileOnce(): Promise<number | undefined> {
    const { repository, backends, cipher, pollMs } = this.#context
    const row = await repository.get(this.id)
    const backend = row === undefined ? this.#orphanBackend : backends.get(row.backend)
    if (backend === undefined) {
      if (row !== undefined) throw new Error(`the backend ${row.backend} is not configured`)
      return undefined
    }
    const runner = new StepRunner(this.#context, this.id, backend)
    const observed = await runner.observe()
    const step = plan(row && { ...row, status: parseSandboxStatus(row) }, observed, this.#isOverdue(row))
    const isRepeat = this.#countRepeats(step.kind === 'setStatus' ? step.status : step.kind)
    const pollDelayMs = backoffDelay(pollMs, 1.15, this.#repeats)
    if (row === undefined) {
      if (step.kind === 'idle') return undefined
      await runner.callBackend('remove')
      return isRepeat ? pollDelayMs : 0
    }
    if (step.kind === 'idle') {
      if (hasFailureDetail(row)) await runner.updateRow(row, { detail: null })
      return undefined
    }
    const outcome = await runner.run(step, { row, observed, secrets: openSecrets(cipher, row), isRepeat })
    if (outcome === 'pending' && step.kind === 'probe') this.#watchStart(backend, observed)
    if (outcome === 'called') return isRepeat ? pollDelayMs : 0
    return outcome === 'pending' ? pollDelayMs : outcome === 'changed' ? 0 : undefined
  }

  #watchStart(backend: Backend, observed: ObservedSandbox | undefined): void {
    if (observed === undefined || this.#watch?.epoch === observed.epoch) return
    this.#watch?.[Symbol.dispose]()
    const watch = backend.watchStart?.(observed, () => this.notify())
    this.#watch = { epoch: observed.epoch, [Symbol.dispose]: () => watch?.[Symbol.dispose]() }
  }

  #countRepeats(step: string): boolean {
    this.#repeats = step === this.#lastStep ? this.#repeats + 1 : 0
    this.#lastStep = step
    return this.#repeats > 0
  }

  /**
   * Whether the attempt takes too long. It starts with each new epoch, and after each failure of the backend.
   */
  #isOverdue(row: SandboxRow | undefined): boolean {
    const now = this.#context.clock.now()
    const epoch = row?.status === 'STARTING' || row?.wanted === 'paused' ? row.epoch : undefined
    if (epoch === undefined || epoch !== this.#epoch) {
      this.#epoch = epoch
      this.#attemptStartedAt = now
    }
    return now - this.#attemptStartedAt > this.#context.startMs
  }

  async #handleFailure(error: unknown): Promise<number> {
    const { repository, cipher, log, retryMs } = this.#context
    // It may have been lost.
    await this.#release()
    const delay_ms = backoffDelay(retryMs, 2, this.#failures)
    this.#failures += 1
    this.#epoch = undefined
    // What a step has read before it failed is read again.
    this.#lastStep = undefined
    const row = await repository.get(this.id).catch(() => undefined)
    const message = errorText(error)
    const reason = redactDetail(message, row && openSecrets(cipher, row))
    this.failure = reason
    const level = this.#failures === 1 ? 'warn' : 'debug'
    log(level, 'a step of a sandbox failed and is retried', { sandbox: this.id, error: reason, delay_ms })
    const detail = `${failurePrefix}${reason}`
    if (row !== undefined && row.detail !== detail)
      await repository.update(row, { detail }).catch(() => undefined)
    repository.changes.notify(this.id)
    return delay_ms
  }
}

const failurePrefix = 'It cannot continue and is tried again: '

/** Whether its detail reports a failure of its backend, which is over when nothing is left to do. */
export function hasFailureDetail(row: Pick<SandboxRow, 'detail'>): boolean {
  return failureReason(row) !== undefined
}

/** The failure of its backend that its detail reports. */
export function failureReason({ detail }: Pick<SandboxRow, 'detail'>): string | undefined {
  return detail?.startsWith(failurePrefix) ? detail.slice(failurePrefix.length) : undefined
}
