import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Instant } from '@slipway/protocol'
import { sandboxListing } from '../../control-plane/listings.ts'
import type { AdminScope, PageQuery, RowPage, Scope } from '../../control-plane/rows.ts'
import type { SandboxRow, SandboxRows } from '../../control-plane/sandboxes.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { SqliteRows } from './rows.ts'
import { Table } from './table.ts'

type Change = Parameters<SandboxRows['update']>
type Members = Change[1]

const batchRows = 200
const grantSql = 'INSERT INTO sandbox_secret (sandbox, name) VALUES (?, ?) ON CONFLICT DO NOTHING'
export const grantedSql = 'SELECT name FROM sandbox_secret WHERE sandbox = ? ORDER BY name'
export const pooledClause = `INDEXED BY sandbox_pool WHERE spec = ? AND owner IS NULL AND wanted = 'running'
  AND status = 'RUNNING' ORDER BY created_at, id LIMIT 1`
export const runningClause = `INDEXED BY sandbox_running WHERE owner IS ? AND wanted = 'running' ORDER BY used_at, id`
export const keyClause = 'INDEXED BY sandbox_key WHERE key_hash = ?'
export const batchClause = `WHERE id > ? ORDER BY id LIMIT ${batchRows}`

/** SandboxRows on SQLite. */
export class SqliteSandboxRows extends SqliteRows<SandboxRow> implements SandboxRows {
  readonly #now: () => Instant

  constructor(db: Database, changes: ChangeQueue, now: () => Instant) {
    super(db, changes, new Table(db, 'sandbox'))
    this.#now = now
  }

  add(row: SandboxRow): ReturnType<SandboxRows['add']> {
    return this.changes.write(() => (this.table.insert(row) ? 'added' : 'known'))
  }

  async findByKeyHash(hash: string): Promise<SandboxRow | undefined> {
    return this.table.selectFirst(keyClause, hash)
  }

  override update(
    id: string,
    members: Members,
    { where = {} }: Change[2] = {},
  ): ReturnType<SandboxRows['update']> {
    return this.changes.write(() => {
      const row = this.table.get(id)
      return row && matchesMembers(row, where) ? this.#update(row, members) : undefined
    })
  }

  claim(spec: string, members: Members & { readonly owner: string }): Promise<SandboxRow | undefined> {
    return this.changes.write(() => {
      const { key_hash = null } = members
      const claimed = key_hash === null ? undefined : this.table.selectFirst(keyClause, key_hash)
      if (claimed !== undefined) return claimed
      const row = this.table.selectFirst(pooledClause, spec)
      return row && this.#update(row, members)
    })
  }

  override remove(id: string): Promise<boolean> {
    return this.changes.write(() => {
      this.db.run('DELETE FROM sandbox_secret WHERE sandbox = ?', id)
      return this.table.remove(id)
    })
  }

  grantSecrets(id: string, names: readonly string[]): Promise<void> {
    return this.changes.write(() => {
      for (const name of names) this.db.run(grantSql, id, name)
    })
  }

  async listGrantedSecrets(id: string): Promise<readonly string[]> {
    return this.db.all<[string]>(grantedSql, id).map(([name]) => name)
  }

  async search(scope: Scope | AdminScope, query: PageQuery): Promise<RowPage<SandboxRow>> {
    return this.table.page(sandboxListing(scope), query)
  }

  async *iterateAll(): AsyncGenerator<SandboxRow> {
    for (let after = ''; ; await nextTurn()) {
      const rows = this.table.select(batchClause, after)
      yield* rows
      if (rows.length < batchRows) return
      after = rows.at(-1)?.id ?? after
    }
  }

  async listRunning(owner: string | null): Promise<readonly SandboxRow[]> {
    return this.table.select(runningClause, owner)
  }

  #update(row: SandboxRow, members: Members): SandboxRow | undefined {
    const isStatusChanged = members.status !== undefined && members.status !== row.status
    const changed_at = isStatusChanged ? this.#now() : row.changed_at
    return this.table.update(row.id, { ...members, changed_at })
  }
}

function matchesMembers(row: SandboxRow, where: Partial<SandboxRow>): boolean {
  return Object.entries(where).every(
    ([name, value]) => value === undefined || Reflect.get(row, name) === value,
  )
}
