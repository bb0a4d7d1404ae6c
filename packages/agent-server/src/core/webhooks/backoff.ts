interface BackoffEntry {
  /** Failures in a row. */
  readonly failures: number
  readonly untilMs: number
  /** There was no response, so any response ends the failure. */
  readonly isUnreachable: boolean
}

/** A failure, as the back-off sees it. */
interface DeliveryFailure {
  readonly isUnreachable: boolean
  /** Wait long from the first time on. */
  readonly isGone: boolean
  readonly retryAfterMs: number | undefined
}

export interface BackoffTimes {
  /** After the first failure; each one in a row doubles it. */
  readonly firstMs: number
  readonly maxMs: number
  readonly random: () => number
}

/** A query for pending conversations: a limit and exceptions. */
interface PendingQuery {
  readonly limit: number
  readonly except: ReadonlySet<string>
}

/** An unknown receiver waits as after this many failures. */
const goneFailureCount = 4
/** Failures of different conversations in a row after which the receiver counts as down. */
const outageThreshold = 3

/**
 * Retry backoff of a webhook receiver, for each conversation on its own; `webhooks.ts` has the times. When
 * several fail in a row, the receiver is down: then one conversation at a time is tried, first those without
 * failures. Pure: calls pass the time in ms.
 */
export class Backoff {
  readonly #times: BackoffTimes
  readonly #entries = new Map<string, BackoffEntry>()
  /** Conversations that failed since the last success. */
  #failedSinceSuccess = new Set<string>()
  /** While the receiver is down: when a failed conversation may be tried, and when another one. */
  #outage: { readonly failures: number; readonly untilMs: number; readonly othersMs: number } | undefined

  constructor(times: BackoffTimes) {
    this.#times = times
  }

  /** Conversations that wait after a failure. */
  get size(): number {
    return this.#entries.size
  }

  /** Conversations that failed and were not sent since. */
  get failed(): ReadonlySet<string> {
    return new Set(this.#entries.keys())
  }

  /** Several conversations failed in a row, and none was taken since. */
  get isOutage(): boolean {
    return this.#outage !== undefined
  }

  /** Queries to try now, in order of preference; a later one is for when the earlier ones find nothing. */
  listQueries(active: ReadonlySet<string>, max: number, nowMs: number): PendingQuery[] {
    const outage = this.#outage
    if (outage === undefined) {
      const limit = max - active.size
      return limit > 0 ? [{ limit, except: active.union(this.#waitingConversations(nowMs)) }] : []
    }
    if (active.size > 0) return []
    return [
      ...(outage.othersMs <= nowMs ? [{ limit: 1, except: this.#failedSinceSuccess }] : []),
      ...(outage.untilMs <= nowMs ? [{ limit: 1, except: this.#waitingConversations(nowMs) }] : []),
    ]
  }

  /** The same without failed conversations: at the stop each is tried once. */
  listFinalQueries(active: ReadonlySet<string>, max: number): PendingQuery[] {
    const limit = max - active.size
    const isOver = this.#outage !== undefined || limit <= 0
    return isOver ? [] : [{ limit, except: active.union(new Set(this.#entries.keys())) }]
  }

  /** The next time at which the queries change; Infinity when time alone changes nothing. */
  nextChangeMs(nowMs: number): number {
    const { untilMs = 0, othersMs = 0 } = this.#outage ?? {}
    let next = Number.POSITIVE_INFINITY
    for (const ms of [untilMs, othersMs, ...this.#entries.values().map((entry) => entry.untilMs)]) {
      if (ms > nowMs) next = Math.min(next, ms)
    }
    return next
  }

  recordFailure(conversation: string, failure: DeliveryFailure, nowMs: number): void {
    const { isUnreachable, isGone, retryAfterMs = 0 } = failure
    const failures = Math.max(
      (this.#entries.get(conversation)?.failures ?? 0) + 1,
      isGone ? goneFailureCount : 1,
    )
    this.#entries.set(conversation, {
      failures,
      untilMs: nowMs + this.#waitMs(failures, retryAfterMs),
      isUnreachable,
    })
    this.#failedSinceSuccess.add(conversation)
    if (this.#failedSinceSuccess.size < outageThreshold) return
    const outageFailures = (this.#outage?.failures ?? 0) + 1
    const untilMs = nowMs + this.#waitMs(outageFailures, retryAfterMs)
    this.#outage = { failures: outageFailures, untilMs, othersMs: nowMs + this.#waitMs(1, retryAfterMs) }
  }

  /**
   * Records a success; true when it ends a failure of the conversation or an outage. The other conversations
   * that wait because of the outage wait no longer.
   */
  recordSuccess(conversation: string): boolean {
    const isRecovery = this.#entries.delete(conversation) || this.#outage !== undefined
    if (this.#outage !== undefined) this.#entries.clear()
    for (const [other, entry] of this.#entries) if (entry.isUnreachable) this.#entries.delete(other)
    this.#failedSinceSuccess = new Set()
    this.#outage = undefined
    return isRecovery
  }

  #waitingConversations(nowMs: number): Set<string> {
    const waiting = new Set<string>()
    for (const [conversation, entry] of this.#entries) if (entry.untilMs > nowMs) waiting.add(conversation)
    return waiting
  }

  /** Half of the wait is chance, so that many servers do not come back at once. */
  #waitMs(failures: number, leastMs: number): number {
    const { firstMs, maxMs, random } = this.#times
    const doubled = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30))
    return Math.max(Math.min(leastMs, maxMs), doubled * (0.5 + random() / 2))
  }
}
