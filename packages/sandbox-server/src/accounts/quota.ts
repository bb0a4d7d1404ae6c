import { formatInstant, type Instant, Problem, unlimited } from '@slipway/protocol'
import type { OrgRow, QuotaRows, Scope, UserRows } from '@slipway/storage/control-plane'

const dayMicros = 86_400_000_000

interface QuotaDeps {
  readonly users: UserRows
  readonly rows: QuotaRows
  /** Of the server; null or -1: unlimited. */
  readonly limit: number | null
  /** Ids of organisations without the limit of the server. */
  readonly exemptOrgs?: readonly string[]
  readonly now: () => Instant
}

export interface QuotaSlot {
  /** UTC, `2026-01-31`. */
  readonly day: string
  /** Null: unlimited; the start counts all the same. */
  readonly limit: number | null
  readonly now: Instant
}

/** Whose limit it is. */
export type LimitSource = 'user' | 'organization' | 'exempt_organizations' | 'server'

/**
 * Limits a user's starts on a UTC day: by user, organisation of the request or server. Null inherits, -1 is
 * unlimited. Every start counts, so that a limit that is set later knows those of its day.
 */
export class Quota {
  readonly #deps: QuotaDeps

  constructor(deps: QuotaDeps) {
    this.#deps = deps
  }

  /** What a start of now counts by; null without an owner. */
  async slotOf(scope: Scope): Promise<QuotaSlot | null> {
    if (scope.owner === null) return null
    const { limit } = await this.#getLimit(scope)
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

  /**
   * `limit` is null without a limit, `resetAt` is the next midnight UTC. `unlimitedOrgs`: organisations of
   * the user in which there would be none; a request works in the one that its key is bound to.
   */
  async status(scope: Scope) {
    const now = this.#deps.now()
    const { owner } = scope
    const [{ limit, source }, used, orgs] = await Promise.all([
      this.#getLimit(scope),
      owner === null ? 0 : this.#deps.rows.getUsed(owner, utcDay(now)),
      owner === null ? [] : this.#deps.users.listOrgsOfUser(owner),
    ])
    const isOpen = source !== 'user' && limit !== null
    const unlimitedOrgs = isOpen ? orgs.filter((org) => this.#ofOrg(org)?.limit === unlimited) : []
    return {
      limit,
      source,
      used,
      unlimitedOrgs: unlimitedOrgs.map(({ id }) => id),
      resetAt: nextMidnight(now),
    }
  }

  async #getLimit({ owner, org }: Scope): Promise<{ limit: number | null; source: LimitSource }> {
    const { users, limit: ofServer } = this.#deps
    const user = owner === null ? undefined : await users.getUser(owner)
    const own = user?.daily_conversation_limit ?? null
    const inherited = own !== null || org === undefined ? undefined : this.#ofOrg(await users.getOrg(org))
    const { limit, source } =
      own !== null
        ? { limit: own, source: 'user' as const }
        : (inherited ?? { limit: ofServer, source: 'server' as const })
    return { limit: limit === unlimited ? null : limit, source }
  }

  #ofOrg(org: OrgRow | undefined): { limit: number; source: LimitSource } | undefined {
    if (org === undefined) return undefined
    const { id, daily_conversation_limit: limit } = org
    if (limit !== null) return { limit, source: 'organization' }
    return this.#deps.exemptOrgs?.includes(id)
      ? { limit: unlimited, source: 'exempt_organizations' }
      : undefined
  }
}

function utcDay(instant: Instant): string {
  return formatInstant(instant).slice(0, 10)
}

function nextMidnight(instant: Instant): Instant {
  return (Math.floor(instant / dayMicros) + 1) * dayMicros
}
