interface Rest {
  /** Failures in a row. */
  readonly failures: number
  readonly untilMs: number
  /** There was no answer at all, so any answer of the receiver is news. */
  readonly isUnreachable: boolean
}

/** A failure, as far as the wait after it is concerned. */
export interface Failure {
  readonly isUnreachable: boolean
  /** Wait long from the first time on. */
  readonly isGone: boolean
  readonly retryAfterMs: number | undefined
}

export interface RestTimes {
  /** After the first failure; each one in a row doubles it. */
  readonly firstMs: number
  readonly maxMs: number
  readonly random: () => number
}

/** What may be asked for now: at most so many, without these. */
export interface Choice {
  readonly limit: number
  readonly except: ReadonlySet<string>
}

/** A receiver that does not know us waits as if it had failed so often already. */
const goneFailures = 4
/** So many conversations that failed one after the other mean that it is the receiver. */
const manyFailures = 3

/**
 * How long the conversations of a receiver rest after failures: each for itself, so that one that is never taken is in
 * nobody's way. When one after another fails, the receiver is down: then it is asked by one at a time, and those that have
 * not failed come first. Pure: the clock is given, in milliseconds.
 */
export class Rests {
  readonly #times: RestTimes
  readonly #rests = new Map<string, Rest>()
  /** The conversations that failed since one was taken. */
  #failed = new Set<string>()
  /** While the receiver is down: when one that failed, and when another may ask it. */
  #down: { readonly failures: number; readonly untilMs: number; readonly othersMs: number } | undefined

  constructor(times: RestTimes) {
    this.#times = times
  }

  /** Conversations that wait after a failure. */
  get size(): number {
    return this.#rests.size
  }

  /** What may be done now, the best first; a later choice is for when there is nothing of those before. */
  choices(busy: ReadonlySet<string>, most: number, nowMs: number): Choice[] {
    const down = this.#down
    if (down === undefined) {
      const limit = most - busy.size
      return limit > 0 ? [{ limit, except: busy.union(this.#resting(nowMs)) }] : []
    }
    if (busy.size > 0) return []
    return [
      ...(down.othersMs <= nowMs ? [{ limit: 1, except: this.#failed }] : []),
      ...(down.untilMs <= nowMs ? [{ limit: 1, except: this.#resting(nowMs) }] : []),
    ]
  }

  /** The same without those that have failed: on the way out nobody is asked twice. */
  lastChoices(busy: ReadonlySet<string>, most: number): Choice[] {
    const limit = most - busy.size
    const isOver = this.#down !== undefined || limit <= 0
    return isOver ? [] : [{ limit, except: busy.union(new Set(this.#rests.keys())) }]
  }

  /** When there may be another choice than now; Infinity when it is not time that matters. */
  nextMs(nowMs: number): number {
    const { untilMs = 0, othersMs = 0 } = this.#down ?? {}
    let next = Number.POSITIVE_INFINITY
    for (const ms of [untilMs, othersMs, ...this.#rests.values().map((rest) => rest.untilMs)]) {
      if (ms > nowMs) next = Math.min(next, ms)
    }
    return next
  }

  fail(conversation: string, failure: Failure, nowMs: number): void {
    const { isUnreachable, isGone, retryAfterMs = 0 } = failure
    const failures = Math.max((this.#rests.get(conversation)?.failures ?? 0) + 1, isGone ? goneFailures : 1)
    this.#rests.set(conversation, {
      failures,
      untilMs: nowMs + this.#waitMs(failures, retryAfterMs),
      isUnreachable,
    })
    this.#failed.add(conversation)
    if (this.#failed.size < manyFailures) return
    const inARow = (this.#down?.failures ?? 0) + 1
    const untilMs = nowMs + this.#waitMs(inARow, retryAfterMs)
    this.#down = { failures: inARow, untilMs, othersMs: nowMs + this.#waitMs(1, retryAfterMs) }
  }

  /**
   * It was taken; answers whether that is news, because it had failed or the receiver was down. Those that rested because
   * nobody answered, or because everything failed, need not any more.
   */
  succeed(conversation: string): boolean {
    const isNews = this.#rests.delete(conversation) || this.#down !== undefined
    if (this.#down !== undefined) this.#rests.clear()
    for (const [other, rest] of this.#rests) if (rest.isUnreachable) this.#rests.delete(other)
    this.#failed = new Set()
    this.#down = undefined
    return isNews
  }

  #resting(nowMs: number): Set<string> {
    const resting = new Set<string>()
    for (const [conversation, rest] of this.#rests) if (rest.untilMs > nowMs) resting.add(conversation)
    return resting
  }

  /** Half of the wait is chance, so that many servers do not come back at once. */
  #waitMs(failures: number, leastMs: number): number {
    const { firstMs, maxMs, random } = this.#times
    const doubled = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30))
    return Math.max(Math.min(leastMs, maxMs), doubled * (0.5 + random() / 2))
  }
}
