import type { PageQuery, RowPage } from '../../control-plane/control-plane-store.ts'
import { type Database, toBuffer, type Value } from '../database/database.ts'
import { decodePageId, encodePageId, type PagePosition } from './page-id.ts'

/** How a member stands in its column. */
type ColumnEncoding<T> = T extends boolean ? 'flag' : T extends readonly unknown[] ? 'json' : 'plain'

/** The columns of a table: the members of its rows, under their names. */
export type Columns<R> = {
  readonly [Name in keyof R]-?: R[Name] extends Buffer ? 'plain' : ColumnEncoding<R[Name]>
}

/** One order of a table, and which of its rows. */
export interface Listing<R> {
  /** The index that has the order. */
  readonly index: string
  /** Rows are in order of this member, and of their ids where it is equal. */
  readonly by: keyof R & string
  readonly isDescending: boolean
  /** Conditions in SQL, all of which hold, and their values. */
  readonly where: readonly string[]
  readonly values: readonly Value[]
}

/** Rows of one table, each with an id. Columns have the names of the row's members. Writing is for inside a transaction. */
export class Table<R extends { readonly id: string }> {
  readonly #db: Database
  readonly #name: string
  readonly #columns: Columns<R>
  readonly #names: readonly string[]

  constructor(db: Database, name: string, columns: Columns<R>) {
    this.#db = db
    this.#name = name
    this.#columns = columns
    this.#names = Object.keys(columns)
  }

  /** False when a row has the id already; it is left as it is. */
  insert(row: R): boolean {
    const names = this.#names.join(', ')
    const placeholders = this.#names.map(() => '?').join(', ')
    const sql = `INSERT INTO ${this.#name} (${names}) VALUES (${placeholders}) ON CONFLICT (id) DO NOTHING RETURNING 1`
    const values = this.#names.map((name) => toColumnValue(Reflect.get(row, name)))
    return this.#db.get(sql, ...values) !== undefined
  }

  get(id: string): R | undefined {
    return this.selectFirst('WHERE id = ?', id)
  }

  /** In the order asked for, undefined for those that are not there. */
  getMany(ids: readonly string[]): (R | undefined)[] {
    return ids.map((id) => this.get(id))
  }

  /** Rows as SQL's `tail` (what follows FROM) selects and orders them. */
  select(clause: string, ...values: Value[]): R[] {
    const sql = `SELECT ${this.#names.join(', ')} FROM ${this.#name} ${clause}`
    return this.#db.all(sql, ...values).map((row) => this.#toRow(row))
  }

  selectFirst(clause: string, ...values: Value[]): R | undefined {
    return this.select(clause, ...values)[0]
  }

  /** Changes the members given (all but `id` and `created_at`) and answers the row as it is then. */
  update(id: string, members: Partial<R>): R | undefined {
    const changed = this.#names.filter(
      (name) => name !== 'id' && name !== 'created_at' && Reflect.get(members, name) !== undefined,
    )
    if (changed.length > 0) {
      const set = changed.map((name) => `${name} = ?`).join(', ')
      const values = changed.map((name) => toColumnValue(Reflect.get(members, name)))
      this.#db.run(`UPDATE ${this.#name} SET ${set} WHERE id = ?`, ...values, id)
    }
    return this.get(id)
  }

  /** False when it was not there. */
  remove(id: string): boolean {
    return this.#db.get(`DELETE FROM ${this.#name} WHERE id = ? RETURNING 1`, id) !== undefined
  }

  /** A page goes on after the last row of the one before, wherever that row is now. */
  page(listing: Listing<R>, { limit, page_id }: PageQuery): RowPage<R> {
    const { by, index, isDescending } = listing
    const order = `${index}${isDescending ? '-' : '+'}`
    const after = page_id ? decodePageId(order, page_id) : undefined
    const { tail: clause, values } = pageSql(listing, after)
    const items = this.select(clause, ...values, limit + 1)
    const isMore = items.length > limit
    if (isMore) items.length = limit
    const last = isMore ? items.at(-1) : undefined
    const next = last && encodePageId(order, { value: toOrderValue(last[by]), id: last.id })
    return { items, next_page_id: next ?? null }
  }

  count({ index, where, values }: Pick<Listing<R>, 'index' | 'where' | 'values'>): number {
    const sql = `SELECT count(*) FROM ${this.#name} INDEXED BY ${index} WHERE ${joinConditions(where)}`
    return this.#db.get<[number]>(sql, ...values)?.[0] ?? 0
  }

  #toRow(values: readonly unknown[]): R {
    const members = Object.entries<string>(this.#columns).map(([name, form], i) => [
      name,
      fromColumnValue(form, values[i]),
    ])
    return Object.fromEntries(members) as R
  }
}

/** What follows FROM, and its values but for the limit. */
export function pageSql<R>(
  { index, by, isDescending, where, values }: Listing<R>,
  after: PagePosition | undefined,
): { readonly tail: string; readonly values: readonly Value[] } {
  const [order, sign] = isDescending ? ['DESC', '<'] : ['ASC', '>']
  const start = after === undefined ? [] : [`(${by}, id) ${sign} (?, ?)`]
  const clause = `INDEXED BY ${index} WHERE ${joinConditions([...where, ...start])} ORDER BY ${by} ${order}, id ${order} LIMIT ?`
  return { tail: clause, values: after === undefined ? values : [...values, after.value, after.id] }
}

function joinConditions(conditions: readonly string[]): string {
  return conditions.length === 0 ? '1' : conditions.join(' AND ')
}

function toOrderValue(value: unknown): string | number {
  if (typeof value === 'string' || typeof value === 'number') return value
  throw new Error('pages are ordered by texts and numbers')
}

function toColumnValue(value: unknown): Value {
  if (typeof value === 'string' || typeof value === 'number' || value === null) return value
  if (typeof value === 'boolean') return value ? 1 : 0
  return Buffer.isBuffer(value) ? value : JSON.stringify(value)
}

function fromColumnValue(form: string, value: unknown): unknown {
  if (form === 'flag') return value === 1
  if (form === 'json') return JSON.parse(String(value))
  return value instanceof Uint8Array ? toBuffer(value) : value
}
