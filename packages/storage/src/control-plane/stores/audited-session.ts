import { formatInstant } from '@slipway/protocol'
import { changedMembers } from '@slipway/shared/json'
import { redactedText } from '@slipway/shared/redaction'
import type { Members } from '../audit-rows.ts'
import { type AuditTrail, currentAuditTrail, type NotedChange } from '../audit-trail.ts'
import type { Put } from './audit.ts'
import { query, type RowSession, type Touched, type Work } from './session.ts'
import { tableDefinitions } from './tables.ts'

interface AuditedTable {
  readonly type: string
  /** The column with the id of what a row is about. */
  readonly id: string
  /** The columns that tell rows apart. */
  readonly key: readonly string[]
  readonly columns: readonly string[]
}

/** The tables whose changes are audited, by their names in SQLite, and the columns that say what changed. */
const auditedTables: Readonly<Record<string, AuditedTable>> = {
  user: audited('user', 'id', 'name email org is_admin daily_conversation_limit created_at'),
  user_limit: audited('user', 'user', 'max_conversations max_stored_mb max_sandboxes'),
  org: audited('organization', 'id', 'name daily_conversation_limit allowed_models allowed_specs created_at'),
  member: { ...audited('organization', 'org', 'user role'), key: ['user', 'org'] },
  api_key: audited('key', 'id', 'hash user org name scopes not_before expires_at created_at created_by'),
  sandbox: audited('sandbox', 'id', 'owner org spec backend wanted created_at deletes_at'),
  app_conversation: audited('conversation', 'id', 'owner org sandbox parent title created_at'),
  budget: { ...audited('budget', 'target', 'scope monthly_limit set_by'), key: ['id'] },
  budget_request: audited('budget_request', 'id', 'user scope target amount status granted note'),
  start_task: audited('conversation', 'conversation', 'owner org'),
}

function audited(type: string, id: string, columns: string): AuditedTable {
  return { type, id, key: [id], columns: columns.split(' ') }
}

/** A session whose changes add to the trail of the request, and write its line in their transaction. */
export class AuditedSession implements RowSession {
  readonly dialect: RowSession['dialect']
  readonly #session: RowSession
  readonly #put: Put

  constructor(session: RowSession, put: Put) {
    this.dialect = session.dialect
    this.#session = session
    this.#put = put
  }

  read<T>(work: Work<T>): Promise<T> {
    return this.#session.read(work)
  }

  async write<T>(makeWork: () => Work<T>): Promise<T> {
    const trail = currentAuditTrail()
    if (trail === undefined) return await this.#session.write(makeWork)
    const written = this.#write(trail, makeWork)
    trail.track(written)
    return await written
  }

  async #write<T>(trail: AuditTrail, makeWork: () => Work<T>): Promise<T> {
    let changes: NotedChange[] = []
    const result = await this.#session.write(() => {
      changes = []
      return this.#record(trail, makeWork(), changes)
    })
    trail.keep(changes)
    return result
  }

  *#record<T>(trail: AuditTrail, work: Work<T>, changes: NotedChange[]): Work<T> {
    for (let step = work.next([]); ; ) {
      if (step.done) {
        if (changes.length > 0) yield* this.#put(trail.toRow(changes))
        return step.value
      }
      const { touched, describe } = step.value
      const before = touched && (yield* this.#readRows(touched))
      const rows = yield step.value
      const after = touched && (yield* this.#readRows(touched))
      if (before !== undefined && after !== undefined) changes.push(...compareRows(before, after))
      if (describe !== undefined) changes.push({ type: 'document', id: '', key: 'document', ...describe() })
      step = work.next(rows)
    }
  }

  /** The audited columns of the rows; none of a table that is not audited. */
  *#readRows({ table, where }: Touched): Work<ReadonlyMap<string, NotedRow>> {
    const found = auditedTables[table]
    const definition = tableDefinitions.find(({ sqlite }) => sqlite === table)
    if (found === undefined || definition === undefined) return new Map()
    const columns = [...new Set([found.id, ...found.columns])]
    const condition = Object.keys(where).map((column) => `"${column}" = ?`)
    const rows = yield* query(
      `SELECT ${columns.map((column) => `"${column}"`).join(', ')} FROM ${definition[this.dialect.name]} WHERE ${condition.join(' AND ')}`,
      ...Object.values(where),
    )
    return new Map(
      rows.map((values) => {
        const all = Object.fromEntries(columns.map((column, at) => [column, values[at]]))
        const { [found.id]: id } = all
        const members = Object.fromEntries(
          found.columns.map((column) => [column, toValue(column, all[column], definition)]),
        )
        const key = JSON.stringify([table, ...found.key.map((column) => all[column])])
        return [key, { type: found.type, id: String(id), members }]
      }),
    )
  }
}

interface NotedRow {
  readonly type: string
  readonly id: string
  readonly members: Members
}

function toValue(
  column: string,
  value: unknown,
  { flags = [], json = [] }: { readonly flags?: readonly string[]; readonly json?: readonly string[] },
): unknown {
  if (value === null || value === undefined) return null
  if (/_at$|^not_before$/.test(column)) return formatInstant(Number(value))
  if (flags.includes(column)) return Boolean(value)
  return json.includes(column) ? JSON.parse(String(value)) : value
}

function compareRows(
  before: ReadonlyMap<string, NotedRow>,
  after: ReadonlyMap<string, NotedRow>,
): NotedChange[] {
  const keys = [...new Set([...before.keys(), ...after.keys()])]
  return keys.flatMap((key): NotedChange[] => {
    const [a, b] = [before.get(key), after.get(key)]
    const { type, id } = (a ?? b) as NotedRow // the key is of one of them
    if (a === undefined || b === undefined)
      return [{ type, id, key, before: a && withoutHash(a.members), after: b && withoutHash(b.members) }]
    const shown = { before: withoutHash(a.members), after: withoutHash(b.members) }
    const changed = changedMembers(a.members, b.members, shown)
    return Object.keys({ ...changed.before, ...changed.after }).length === 0
      ? []
      : [{ type, id, key, ...changed }]
  })
}

/** The hash of a key says that it changed, and no more. */
function withoutHash(members: Members): Members {
  return 'hash' in members ? { ...members, hash: redactedText } : members
}
