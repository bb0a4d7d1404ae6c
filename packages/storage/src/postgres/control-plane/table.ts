import { joinConditions, type Listing } from '../../control-plane/listings.ts'
import { decodeRowPageId, encodeRowPageId, type PagePosition } from '../../control-plane/row-page-id.ts'
import type { PageQuery, RowChange, RowPage } from '../../control-plane/rows.ts'
import { unknownPageId } from '../../paging/page-id-codec.ts'
import type { PostgresDatabase, Session, Value } from '../database/database.ts'
import { decodeText, encodeText } from './text.ts'

/** Columns that are not members of rows, and those that are JSON texts. */
type ColumnForms = Readonly<Record<string, 'json' | 'hidden'>>

/** Statements, in a transaction or outside. */
type Run = <Row extends readonly unknown[]>(sql: string, values: readonly Value[]) => Promise<readonly Row[]>

/** Rows of one table, each with an id. Columns have the names of the members of rows. */
export class Table<R extends { readonly id: string }> {
  readonly #db: PostgresDatabase
  readonly #name: string
  readonly #columns: readonly string[]
  readonly #members: readonly string[]
  readonly #forms: ColumnForms

  /** `columns`: all that a row writes. */
  constructor(db: PostgresDatabase, name: string, columns: readonly string[], forms: ColumnForms = {}) {
    this.#db = db
    this.#name = name
    this.#forms = forms
    this.#columns = columns
    this.#members = columns.filter((column) => forms[column] !== 'hidden')
  }

  /** False when a row has the id already; it does not change. */
  async insert(session: Session, row: R): Promise<boolean> {
    const columns = this.#columns.filter((column) => Reflect.get(row, column) !== undefined)
    const placeholders = columns.map((_, index) => `$${index + 1}`).join(', ')
    const sql = `INSERT INTO ${this.#name} (${list(columns)}) VALUES (${placeholders}) ON CONFLICT (id) DO NOTHING`
    const values = columns.map((column) => toColumnValue(Reflect.get(row, column)))
    return (await session.run(sql, values)).rowCount > 0
  }

  /** Rows in the selection and order of `clause`, which follows FROM; outside of transactions without one. */
  async select(clause: string, values: readonly Value[], session?: Session): Promise<R[]> {
    const sql = `SELECT ${this.#selected()} FROM ${this.#name} ${clause}`
    return (await this.#run(session)(sql, values.map(encodeValue))).map((row) => this.#toRow(row))
  }

  async selectFirst(clause: string, values: readonly Value[], session?: Session): Promise<R | undefined> {
    return (await this.select(clause, values, session))[0]
  }

  get(id: string, session?: Session): Promise<R | undefined> {
    return this.selectFirst('WHERE id = $1', [id], session)
  }

  /** In the order of the ids. */
  async getAll(ids: readonly string[]): Promise<(R | undefined)[]> {
    if (ids.length === 0) return []
    const rows = await this.select('WHERE id = ANY($1::text[])', [ids.map(encodeText)])
    const byId = new Map(rows.map((row) => [row.id, row]))
    return ids.map((id) => byId.get(id))
  }

  /** Changes the given members and returns the new row. */
  async update(session: Session, id: string, members: RowChange<R>): Promise<R | undefined> {
    const changed = this.#columns.filter(
      (column) => column !== 'id' && column !== 'created_at' && Reflect.get(members, column) !== undefined,
    )
    if (changed.length === 0) return await this.get(id, session)
    const set = changed.map((column, index) => `"${column}" = $${index + 2}`).join(', ')
    const values = changed.map((column) => toColumnValue(Reflect.get(members, column)))
    const sql = `UPDATE ${this.#name} SET ${set} WHERE id = $1 RETURNING ${this.#selected()}`
    const [row] = await this.#run(session)(sql, [encodeText(id), ...values])
    return row && this.#toRow(row)
  }

  /** False when there was none. */
  async remove(session: Session, id: string): Promise<boolean> {
    return (await session.run(`DELETE FROM ${this.#name} WHERE id = $1`, [encodeText(id)])).rowCount > 0
  }

  /** A page continues after the position of the last row of the previous page. */
  async page(listing: Listing, { limit, page_id }: PageQuery): Promise<RowPage<R>> {
    const { by, index, isDescending } = listing
    const order = `${index}${isDescending ? '-' : '+'}`
    const { clause, values } = pageSql(listing, page_id ? decodeRowPageId(order, page_id) : undefined)
    const sql = `SELECT ${by}, ${this.#selected()} FROM ${this.#name} ${clause}`
    const found = await this.#db.query<[string | number | Buffer, ...unknown[]]>(sql, [...values, limit + 1])
    const items = found.slice(0, limit).map(([, ...row]) => this.#toRow(row))
    const last = items.at(-1)
    const key = found[limit - 1]?.[0]
    const value = Buffer.isBuffer(key) ? key.toString() : key
    const isMore = found.length > limit && last !== undefined && value !== undefined
    return { items, next_page_id: isMore ? encodeRowPageId(order, { value, id: last.id }) : null }
  }

  async count({ where, values }: Pick<Listing, 'where' | 'values'>): Promise<number> {
    const sql = `SELECT count(*) FROM ${this.#name} WHERE ${numberPlaceholders(joinConditions(where))}`
    return (await this.#db.query<[number]>(sql, values.map(encodeValue)))[0]?.[0] ?? 0
  }

  #run(session: Session | undefined): Run {
    if (session === undefined) return (sql, values) => this.#db.query(sql, values)
    return async (sql, values) => (await session.run<never>(sql, values)).rows
  }

  #selected(): string {
    return this.#members.map((column) => `${this.#name}."${column}"`).join(', ')
  }

  #toRow(values: readonly unknown[]): R {
    const members = this.#members.map((name, at) => [name, fromColumnValue(this.#forms[name], values[at])])
    return Object.fromEntries(members)
  }
}

/** What follows FROM, and its values except the limit. */
function pageSql(
  { by, isDescending, where, values }: Listing,
  after: PagePosition | undefined,
): { readonly clause: string; readonly values: readonly Value[] } {
  const [order, sign] = isDescending ? ['DESC', '<'] : ['ASC', '>']
  const start = after === undefined ? [] : [`(${by}, id) ${sign} (?, ?)`]
  const conditions = joinConditions([...where, ...start])
  const clause = `WHERE ${conditions} ORDER BY ${by} ${order}, id ${order} LIMIT ?`
  const position =
    after === undefined
      ? []
      : [by === 'title_key' ? Buffer.from(String(after.value)) : pageValue(after.value), after.id]
  return { clause: numberPlaceholders(clause), values: [...values, ...position].map(encodeValue) }
}

/** The other orders are by numbers: a page id with a text is not one of them. */
function pageValue(value: string | number): number {
  if (typeof value === 'string') throw unknownPageId()
  return value
}

function numberPlaceholders(sql: string): string {
  let count = 0
  return sql.replace(/\?/g, () => `$${++count}`)
}

function list(columns: readonly string[]): string {
  return columns.map((column) => `"${column}"`).join(', ')
}

function encodeValue(value: Value): Value {
  return typeof value === 'string' ? encodeText(value) : value
}

function toColumnValue(value: unknown): Value {
  if (typeof value === 'string') return encodeText(value)
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return value
  return Buffer.isBuffer(value) ? value : JSON.stringify(value)
}

function fromColumnValue(form: ColumnForms[string] | undefined, value: unknown): unknown {
  if (form === 'json') return JSON.parse(String(value))
  return typeof value === 'string' ? decodeText(value) : value
}
