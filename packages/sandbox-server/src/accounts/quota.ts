import { formatInstant, type Instant, Problem, unlimited } from '@slipway/protocol'
import type { QuotaRows, Scope, UserRows } from '@slipway/storage/control-plane'

const dayMicros = 86_400_000_000

interface QuotaDeps {
  readonly users: UserRows
  readonly rows: QuotaRows
  /** Of the server; null or -1: unlimited. */
  readonly limit: number | null
  readonly now: () => Instant
}

export interface QuotaSlot {
  /** UTC, `2026-01-31`. */
  readonly day: string
  readonly limit: number
  readonly now: Instant
}

/** Limits a user's starts on a UTC day: by user, organisation or server. Null inherits, -1 is unlimited. */
export class Quota {
  readonly #deps: QuotaDeps

  constructor(deps: QuotaDeps) {
    this.#deps = deps
  }

  /** What a start of now counts by; null without a limit. */
  async slotOf(scope: Scope): Promise<QuotaSlot | null> {
    const limit = await this.#getLimit(scope)
    if (limit === null || scope.owner === null) return null
    const now = this.#deps.now()
    return { day: utcDay(now), limit, now }
  }

  /** The Problem `too_many` for a start that no slot is left for. */
  refusal({ limit, now }: QuotaSlot, used: number): Problem {
    const resetAt = nextMidnight(now)
    const problem = new Problem(
      'too_many',
      `The daily limit of ${limit} conversations is reached. It resets at ${formatInstant(resetAt)}; an administrator can raise it.`,
      undefined,
      { code: 'daily_conversation_limit_reached', limit, used, reset_at: formatInstant(resetAt) },
    )
    problem.retryAfterSeconds = Math.ceil((resetAt - now) / 1_000_000)
    return problem
  }

  /** `limit` is null without a limit, `resetAt` is the next midnight UTC. */
  async status(scope: Scope) {
    const now = this.#deps.now()
    const [limit, used] = await Promise.all([
      this.#getLimit(scope),
      scope.owner === null ? 0 : this.#deps.rows.getUsed(scope.owner, utcDay(now)),
    ])
    return { limit, used, resetAt: nextMidnight(now) }
  }

  async #getLimit({ owner, org }: Scope): Promise<number | null> {
    const user = owner === null ? undefined : await this.#deps.users.getUser(owner)
    const inherited = org === undefined ? undefined : await this.#deps.users.getOrg(org)
    const limit = user?.daily_conversation_limit ?? inherited?.daily_conversation_limit ?? this.#deps.limit
    return limit === unlimited ? null : limit
  }
}

function utcDay(instant: Instant): string {
  return formatInstant(instant).slice(0, 10)
}

function nextMidnight(instant: Instant): Instant {
  return (Math.floor(instant / dayMicros) + 1) * dayMicros
}
