import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Instant } from '@slipway/protocol'
import { allSandboxesListing, sandboxListing } from '../listings.ts'
import { ownedBy } from '../owned-by.ts'
import type { AdminScope, PageQuery, RowPage, Scope } from '../rows.ts'
import type { SandboxActor } from '../sandbox-events.ts'
import type { SandboxRow, SandboxRows, SandboxTotals } from '../sandboxes.ts'
import { addSandboxEvent, eventOfChange, removeOldEvents } from './sandbox-events.ts'
import { execute, query, queryColumn, type RowSession, type Work } from './session.ts'
import { TableRows } from './table-rows.ts'
import { addSandboxTime } from './usage.ts'

type Change = Parameters<SandboxRows['update']>
type Members = Change[1]

const batchRows = 200
const grantSql = 'INSERT INTO sandbox_secret (sandbox, name) VALUES (?, ?) ON CONFLICT DO NOTHING'
export const grantedSql = 'SELECT name FROM sandbox_secret WHERE sandbox = ? ORDER BY name'
export const pooledClause = `INDEXED BY sandbox_pool WHERE spec = ? AND owner IS NULL AND wanted = 'running'
  AND status = 'RUNNING' ORDER BY created_at, id LIMIT 100`
export const keyClause = 'INDEXED BY sandbox_key WHERE key_hash = ?'
export const batchClause = `WHERE id > ? ORDER BY id LIMIT ${batchRows}`

export function runningClause(owner: string | null): string {
  return `INDEXED BY sandbox_running WHERE ${ownedBy({ owner }).where} AND wanted = 'running' ORDER BY used_at, id`
}

export const runningBatchClause = `INDEXED BY sandbox_running WHERE wanted = 'running' AND id > ?
  ORDER BY id LIMIT ${batchRows}`

export class SandboxStore extends TableRows<SandboxRow> implements SandboxRows {
  readonly #now: () => Instant

  constructor(session: RowSession, now: () => Instant) {
    super(session, 'sandbox')
    this.#now = now
  }

  add(row: SandboxRow, by: SandboxActor = {}): ReturnType<SandboxRows['add']> {
    return this.session.write(() => this.#add(row, by))
  }

  findByKeyHash(hash: string): Promise<SandboxRow | undefined> {
    return this.session.read(this.table.selectFirst(keyClause, hash))
  }

  override update(
    id: string,
    members: Members,
    { where = {}, by = {} }: Change[2] = {},
  ): ReturnType<SandboxRows['update']> {
    return this.session.write(() => this.#update(id, members, where, by))
  }

  listPooled(spec: string): Promise<readonly SandboxRow[]> {
    return this.session.read(this.table.select(pooledClause, spec))
  }

  claim(...given: Parameters<SandboxRows['claim']>): Promise<SandboxRow | undefined> {
    return this.session.write(() => this.#claim(...given))
  }

  override remove(id: string): Promise<boolean> {
    return this.session.write(() => this.#remove(id))
  }

  grantSecrets(id: string, names: readonly string[]): Promise<void> {
    return this.session.write(function* () {
      for (const name of names) yield* execute(grantSql, id, name)
    })
  }

  listGrantedSecrets(id: string): Promise<readonly string[]> {
    return this.session.read(queryColumn<string>(grantedSql, id))
  }

  search(scope: Scope | AdminScope, query: PageQuery): Promise<RowPage<SandboxRow>> {
    return this.session.read(this.table.page(sandboxListing(scope), query))
  }

  searchAll(query: Parameters<SandboxRows['searchAll']>[0]): Promise<RowPage<SandboxRow>> {
    return this.session.read(this.table.page(allSandboxesListing(query, this.session.dialect.name), query))
  }

  async totals(ids: readonly string[]): Promise<ReadonlyMap<string, SandboxTotals>> {
    if (ids.length === 0) return new Map()
    const rows = await this.session.read(query<[string, number, number]>(totalsSql(ids.length), ...ids))
    return new Map(rows.map(([id, cost, conversations]) => [id, { cost, conversations }]))
  }

  iterateAll(): AsyncGenerator<SandboxRow> {
    return this.#iterate(batchClause)
  }

  iterateRunning(): AsyncGenerator<SandboxRow> {
    return this.#iterate(runningBatchClause)
  }

  async *#iterate(clause: string): AsyncGenerator<SandboxRow> {
    for (let after = ''; ; await nextTurn()) {
      const rows = await this.session.read(this.table.select(clause, after))
      yield* rows
      if (rows.length < batchRows) return
      after = rows.at(-1)?.id ?? after
    }
  }

  listRunning(owner: string | null): Promise<readonly SandboxRow[]> {
    return this.session.read(this.table.select(runningClause(owner), ...ownedBy({ owner }).values))
  }

  *#add(row: SandboxRow, by: SandboxActor): Work<'added' | 'known'> {
    if (!(yield* this.table.insert(row))) return 'known'
    // As if it had been claimed.
    yield* this.#addEvent({ ...row, owner: null }, row, by)
    return 'added'
  }

  *#update(
    id: string,
    members: Members,
    where: Partial<SandboxRow>,
    by: SandboxActor,
  ): Work<SandboxRow | undefined> {
    const row = yield* this.table.get(id)
    return row && matchesMembers(row, where) ? yield* this.#change(row, members, by) : undefined
  }

  *#claim(...[id, members, listed]: Parameters<SandboxRows['claim']>): Work<SandboxRow | undefined> {
    const row = yield* this.table.get(id)
    if (row === undefined || Buffer.compare(row.sealed, members.sealed) === 0) return row
    const isPooled = row.owner === null && row.wanted === 'running' && row.status === 'RUNNING'
    const isAsListed = listed === undefined || Buffer.compare(row.sealed, listed) === 0
    return isPooled && isAsListed
      ? yield* this.#change(row, members, { actor: actorOf(members.owner) })
      : undefined
  }

  *#remove(id: string): Work<boolean> {
    const row = yield* this.table.get(id)
    if (row !== undefined) {
      yield* addSandboxTime(row, this.#now())
      yield* this.#addEvent(row, row, { kind: 'deleted' })
      yield* removeOldEvents(this.#now())
    }
    yield* execute('DELETE FROM sandbox_secret WHERE sandbox = ?', id)
    return yield* this.table.remove(id)
  }

  *#change(row: SandboxRow, members: Members, by: SandboxActor): Work<SandboxRow | undefined> {
    const isClaimed = row.owner === null && typeof members.owner === 'string'
    const isOther = isClaimed || (members.status !== undefined && members.status !== row.status)
    const changed_at = isOther ? this.#now() : row.changed_at
    if (isOther) yield* addSandboxTime(row, changed_at)
    const changed = yield* this.table.update(row.id, { ...members, changed_at })
    if (changed !== undefined) yield* this.#addEvent(row, changed, by)
    return changed
  }

  *#addEvent(before: SandboxRow, after: SandboxRow, by: SandboxActor): Work<void> {
    const event = eventOfChange(before, after, by, this.#now())
    if (event !== undefined) yield* addSandboxEvent(event)
  }
}

/** How events name a user. */
export function actorOf(owner: string | null): string | null {
  return owner === null ? null : `user:${owner}`
}

export function totalsSql(count: number): string {
  return `SELECT id, cost, (SELECT count(*) FROM app_conversation INDEXED BY app_conversation_sandbox WHERE app_conversation.sandbox = sandbox.id)
    FROM sandbox WHERE id IN (${Array.from({ length: count }, () => '?').join(', ')})`
}

function matchesMembers(row: SandboxRow, where: Partial<SandboxRow>): boolean {
  return Object.entries(where).every(
    ([name, value]) => value === undefined || Reflect.get(row, name) === value,
  )
}
