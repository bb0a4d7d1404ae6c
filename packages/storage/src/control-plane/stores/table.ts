import { must } from '@slipway/protocol'
import { unknownPageId } from '../../paging/page-id-codec.ts'
import { joinConditions, type Listing } from '../listings.ts'
import { decodeRowPageId, encodeRowPageId } from '../row-page-id.ts'
import type { PageQuery, RowChange, RowPage } from '../rows.ts'
import { change, type Dialect, query, queryNumber, type Touched, type Value, type Work } from './session.ts'
import { type TableDefinition, tableDefinitions } from './tables.ts'

/** Rows of one table, each with an id. Columns have the names of the members of rows. */
export class Table<R extends { readonly id: string }> {
  readonly #dialect: Dialect
  readonly #definition: TableDefinition
  readonly #name: string
  /** The columns that are members of rows. */
  readonly #members: readonly string[]

  /** `name`: the one in SQLite. */
  constructor(dialect: Dialect, name: string) {
    this.#dialect = dialect
    this.#definition = must(
      tableDefinitions.find(({ sqlite }) => sqlite === name),
      'the table',
    )
    this.#name = this.#definition[dialect.name]
    const { columns, hidden = [] } = this.#definition
    this.#members = columns.filter((column) => !hidden.includes(column))
  }

  /** False when a row has the id already; it does not change. */
  *insert(row: R): Work<boolean> {
    const columns = this.#definition.columns.filter((column) => Reflect.get(row, column) !== undefined)
    const placeholders = columns.map(() => '?').join(', ')
    const sql = `INSERT INTO ${this.#name} (${list(columns)}) VALUES (${placeholders}) ON CONFLICT (id) DO NOTHING RETURNING 1`
    return (yield* change(this.#touched(row.id), sql, ...columnValues(row, columns))).length > 0
  }

  /** Rows in the selection and order of `clause`, which follows FROM. */
  *select(clause: string, ...values: readonly Value[]): Work<readonly R[]> {
    const rows = yield* query(`SELECT ${list(this.#members)} FROM ${this.#name} ${clause}`, ...values)
    return rows.map((row) => this.#toRow(row))
  }

  *selectFirst(clause: string, ...values: readonly Value[]): Work<R | undefined> {
    return (yield* this.select(clause, ...values))[0]
  }

  get(id: string): Work<R | undefined> {
    return this.selectFirst('WHERE id = ?', id)
  }

  /** In the order of the ids. */
  *getAll(ids: readonly string[]): Work<(R | undefined)[]> {
    if (ids.length === 0) return []
    const rows = yield* this.select(`WHERE id IN (${ids.map(() => '?').join(', ')})`, ...ids)
    const byId = new Map(rows.map((row) => [row.id, row]))
    return ids.map((id) => byId.get(id))
  }

  /** Changes the given members and returns the new row. */
  *update(id: string, members: RowChange<R>): Work<R | undefined> {
    const changed = this.#definition.columns.filter(
      (column) => column !== 'id' && column !== 'created_at' && Reflect.get(members, column) !== undefined,
    )
    if (changed.length === 0) return yield* this.get(id)
    const set = changed.map((column) => `"${column}" = ?`).join(', ')
    const sql = `UPDATE ${this.#name} SET ${set} WHERE id = ? RETURNING ${list(this.#members)}`
    const [row] = yield* change(this.#touched(id), sql, ...columnValues(members, changed), id)
    return row && this.#toRow(row)
  }

  /** False when there was none. */
  *remove(id: string): Work<boolean> {
    const sql = `DELETE FROM ${this.#name} WHERE id = ? RETURNING 1`
    return (yield* change(this.#touched(id), sql, id)).length > 0
  }

  /** A page continues after the position of the last row of the previous page. */
  *page(listing: Listing, { limit, page_id }: PageQuery): Work<RowPage<R>> {
    const { by, index, isDescending } = listing
    const order = `${index}${isDescending ? '-' : '+'}`
    const after = page_id ? decodeRowPageId(order, page_id) : undefined
    const start = after && { id: after.id, value: this.#positionValue(by, after.value) }
    const { clause, values } = pageSql(listing, start)
    const sql = `SELECT ${by}, ${list(this.#members)} FROM ${this.#name} ${clause}`
    const found = yield* query<[string | number | Buffer, ...unknown[]]>(sql, ...values, limit + 1)
    const items = found.slice(0, limit).map(([, ...row]) => this.#toRow(row))
    const last = items.at(-1)
    const key = found[limit - 1]?.[0]
    const value = Buffer.isBuffer(key) ? key.toString() : key
    const isMore = found.length > limit && last !== undefined && value !== undefined
    return { items, next_page_id: isMore ? encodeRowPageId(order, { value, id: last.id }) : null }
  }

  count({ index, where, values }: Pick<Listing, 'index' | 'where' | 'values'>): Work<number> {
    const sql = `SELECT count(*) FROM ${this.#name} INDEXED BY ${index} WHERE ${joinConditions(where)}`
    return queryNumber(sql, ...values)
  }

  #touched(id: string): Touched {
    return { table: this.#definition.sqlite, where: { id } }
  }

  /** Orders are by folded titles or by numbers: a page id with a text is none of the others. */
  #positionValue(by: string, value: string | number): Value {
    if (by === 'title_key') return this.#dialect.titleSearch.toValue(String(value))
    if (typeof value === 'string') throw unknownPageId()
    return value
  }

  #toRow(values: readonly unknown[]): R {
    const { flags = [], json = [] } = this.#definition
    const members = this.#members.map((name, at) => {
      const value = values[at]
      if (flags.includes(name)) return [name, Boolean(value)]
      return [name, json.includes(name) ? JSON.parse(String(value)) : value]
    })
    return Object.fromEntries(members)
  }
}

/** What follows FROM, and its values except the limit. */
export function pageSql(
  { index, by, isDescending, where, values }: Listing,
  after: { readonly value: Value; readonly id: string } | undefined,
): { readonly clause: string; readonly values: readonly Value[] } {
  const [order, sign] = isDescending ? ['DESC', '<'] : ['ASC', '>']
  const start = after === undefined ? [] : [`(${by}, id) ${sign} (?, ?)`]
  const clause = `INDEXED BY ${index} WHERE ${joinConditions([...where, ...start])} ORDER BY ${by} ${order}, id ${order} LIMIT ?`
  return { clause, values: after === undefined ? values : [...values, after.value, after.id] }
}

function list(columns: readonly string[]): string {
  return columns.map((column) => `"${column}"`).join(', ')
}

function columnValues(row: object, columns: readonly string[]): Value[] {
  return columns.map((column) => {
    const value: unknown = Reflect.get(row, column)
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
    return value === null || Buffer.isBuffer(value) ? value : JSON.stringify(value)
  })
}
