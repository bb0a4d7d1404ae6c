import type { LogFunction } from '@slipway/protocol'
import { Signal, Waiter } from '@slipway/shared/async'
import type { Clock } from '@slipway/shared/time'
import type { Deliveries, PendingDelivery } from '@slipway/storage'
import { Backoff, type BackoffTimes } from './backoff.ts'
import type { DeliveryResult, WebhookDelivery } from './delivery.ts'

/** Deliveries to one receiver at the same time. */
const maxConcurrentDeliveries = 4
/** Interval between warnings about a failing receiver. */
const warnIntervalMs = 60_000
/** Delay after an internal error. */
const internalErrorDelayMs = 5_000
/** Interval between two looks at how full the buffers are. */
const bufferCheckMs = 20
/** Most conversations that such a look counts. */
const maxBuffers = 100
/** Most pending conversations among which one is looked for that is removed. */
const maxFlushed = 1_000

interface WebhookReceiverOptions {
  /** Key of its cursors. */
  readonly receiver: string
  /** Its address without secrets, for the log. */
  readonly publicUrl: string
  readonly delivery: Pick<WebhookDelivery, 'deliver' | 'countUnsentEvents'>
  readonly deliveries: Deliveries
  /** How long changes are gathered before they are sent. */
  readonly batchDelayMs: number
  /** So many unsent events of a conversation end that at once. */
  readonly bufferSize: number | undefined
  readonly backoffTimes: BackoffTimes
  readonly log: LogFunction
  readonly clock: Clock
}

/**
 * One receiver: sends pending events on change, with bounded concurrency. Keeps only failed conversations in
 * memory.
 */
export class WebhookReceiver {
  readonly #options: WebhookReceiverOptions
  readonly #backoff: Backoff
  readonly #active = new Map<string, Promise<void>>()
  readonly #stop = new AbortController()
  readonly #loopDone: Promise<void>
  /** Notified when a delivery has ended and when the receiver is closed. */
  readonly #wakeUp = new Signal()
  readonly #flush = new AbortController()
  #warnedAtMs = Number.NEGATIVE_INFINITY
  #hasWarned = false

  constructor(options: WebhookReceiverOptions) {
    this.#options = options
    this.#backoff = new Backoff(options.backoffTimes)
    this.#loopDone = this.#loop()
  }

  /** Conversations with a running delivery, or that wait after a failure. */
  get pendingCount(): number {
    return this.#active.size + this.#backoff.size
  }

  /** Sends what can be sent within the time limit, then ends. Failed deliveries wait for the next start. */
  async close(limitMs: number): Promise<void> {
    this.#flush.abort()
    this.#wakeUp.notify()
    const timer = this.#options.clock.schedule(limitMs, () => {
      this.#stop.abort()
      this.#wakeUp.notify()
    })
    await this.#loopDone
    timer.cancel()
  }

  /** Sends what is pending of one conversation, unless it waits after a failure. */
  async flush(conversation: string, limitMs: number): Promise<void> {
    const { deliveries, receiver, clock } = this.#options
    const send = async () => {
      await this.#active.get(conversation)
      const others = this.#backoff.failed
      if (this.#backoff.isOutage || others.has(conversation)) return
      const pending = await deliveries.listPending(receiver, maxFlushed, others)
      const own = pending.find((one) => one.conversation === conversation)
      if (own === undefined || this.#active.has(conversation)) return
      this.#startDelivery(own)
      await this.#active.get(conversation)
    }
    const limit = new AbortController()
    const late = clock.sleep(limitMs, { signal: limit.signal, ref: false }).catch(() => {})
    await Promise.race([send().catch((error: unknown) => this.#logError(error)), late])
    limit.abort()
  }

  async #loop(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const { version } = this.#options.deliveries.changeSignal
      const { version: wakeUpVersion } = this.#wakeUp
      const nowMs = this.#options.clock.monotonic()
      const started = await this.#startDeliveries(nowMs)
      if (started > 0 || this.#wakeUp.version !== wakeUpVersion) continue
      if (this.#isFlushing && this.#active.size === 0) break
      await this.#wait(version, nowMs)
    }
    await Promise.all(this.#active.values())
  }

  /** Starts deliveries for pending conversations without one; answers how many. */
  async #startDeliveries(nowMs: number): Promise<number> {
    const { deliveries, receiver } = this.#options
    try {
      const active = new Set(this.#active.keys())
      const queries = this.#isFlushing
        ? this.#backoff.listFinalQueries(active, maxConcurrentDeliveries)
        : this.#backoff.listQueries(active, maxConcurrentDeliveries, nowMs)
      for (const { limit, except } of queries) {
        const pending = await deliveries.listPending(receiver, limit, except)
        for (const one of pending) this.#startDelivery(one)
        if (pending.length > 0) return pending.length
      }
    } catch (error) {
      this.#logError(error)
      await this.#sleep(internalErrorDelayMs)
    }
    return 0
  }

  #startDelivery(pending: PendingDelivery): void {
    const { conversation } = pending
    const delivery = this.#options.delivery.deliver(pending, this.#stop.signal).then(
      (delivered) => this.#handleResult(conversation, delivered),
      (error: unknown) => {
        this.#logError(error)
        const failure = { isUnreachable: false, isGone: false, retryAfterMs: internalErrorDelayMs }
        this.#backoff.recordFailure(conversation, failure, this.#options.clock.monotonic())
      },
    )
    const finished = delivery.then(() => {
      this.#active.delete(conversation)
      this.#wakeUp.notify()
    })
    this.#active.set(conversation, finished)
  }

  #handleResult(conversation: string, { wasAccepted, failure: outcome }: DeliveryResult): void {
    const { log, publicUrl: receiver, clock } = this.#options
    const isRecovery = wasAccepted && this.#backoff.recordSuccess(conversation)
    if (outcome === undefined) {
      if (isRecovery && this.#hasWarned)
        log('info', 'a webhook receiver accepts requests again', { receiver })
      this.#hasWarned &&= !isRecovery
      return
    }
    if (this.#stop.signal.aborted) return
    const isUnreachable = outcome.kind === 'unreachable'
    const { isGone, retryAfterMs } = isUnreachable ? { isGone: false, retryAfterMs: undefined } : outcome
    this.#backoff.recordFailure(conversation, { isUnreachable, isGone, retryAfterMs }, clock.monotonic())
    const reason = isUnreachable ? outcome.reason : `status ${outcome.status}`
    const isWarningDue = clock.monotonic() >= this.#warnedAtMs + warnIntervalMs
    if (isWarningDue) {
      this.#warnedAtMs = clock.monotonic()
      this.#hasWarned = true
    }
    log(isWarningDue ? 'warn' : 'debug', 'a webhook receiver does not accept a request', {
      receiver,
      conversation,
      reason,
    })
  }

  /**
   * Waits for a change, the end of a delivery or of a back-off since `lookedMs`; after a change also for the
   * batch delay.
   */
  async #wait(version: number, lookedMs: number): Promise<void> {
    const { deliveries, clock } = this.#options
    const listening = new AbortController()
    using waiter = new Waiter(listening.signal)
    void deliveries.changeSignal.wait(version, waiter).then(() => {
      if (!listening.signal.aborted) this.#wakeUp.notify()
    })
    const waitMs = Math.min(this.#backoff.nextChangeMs(lookedMs) - clock.monotonic(), warnIntervalMs)
    await this.#wakeUp.waitFor(this.#wakeUp.version, waitMs, clock)
    listening.abort()
    if (deliveries.changeSignal.version !== version) await this.#gatherChanges()
  }

  /** Waits for the batch delay, or until a conversation has as many unsent events as a buffer takes. */
  async #gatherChanges(): Promise<void> {
    const { deliveries, batchDelayMs, bufferSize, clock } = this.#options
    const endMs = clock.monotonic() + batchDelayMs
    if (bufferSize === undefined || batchDelayMs <= bufferCheckMs) return await this.#sleep(batchDelayMs)
    while (!this.#isFlushing && clock.monotonic() < endMs) {
      const versions = [deliveries.changeSignal.version, this.#wakeUp.version] as const
      if (await this.#hasFullBuffer(bufferSize)) return
      await this.#sleep(Math.min(bufferCheckMs, endMs - clock.monotonic()))
      const listening = new AbortController()
      using waiter = new Waiter(listening.signal)
      void deliveries.changeSignal.wait(versions[0], waiter).then(() => {
        if (!listening.signal.aborted) this.#wakeUp.notify()
      })
      // The end of a delivery may leave a full buffer too.
      await this.#wakeUp.waitFor(versions[1], endMs - clock.monotonic(), clock)
      listening.abort()
    }
  }

  async #hasFullBuffer(bufferSize: number): Promise<boolean> {
    const { deliveries, delivery, receiver } = this.#options
    const busy = new Set([...this.#active.keys(), ...this.#backoff.failed])
    try {
      const pending = await deliveries.listPending(receiver, maxBuffers, busy)
      return (await delivery.countUnsentEvents(pending)).some((count) => count >= bufferSize)
    } catch (error) {
      this.#logError(error)
      return false
    }
  }

  get #isFlushing(): boolean {
    return this.#flush.signal.aborted
  }

  /** Sleeps; ends early when the receiver is closed. */
  async #sleep(ms: number): Promise<void> {
    await this.#options.clock.sleep(Math.max(0, ms), { signal: this.#flush.signal }).catch(() => {})
  }

  #logError(error: unknown): void {
    if (this.#stop.signal.aborted) return
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.#options.log('error', 'a delivery to a webhook receiver failed', {
      receiver: this.#options.publicUrl,
      reason,
    })
  }
}
