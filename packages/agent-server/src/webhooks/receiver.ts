import type { Log } from '@slipway/protocol'
import type { Behind, Deliveries } from '@slipway/storage'
import { Rests, type RestTimes } from './backoff.ts'
import type { Delivered, Delivery } from './delivery.ts'

/** Conversations that a receiver is told of at the same time. */
const maxTurns = 4
/** A receiver that keeps failing is a line of the log this often. */
const complainMs = 60_000
/** After a mistake of our own. */
const mistakeMs = 5_000

export interface ReceiverOptions {
  /** By what its cursors are found. */
  readonly receiver: string
  /** For people: its address without anything that could be a key. */
  readonly shownUrl: string
  readonly delivery: Pick<Delivery, 'turn'>
  readonly deliveries: Deliveries
  /** How long what happens is gathered before it is sent. */
  readonly gatherMs: number
  readonly times: RestTimes
  readonly log: Log
  /** Milliseconds that only grow. */
  readonly now: () => number
}

/**
 * One receiver: looks what it lacks whenever something changed, and lets conversations be told of, a few at a time, until
 * there is nothing. Nothing waits in memory but who rests after a failure.
 */
export class Receiver {
  readonly #options: ReceiverOptions
  readonly #rests: Rests
  readonly #busy = new Map<string, Promise<void>>()
  readonly #stop = new AbortController()
  readonly #looping: Promise<void>
  #isFlushing = false
  /** A turn has ended since the last look. */
  #isDue = false
  #wake = () => {}
  #complainedMs = Number.NEGATIVE_INFINITY
  #hasComplained = false

  constructor(options: ReceiverOptions) {
    this.#options = options
    this.#rests = new Rests(options.times)
    this.#looping = this.#loop()
  }

  /** Conversations that it is being told of, or that wait after a failure. */
  get pending(): number {
    return this.#busy.size + this.#rests.size
  }

  /** Sends what can be sent now, for at most so long, then ends. What failed waits for the next start. */
  async close(limitMs: number): Promise<void> {
    this.#isFlushing = true
    this.#wake()
    const timer = setTimeout(() => {
      this.#stop.abort()
      this.#wake()
    }, limitMs)
    await this.#looping
    clearTimeout(timer)
  }

  async #loop(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const { rings } = this.#options.deliveries.changes
      const nowMs = this.#options.now()
      this.#isDue = false
      const started = await this.#startTurns(nowMs)
      if (started > 0 || this.#isDue) continue
      if (this.#isFlushing && this.#busy.size === 0) break
      await this.#wait(rings, nowMs)
    }
    await Promise.all(this.#busy.values())
  }

  /** Starts turns for those that are behind and free; answers how many. */
  async #startTurns(nowMs: number): Promise<number> {
    const { deliveries, receiver } = this.#options
    try {
      const busy = new Set(this.#busy.keys())
      const choices = this.#isFlushing
        ? this.#rests.lastChoices(busy, maxTurns)
        : this.#rests.choices(busy, maxTurns, nowMs)
      for (const { limit, except } of choices) {
        const behind = await deliveries.behind(receiver, limit, except)
        for (const one of behind) this.#start(one)
        if (behind.length > 0) return behind.length
      }
    } catch (error) {
      this.#report(error)
      await this.#sleep(mistakeMs)
    }
    return 0
  }

  #start(behind: Behind): void {
    const { conversation } = behind
    const turn = this.#options.delivery.turn(behind, this.#stop.signal).then(
      (delivered) => this.#settle(conversation, delivered),
      (error: unknown) => {
        this.#report(error)
        const failure = { isUnreachable: false, isGone: false, retryAfterMs: mistakeMs }
        this.#rests.fail(conversation, failure, this.#options.now())
      },
    )
    const over = turn.then(() => {
      this.#busy.delete(conversation)
      this.#isDue = true
      this.#wake()
    })
    this.#busy.set(conversation, over)
  }

  #settle(conversation: string, { wasTaken, failed: outcome }: Delivered): void {
    const { log, shownUrl: receiver, now } = this.#options
    const isNews = wasTaken && this.#rests.succeed(conversation)
    if (outcome === undefined) {
      if (isNews && this.#hasComplained)
        log('info', 'a webhook receiver takes what it is sent again', { receiver })
      this.#hasComplained &&= !isNews
      return
    }
    if (this.#stop.signal.aborted) return
    const isUnreachable = outcome.kind === 'unreachable'
    const { isGone, retryAfterMs } = isUnreachable ? { isGone: false, retryAfterMs: undefined } : outcome
    this.#rests.fail(conversation, { isUnreachable, isGone, retryAfterMs }, now())
    const reason = isUnreachable ? outcome.reason : `status ${outcome.status}`
    const isLong = now() >= this.#complainedMs + complainMs
    if (isLong) {
      this.#complainedMs = now()
      this.#hasComplained = true
    }
    log(isLong ? 'warn' : 'debug', 'a webhook receiver does not take what it is sent', {
      receiver,
      conversation,
      reason,
    })
  }

  /**
   * Until something changed, a turn ended or a rest is over, since the last look at `lookedMs`: one that ended during the look is
   * over now. What changed may be followed by more at once.
   */
  async #wait(rings: number, lookedMs: number): Promise<void> {
    const { deliveries, gatherMs, now } = this.#options
    if (this.#isDue || this.#stop.signal.aborted) return
    const listening = new AbortController()
    const restMs = Math.min(this.#rests.nextMs(lookedMs) - now(), complainMs)
    let isRung = false
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, restMs)
      // Its own: one that hears late that nobody listens any more must not wake the next wait.
      const wake = () => {
        clearTimeout(timer)
        resolve()
      }
      this.#wake = wake
      void deliveries.changes.since(rings, listening.signal).then(() => {
        isRung = !listening.signal.aborted
        wake()
      })
    })
    listening.abort()
    if (isRung && !this.#isFlushing) await this.#sleep(gatherMs)
  }

  /** Ends early when the receiver is closed. */
  async #sleep(ms: number): Promise<void> {
    if (this.#isFlushing) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        if (!this.#isFlushing) return
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #report(error: unknown): void {
    if (this.#stop.signal.aborted) return
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.#options.log('error', 'what is behind could not be sent to a webhook receiver', {
      receiver: this.#options.shownUrl,
      reason,
    })
  }
}
