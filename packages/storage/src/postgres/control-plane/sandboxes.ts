import type { Instant } from '@slipway/protocol'
import { sandboxListing } from '../../control-plane/listings.ts'
import type { AdminScope, PageQuery, RowPage, Scope } from '../../control-plane/rows.ts'
import type { SandboxRow, SandboxRows } from '../../control-plane/sandboxes.ts'
import type { PostgresDatabase, Session } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { PostgresRows } from './rows.ts'
import { Table } from './table.ts'
import { decodeText, encodeText } from './text.ts'

type Change = Parameters<SandboxRows['update']>
type Members = Change[1]

const columns = [
  ...['id', 'owner', 'org', 'spec', 'backend', 'wanted', 'status', 'detail', 'key_hash', 'sealed', 'epoch'],
  ...['addresses', 'created_at', 'changed_at', 'used_at'],
]
const batchRows = 200
const grantSql = `INSERT INTO sandbox_secret (sandbox, name) SELECT $1, * FROM unnest($2::text[])
  ON CONFLICT DO NOTHING`
const grantedSql = 'SELECT name FROM sandbox_secret WHERE sandbox = $1 ORDER BY name'
const keyClause = 'WHERE key_hash = $1'
const pooledClause = `WHERE spec = $1 AND owner IS NULL AND wanted = 'running' AND status = 'RUNNING'
  ORDER BY created_at, id LIMIT 1`

/** SandboxRows on PostgreSQL. */
export class PostgresSandboxRows extends PostgresRows<SandboxRow> implements SandboxRows {
  readonly #now: () => Instant

  constructor(db: PostgresDatabase, changes: ChangeQueue, now: () => Instant) {
    super(db, changes, new Table(db, 'sandbox', columns))
    this.#now = now
  }

  add(row: SandboxRow): ReturnType<SandboxRows['add']> {
    return this.changes.write(async (session) =>
      (await this.table.insert(session, row)) ? 'added' : 'known',
    )
  }

  findByKeyHash(hash: string): Promise<SandboxRow | undefined> {
    return this.table.selectFirst(keyClause, [hash])
  }

  override update(
    id: string,
    members: Members,
    { where = {} }: Change[2] = {},
  ): ReturnType<SandboxRows['update']> {
    return this.changes.write(async (session) => {
      const row = await this.table.get(id, session)
      return row && matchesMembers(row, where) ? await this.#update(session, row, members) : undefined
    })
  }

  claim(spec: string, members: Members & { readonly owner: string }): Promise<SandboxRow | undefined> {
    return this.changes.write(async (session) => {
      const { key_hash = null } = members
      const claimed =
        key_hash === null ? undefined : await this.table.selectFirst(keyClause, [key_hash], session)
      if (claimed !== undefined) return claimed
      const row = await this.table.selectFirst(pooledClause, [spec], session)
      return row && (await this.#update(session, row, members))
    })
  }

  override remove(id: string): Promise<boolean> {
    return this.changes.write(async (session) => {
      await session.run('DELETE FROM sandbox_secret WHERE sandbox = $1', [encodeText(id)])
      return await this.table.remove(session, id)
    })
  }

  async grantSecrets(id: string, names: readonly string[]): Promise<void> {
    await this.changes.write((session) => session.run(grantSql, [encodeText(id), names.map(encodeText)]))
  }

  async listGrantedSecrets(id: string): Promise<readonly string[]> {
    const rows = await this.db.query<[string]>(grantedSql, [encodeText(id)])
    return rows.map(([name]) => decodeText(name))
  }

  search(scope: Scope | AdminScope, query: PageQuery): Promise<RowPage<SandboxRow>> {
    return this.table.page(sandboxListing(scope), query)
  }

  async *iterateAll(): AsyncGenerator<SandboxRow> {
    for (let after = ''; ; ) {
      const rows = await this.table.select(`WHERE id > $1 ORDER BY id LIMIT ${batchRows}`, [after])
      yield* rows
      if (rows.length < batchRows) return
      after = rows.at(-1)?.id ?? after
    }
  }

  listRunning(owner: string | null): Promise<readonly SandboxRow[]> {
    const rest = `AND wanted = 'running' ORDER BY used_at, id`
    return owner === null
      ? this.table.select(`WHERE owner IS NULL ${rest}`, [])
      : this.table.select(`WHERE owner = $1 ${rest}`, [owner])
  }

  #update(session: Session, row: SandboxRow, members: Members): Promise<SandboxRow | undefined> {
    const isStatusChanged = members.status !== undefined && members.status !== row.status
    const changed_at = isStatusChanged ? this.#now() : row.changed_at
    return this.table.update(session, row.id, { ...members, changed_at })
  }
}

function matchesMembers(row: SandboxRow, where: Partial<SandboxRow>): boolean {
  return Object.entries(where).every(
    ([name, value]) => value === undefined || Reflect.get(row, name) === value,
  )
}
