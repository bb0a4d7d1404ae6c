import { joinConditions, type Listing } from '../../control-plane/listings.ts'
import { decodeRowPageId, encodeRowPageId, type PagePosition } from '../../control-plane/row-page-id.ts'
import type { PageQuery, RowChange, RowPage } from '../../control-plane/rows.ts'
import { type Database, toBuffer, type Value } from '../database/database.ts'

/** Columns with another form than their value: 0 or 1, a JSON text, or not a member of rows. */
type ColumnForms = Readonly<Record<string, 'flag' | 'json' | 'hidden'>>

/**
 * Rows of one table, each with an id. Columns have the names of the members of rows. Write only in a
 * transaction.
 */
export class Table<R extends { readonly id: string }> {
  readonly #db: Database
  readonly #name: string
  readonly #columns: readonly string[]
  /** The columns that are members of rows. */
  readonly #members: readonly string[]
  readonly #forms: ColumnForms

  constructor(db: Database, name: string, forms: ColumnForms = {}) {
    this.#db = db
    this.#name = name
    this.#forms = forms
    this.#columns = db.all<[unknown, string]>(`PRAGMA table_info(${name})`).map(([, column]) => column)
    this.#members = this.#columns.filter((column) => forms[column] !== 'hidden')
  }

  /** False when a row has the id already; it does not change. */
  insert(row: R): boolean {
    const columns = this.#columns.filter((column) => Reflect.get(row, column) !== undefined)
    const placeholders = columns.map(() => '?').join(', ')
    const sql = `INSERT INTO ${this.#name} (${columns.join(', ')}) VALUES (${placeholders}) ON CONFLICT (id) DO NOTHING RETURNING 1`
    const values = columns.map((column) => toColumnValue(Reflect.get(row, column)))
    return this.#db.get(sql, ...values) !== undefined
  }

  get(id: string): R | undefined {
    return this.selectFirst('WHERE id = ?', id)
  }

  /** Rows in the selection and order of `clause`, which follows FROM. */
  select(clause: string, ...values: Value[]): R[] {
    const sql = `SELECT ${this.#members.join(', ')} FROM ${this.#name} ${clause}`
    return this.#db.all(sql, ...values).map((row) => this.#toRow(row))
  }

  selectFirst(clause: string, ...values: Value[]): R | undefined {
    return this.select(clause, ...values)[0]
  }

  /** Changes the given members and returns the new row. */
  update(id: string, members: RowChange<R>): R | undefined {
    const changed = this.#columns.filter(
      (column) => column !== 'id' && column !== 'created_at' && Reflect.get(members, column) !== undefined,
    )
    if (changed.length > 0) {
      const set = changed.map((column) => `${column} = ?`).join(', ')
      const values = changed.map((column) => toColumnValue(Reflect.get(members, column)))
      this.#db.run(`UPDATE ${this.#name} SET ${set} WHERE id = ?`, ...values, id)
    }
    return this.get(id)
  }

  /** False when there was none. */
  remove(id: string): boolean {
    return this.#db.get(`DELETE FROM ${this.#name} WHERE id = ? RETURNING 1`, id) !== undefined
  }

  /** A page continues after the position of the last row of the previous page. */
  page(listing: Listing, { limit, page_id }: PageQuery): RowPage<R> {
    const { by, index, isDescending } = listing
    const order = `${index}${isDescending ? '-' : '+'}`
    const { clause, values } = pageSql(listing, page_id ? decodeRowPageId(order, page_id) : undefined)
    const sql = `SELECT ${by}, ${this.#members.join(', ')} FROM ${this.#name} ${clause}`
    const found = this.#db.all<[string | number, ...unknown[]]>(sql, ...values, limit + 1)
    const items = found.slice(0, limit).map(([, ...row]) => this.#toRow(row))
    const last = items.at(-1)
    const value = found[limit - 1]?.[0]
    const isMore = found.length > limit && last !== undefined && value !== undefined
    return { items, next_page_id: isMore ? encodeRowPageId(order, { value, id: last.id }) : null }
  }

  count({ index, where, values }: Pick<Listing, 'index' | 'where' | 'values'>): number {
    const sql = `SELECT count(*) FROM ${this.#name} INDEXED BY ${index} WHERE ${joinConditions(where)}`
    return this.#db.get<[number]>(sql, ...values)?.[0] ?? 0
  }

  #toRow(values: readonly unknown[]): R {
    const members = this.#members.map((name, at) => [name, fromColumnValue(this.#forms[name], values[at])])
    return Object.fromEntries(members)
  }
}

/** What follows FROM, and its values except the limit. */
export function pageSql(
  { index, by, isDescending, where, values }: Listing,
  after: PagePosition | undefined,
): { readonly clause: string; readonly values: readonly Value[] } {
  const [order, sign] = isDescending ? ['DESC', '<'] : ['ASC', '>']
  const start = after === undefined ? [] : [`(${by}, id) ${sign} (?, ?)`]
  const clause = `INDEXED BY ${index} WHERE ${joinConditions([...where, ...start])} ORDER BY ${by} ${order}, id ${order} LIMIT ?`
  return { clause, values: after === undefined ? values : [...values, after.value, after.id] }
}

function toColumnValue(value: unknown): Value {
  if (typeof value === 'string' || typeof value === 'number' || value === null) return value
  if (typeof value === 'boolean') return value ? 1 : 0
  return Buffer.isBuffer(value) ? value : JSON.stringify(value)
}

function fromColumnValue(form: ColumnForms[string] | undefined, value: unknown): unknown {
  if (form === 'flag') return value === 1
  if (form === 'json') return JSON.parse(String(value))
  return value instanceof Uint8Array ? toBuffer(value) : value
}
