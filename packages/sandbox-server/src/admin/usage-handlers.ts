import type { Handlers } from '@slipway/http'
import {
  formatInstant,
  type Instant,
  invalidInput,
  Problem,
  type sandboxServerRoutes,
  type UsageReport,
} from '@slipway/protocol'
import {
  type ControlPlaneStore,
  type SandboxRow,
  splitByDay,
  type UsageQuery,
  usageAmounts,
} from '@slipway/storage/control-plane'
import { AdminReach, isWithinReach } from '../auth/admin-reach.ts'
import { getCaller } from '../auth/authenticator.ts'
import { csvLine } from './csv.ts'

interface UsageDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'usage' | 'sandboxes' | 'users'>
  readonly now: () => Instant
}

interface RequestQuery extends Pick<UsageQuery, 'by'> {
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly org_id?: string | undefined
}

const microsPerHour = 3_600_000_000
const none = {
  conversations: 0,
  ...(Object.fromEntries(usageAmounts.map((name) => [name, 0])) as Record<
    (typeof usageAmounts)[number],
    number
  >),
}
const columns = [
  ...['key', 'name', 'conversations', 'cost', 'prompt_tokens', 'completion_tokens', 'cache_read_tokens'],
  ...['cache_write_tokens', 'reasoning_tokens', 'sandbox_hours'],
] as const

/** What users have used: tokens, money and the time of sandboxes; of an organisation with a key of it. */
export function usageHandlers({ controlPlane, now }: UsageDeps) {
  const { usage, sandboxes, users } = controlPlane
  const reach = new AdminReach(users)
  const findName = async (by: UsageQuery['by'], key: string | null): Promise<string | null> => {
    if (key === null || by === 'model' || by === 'day') return null
    const found = by === 'user' ? await users.getUser(key) : await users.getOrg(key)
    return found === undefined ? null : (found.name ?? ('email' in found ? found.email : null))
  }
  /** Also of the runs that have not ended. */
  const sumSandboxTime = async (query: UsageQuery): Promise<Map<string | null, number>> => {
    const sums = new Map((await usage.sumSandboxTime(query)).map(({ key, micros }) => [key, micros]))
    if (query.by === 'model') return sums
    const until = now()
    for await (const row of sandboxes.iterateRunning())
      for (const { key, micros } of runningTime(row, query, until))
        sums.set(key, (sums.get(key) ?? 0) + micros)
    return sums
  }
  const report = async (query: UsageQuery): Promise<UsageReport> => {
    const [rows, times] = await Promise.all([usage.sum(query), sumSandboxTime(query)])
    const byKey = new Map(rows.map((row) => [row.key, row]))
    const keys = [...new Set([...byKey.keys(), ...times.keys()])].sort(compareKeys)
    const items = keys.map(async (key) => {
      const { cost, ...amounts } = byKey.get(key) ?? none
      const sandbox_hours = query.by === 'model' ? null : round((times.get(key) ?? 0) / microsPerHour)
      const name = await findName(query.by, key)
      return { ...amounts, key, name, cost: cost / 1e6, sandbox_hours }
    })
    const { by, from, to } = query
    return { by, from, to, items: await Promise.all(items) }
  }
  const toQuery = async (request: {
    readonly caller: unknown
    readonly query: RequestQuery
  }): Promise<UsageQuery> => {
    const today = formatInstant(now()).slice(0, 10)
    const { by, from = `${today.slice(0, 8)}01`, to = today, org_id } = request.query
    const { boundOrg } = await reach.asManager(getCaller(request), org_id)
    if (org_id !== undefined && !isWithinReach({ boundOrg }, { org: org_id }))
      throw new Problem('not_found', 'There is no such organisation')
    if (from > to) throw invalidInput(['query', 'from'], 'The first day is after the last')
    return { by, from, to, org: boundOrg ?? org_id }
  }
  return {
    async getUsage(request) {
      return { json: await report(await toQuery(request)) }
    },
    async downloadUsage(request) {
      const { items } = await report(await toQuery(request))
      const lines = items.map((item) => csvLine(columns.map((name) => item[name])))
      const text = [csvLine(columns), ...lines].join('')
      return { bytes: Buffer.from(text), contentType: 'text/csv; charset=utf-8' }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

function runningTime({ owner, org, status, changed_at }: SandboxRow, query: UsageQuery, until: Instant) {
  if (status !== 'RUNNING' || owner === null || (query.org !== undefined && org !== query.org)) return []
  const days = splitByDay(changed_at, until).filter(({ day }) => day >= query.from && day <= query.to)
  return days.map(({ day, micros }) => {
    const key = query.by === 'day' ? day : query.by === 'user' ? owner : org
    return { key, micros }
  })
}

function compareKeys(a: string | null, b: string | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1
  return a < b ? -1 : a > b ? 1 : 0
}

function round(hours: number): number {
  return Number(hours.toFixed(4))
}
