import type { Instant } from '@slipway/protocol'
import type { AppConversationRow } from '../app-conversations.ts'
import type { SandboxRow } from '../sandboxes.ts'
import {
  dayOf,
  mostUsage,
  readUsage,
  type SandboxTimeRow,
  splitByDay,
  type UsageAmounts,
  type UsageGroup,
  type UsageQuery,
  type UsageRow,
  type UsageRows,
  usageAmounts,
  usageBetween,
} from '../usage.ts'
import { execute, query, queryColumn, type RowSession, type Value, type Work } from './session.ts'

const amounts = usageAmounts.join(', ')
const addUsageSql = `INSERT INTO conversation_usage (day, conversation, model, "user", org, ${amounts})
  VALUES (?, ?, ?, ?, ?, ${usageAmounts.map(() => '?').join(', ')})
  ON CONFLICT (day, conversation, model) DO UPDATE SET
  ${usageAmounts.map((name) => `${name} = conversation_usage.${name} + excluded.${name}`).join(', ')}`
const countedSql = 'SELECT counted FROM app_conversation WHERE id = ?'
const addCostSql = 'UPDATE sandbox SET cost = cost + ? WHERE id = ?'
const addTimeSql = `INSERT INTO sandbox_usage (day, sandbox, "user", org, micros) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (day, sandbox) DO UPDATE SET micros = sandbox_usage.micros + excluded.micros`

const columns: Readonly<Record<UsageGroup, string>> = {
  user: '"user"',
  organization: 'org',
  model: 'model',
  day: 'day',
}

function conditionsOf({ user, org }: Pick<UsageQuery, 'user' | 'org'>): string {
  return `${user === undefined ? '' : ' AND "user" = ?'}${org === undefined ? '' : ' AND org = ?'}`
}

function usageSql({ by, ...of }: UsageQuery): string {
  const sums = usageAmounts.map((name) => `CAST(sum(${name}) AS bigint)`).join(', ')
  return `SELECT ${columns[by]}, count(DISTINCT conversation), ${sums} FROM conversation_usage
    WHERE day >= ? AND day <= ?${conditionsOf(of)} GROUP BY 1 ORDER BY 1`
}

function sandboxTimeSql({ by, ...of }: UsageQuery): string {
  return `SELECT ${columns[by]}, CAST(sum(micros) AS bigint) FROM sandbox_usage
    WHERE day >= ? AND day <= ?${conditionsOf(of)} GROUP BY 1 ORDER BY 1`
}

/**
 * Adds what a conversation has used beyond what was counted, in the transaction of that change: a report that
 * comes twice, or again after a row without it, adds nothing. Returns the columns that say what is counted.
 */
export function* addUsage(
  before: AppConversationRow,
  members: string,
  now: Instant,
): Work<{ readonly cost: number; readonly counted: string }> {
  const [text] = yield* queryColumn<string | null>(countedSql, before.id)
  const { amounts: previous } = readUsage(before.members)
  // Of a row that is older than the column: what it has was used before.
  const counted = text == null ? previous : mostUsage(previous, JSON.parse(text) as UsageAmounts)
  const { model, amounts: used } = readUsage(members)
  const more = usageBetween(counted, used)
  if (more !== undefined) {
    const values = usageAmounts.map((name) => more[name])
    yield* execute(addUsageSql, dayOf(now), before.id, model, before.owner, before.org, ...values)
    yield* execute(addCostSql, more.cost, before.sandbox)
  }
  const most = mostUsage(counted, used)
  return { cost: most.cost, counted: JSON.stringify(most) }
}

/** Adds the time that a sandbox has run since its status changed, in the transaction that ends it. */
export function* addSandboxTime(
  { id, owner, org, status, changed_at }: SandboxRow,
  now: Instant,
): Work<void> {
  if (status !== 'RUNNING' || owner === null) return
  for (const { day, micros } of splitByDay(changed_at, now))
    yield* execute(addTimeSql, day, id, owner, org, micros)
}

export function usageRows(session: RowSession): UsageRows {
  const values = ({ from, to, user, org }: UsageQuery): Value[] => [
    ...[from, to],
    ...[user, org].filter((id) => id !== undefined),
  ]
  return {
    sum: (wanted) => session.read(readSums(usageSql(wanted), values(wanted))),
    async sumSandboxTime(wanted) {
      if (wanted.by === 'model') return []
      const rows = query<[string | null, number]>(sandboxTimeSql(wanted), ...values(wanted))
      return (await session.read(rows)).map(([key, micros]): SandboxTimeRow => ({ key, micros }))
    },
  }
}

function* readSums(sql: string, values: readonly Value[]): Work<readonly UsageRow[]> {
  const rows = yield* query<[string | null, number, ...number[]]>(sql, ...values)
  return rows.map(([key, conversations, ...sums]) => {
    const named = usageAmounts.map((name, at) => [name, sums[at] ?? 0])
    return { key, conversations, ...Object.fromEntries(named) }
  })
}
