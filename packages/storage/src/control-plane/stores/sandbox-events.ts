import type { Instant } from '@slipway/protocol'
import type { SandboxActor, SandboxEventRow, SandboxEventRows, SandboxLogRow } from '../sandbox-events.ts'
import type { SandboxRow } from '../sandboxes.ts'
import type { UserRow } from '../users.ts'
import { execute, query, type RowSession, type Value, type Work } from './session.ts'
import { Table } from './table.ts'

const maxEventsOfSandbox = 200
const maxLogs = 1_000
const dayMicros = 86_400_000_000
const eventsMicros = 30 * dayMicros
const logsMicros = 7 * dayMicros

const eventColumns = ['sandbox', 'owner', 'org', 'kind', 'actor', 'detail', 'created_at'] as const
const logColumns = ['sandbox', 'owner', 'org', 'text', 'created_at'] as const
export const eventsSql = `SELECT ${eventColumns.join(', ')} FROM sandbox_event INDEXED BY sandbox_event_sandbox
  WHERE sandbox = ? ORDER BY ordinal`
const addEventSql = `INSERT INTO sandbox_event (${eventColumns.join(', ')}) VALUES (?, ?, ?, ?, ?, ?, ?)`
export const trimEventsSql = `DELETE FROM sandbox_event WHERE sandbox = ? AND ordinal <= (
  SELECT ordinal FROM sandbox_event WHERE sandbox = ? ORDER BY ordinal DESC LIMIT 1 OFFSET ${maxEventsOfSandbox})`
export const oldEventsSql = `DELETE FROM sandbox_event WHERE created_at < ?
  AND NOT EXISTS (SELECT 1 FROM sandbox WHERE sandbox.id = sandbox_event.sandbox)`
export const logSql = `SELECT ${logColumns.join(', ')} FROM sandbox_log WHERE sandbox = ?`
const saveLogSql = `INSERT INTO sandbox_log (${logColumns.join(', ')}) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (sandbox) DO UPDATE SET ${logColumns
    .slice(1)
    .map((name) => `${name} = excluded.${name}`)
    .join(', ')}`
export const oldLogsSql = `DELETE FROM sandbox_log WHERE created_at < ? OR created_at <= (
  SELECT created_at FROM sandbox_log ORDER BY created_at DESC LIMIT 1 OFFSET ${maxLogs})`

export function* addSandboxEvent(row: SandboxEventRow): Work<void> {
  const values = eventColumns.map((name) => row[name])
  // A command changes no row that the audit shows.
  const describe = row.kind === 'exec' ? () => ({ before: {}, after: { command: row.detail } }) : undefined
  yield { sql: addEventSql, values, describe }
  yield* execute(trimEventsSql, row.sandbox, row.sandbox)
}

/** Removes the events of sandboxes that were deleted long ago. */
export function removeOldEvents(now: Instant): Work<void> {
  return execute(oldEventsSql, now - eventsMicros)
}

/** The event of a change, if it is one; none of an unclaimed sandbox. */
export function eventOfChange(
  before: SandboxRow,
  after: SandboxRow,
  { actor = null, detail = null, kind }: SandboxActor,
  created_at: Instant,
): SandboxEventRow | undefined {
  const found = kind ?? kindOfChange(before, after, actor)
  if (after.owner === null || found === undefined) return undefined
  const { id: sandbox, owner, org } = after
  const why = Object.values(observed).includes(found) ? after.detail : null
  return { sandbox, owner, org, kind: found, actor, detail: detail ?? why, created_at }
}

const desired = { running: 'resume', paused: 'pause', archived: 'archive', gone: 'delete' } as const
const observed: Readonly<Record<string, string>> = {
  STARTING: 'starting',
  RUNNING: 'running',
  PAUSED: 'paused',
  ERROR: 'failed',
  MISSING: 'missing',
}

function kindOfChange(before: SandboxRow, after: SandboxRow, actor: string | null): string | undefined {
  if (before.owner === null) return 'create'
  if (after.wanted !== before.wanted) return desired[after.wanted]
  if (after.status === before.status) return undefined
  return after.status === 'STARTING' && actor !== null ? 'resume' : observed[after.status]
}

export function sandboxEventRows(session: RowSession): SandboxEventRows {
  const users = new Table<UserRow>(session.dialect, 'user')
  return {
    async list(sandbox) {
      const rows = await session.read(query<(string | number | null)[]>(eventsSql, sandbox))
      return rows.map((row) => named<SandboxEventRow>(eventColumns, row))
    },
    add: (row) => session.write(() => addSandboxEvent(row)),
    saveLog: (row) => session.write(() => saveLog(users, row)),
    async getLog(sandbox) {
      const [row] = await session.read(query<(string | number | null)[]>(logSql, sandbox))
      return row && named<SandboxLogRow>(logColumns, row)
    },
  }
}

function* saveLog(users: Table<UserRow>, row: SandboxLogRow): Work<void> {
  if (row.owner === null || (yield* users.get(row.owner)) === undefined) return
  yield* execute(saveLogSql, ...logColumns.map((name): Value => row[name]))
  yield* execute(oldLogsSql, row.created_at - logsMicros)
}

function named<R>(columns: readonly string[], row: readonly unknown[]): R {
  return Object.fromEntries(columns.map((name, at) => [name, row[at]])) as R
}
