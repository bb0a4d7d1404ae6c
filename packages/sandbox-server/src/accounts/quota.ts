import { formatInstant, type Instant, Problem } from '@slipway/protocol'
import type { PeopleRows, QuotaRows, Scope } from '@slipway/storage'

const dayMicros = 86_400_000_000
const unlimited = -1

export interface QuotaStatus {
  /** Null: unlimited. */
  readonly limit: number | null
  readonly used: number
  /** The next midnight, UTC. */
  readonly resetAt: Instant
}

/**
 * How many conversations a user may start on a UTC day: the user's own limit goes before that of the organisation, and that
 * before the server's; null passes the question on, -1 is unlimited.
 */
export class Quota {
  readonly #people: PeopleRows
  readonly #rows: QuotaRows
  readonly #limit: number | null
  readonly #now: () => Instant

  constructor(parts: {
    readonly people: PeopleRows
    readonly rows: QuotaRows
    /** Of the server; null or -1: unlimited. */
    readonly limit: number | null
    readonly now: () => Instant
  }) {
    this.#people = parts.people
    this.#rows = parts.rows
    this.#limit = parts.limit
    this.#now = parts.now
  }

  /** Takes a slot and answers its day; null when the caller is not counted. A Problem `too_many` when none is left. */
  async take(scope: Scope): Promise<string | null> {
    const limit = await this.#limitOf(scope)
    if (limit === null || scope.owner === null) return null
    const now = this.#now()
    const day = dayOf(now)
    const { isReserved, used } = await this.#rows.reserve(scope.owner, day, limit)
    if (isReserved) return day
    const resetAt = midnightAfter(now)
    throw new Problem(
      'too_many',
      `The ${limit} conversations of today are used up. From ${formatInstant(resetAt)} on there are new ones; an administrator can raise the limit.`,
      undefined,
      {
        code: 'daily_conversation_limit_reached',
        limit,
        used,
        reset_at: formatInstant(resetAt),
      },
    )
  }

  /** Gives a slot back that `take` answered the day of. */
  async giveBack(owner: string | null, day: string): Promise<void> {
    if (owner !== null) await this.#rows.release(owner, day)
  }

  async status(scope: Scope): Promise<QuotaStatus> {
    const now = this.#now()
    const [limit, used] = await Promise.all([
      this.#limitOf(scope),
      scope.owner === null ? 0 : this.#rows.used(scope.owner, dayOf(now)),
    ])
    return { limit, used, resetAt: midnightAfter(now) }
  }

  async #limitOf({ owner, org }: Scope): Promise<number | null> {
    const user = owner === null ? undefined : await this.#people.user(owner)
    const inherited = org === undefined ? undefined : await this.#people.org(org)
    const limit = user?.daily_conversation_limit ?? inherited?.daily_conversation_limit ?? this.#limit
    return limit === unlimited ? null : limit
  }
}

function dayOf(instant: Instant): string {
  return formatInstant(instant).slice(0, 10)
}

function midnightAfter(instant: Instant): Instant {
  return (Math.floor(instant / dayMicros) + 1) * dayMicros
}
