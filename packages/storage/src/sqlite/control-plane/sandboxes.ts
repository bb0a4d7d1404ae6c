import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Instant } from '@slipway/protocol'
import type {
  PageQuery,
  RowPage,
  SandboxRow,
  SandboxRows,
  Scope,
} from '../../control-plane/control-plane-store.ts'
import { ownedBy } from '../../control-plane/owned-by.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { type Listing, Table } from './table.ts'

type Change = Parameters<SandboxRows['update']>
type Members = Change[1]

const batchRows = 200
export const pooledClause = `INDEXED BY sandbox_pool WHERE spec = ? AND owner IS NULL AND wanted = 'running'
  AND status = 'RUNNING' ORDER BY created_at, id LIMIT 1`
export const runningClause = `INDEXED BY sandbox_running WHERE owner IS ? AND wanted = 'running' ORDER BY used_at, id`
export const keyClause = 'INDEXED BY sandbox_key WHERE key_hash = ?'
export const batchClause = `WHERE id > ? ORDER BY id LIMIT ${batchRows}`

/** SandboxRows on SQLite. */
export class SqliteSandboxRows implements SandboxRows {
  readonly #changes: ChangeQueue
  readonly #now: () => Instant
  readonly #table: Table<SandboxRow>

  constructor(db: Database, changes: ChangeQueue, now: () => Instant) {
    this.#changes = changes
    this.#now = now
    this.#table = new Table<SandboxRow>(db, 'sandbox', {
      id: 'plain',
      owner: 'plain',
      org: 'plain',
      spec: 'plain',
      backend: 'plain',
      wanted: 'plain',
      status: 'plain',
      detail: 'plain',
      key_hash: 'plain',
      sealed: 'plain',
      epoch: 'plain',
      addresses: 'plain',
      created_at: 'plain',
      changed_at: 'plain',
      used_at: 'plain',
    })
  }

  add(row: SandboxRow): ReturnType<SandboxRows['add']> {
    return this.#changes.write(() => (this.#table.insert(row) ? 'added' : 'known'))
  }

  async get(ids: readonly string[]): Promise<(SandboxRow | undefined)[]> {
    return this.#table.getMany(ids)
  }

  async findByKeyHash(hash: string): Promise<SandboxRow | undefined> {
    return this.#table.selectFirst(keyClause, hash)
  }

  update(id: string, members: Members, { where = {} }: Change[2] = {}): ReturnType<SandboxRows['update']> {
    return this.#changes.write(() => {
      const row = this.#table.get(id)
      if (row === undefined || !matchesMembers(row, where)) return undefined
      return this.#update(row, members)
    })
  }

  claim(spec: string, members: Members & { readonly owner: string }): Promise<SandboxRow | undefined> {
    return this.#changes.write(() => {
      const row = this.#table.selectFirst(pooledClause, spec)
      return row && this.#update(row, members)
    })
  }

  async search(scope: Scope, query: PageQuery): Promise<RowPage<SandboxRow>> {
    return this.#table.page(sandboxListing(scope), query)
  }

  async *iterateAll(): AsyncGenerator<SandboxRow> {
    for (let after = ''; ; await nextTurn()) {
      const rows = this.#table.select(batchClause, after)
      yield* rows
      if (rows.length < batchRows) return
      after = rows.at(-1)?.id ?? after
    }
  }

  async listRunning(owner: string | null): Promise<readonly SandboxRow[]> {
    return this.#table.select(runningClause, owner)
  }

  remove(id: string): Promise<boolean> {
    return this.#changes.write(() => this.#table.remove(id))
  }

  #update(row: SandboxRow, members: Members): SandboxRow | undefined {
    const isStatusChanged = members.status !== undefined && members.status !== row.status
    const changed_at = isStatusChanged ? this.#now() : row.changed_at
    return this.#table.update(row.id, { ...members, changed_at })
  }
}

/** The sandboxes that are shown, in their order. */
export function sandboxListing(scope: Scope): Listing<SandboxRow> {
  const { where, values } = ownedBy(scope)
  const visible = [...where, `wanted <> 'gone'`]
  return { index: 'sandbox_created', by: 'created_at', isDescending: true, where: visible, values }
}

function matchesMembers(row: SandboxRow, where: Partial<SandboxRow>): boolean {
  return Object.entries(where).every(
    ([name, value]) => value === undefined || Reflect.get(row, name) === value,
  )
}
