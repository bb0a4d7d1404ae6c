import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { firstGroup, groupParts, sqlTokens } from './sql-tokens.ts'

/** Runs a query; rows are arrays in column order. */
export type ReadRows = <R extends readonly unknown[]>(sql: string, ...values: SQLInputValue[]) => R[]

type SchemaRow = readonly [type: string, name: string, table: string, sql: string]

const schemaSql = `SELECT type, name, tbl_name, sql FROM sqlite_schema
  WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'`
const tableSql = `SELECT type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?`
const columnsSql = 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)'
const indexesSql = 'SELECT name, "unique", origin FROM pragma_index_list(?)'
const termsSql =
  'SELECT lower(name), "desc", lower(coll) FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno'
const foreignKeysSql = `SELECT id, seq, lower("table"), lower("from"), lower("to"), on_update, on_delete
  FROM pragma_foreign_key_list(?) ORDER BY id, seq`

const expectedSchemas = new WeakMap<readonly string[], ReadonlyMap<string, string>>()

/**
 * What the schema of a database lacks, or has in another form, of what these migrations make; undefined when
 * nothing. Any further table, index or trigger is allowed. Structures are compared, because versions write
 * the same schema with other white space and comments, and the file keeps the text of the version that made
 * it.
 */
export function compareSchema(read: ReadRows, migrations: readonly string[]): string | undefined {
  const expected = expectedSchemas.get(migrations) ?? structuresOf(migrations)
  expectedSchemas.set(migrations, expected)
  const present = new Map(read<SchemaRow>(schemaSql).map((row) => [nameOf(row), row]))
  for (const [name, structure] of expected) {
    const row = present.get(name)
    if (row === undefined) return `its ${name} is missing`
    if (structureOf(read, row) !== structure) return `its ${name} is not the one that was made`
  }
  return undefined
}

function structuresOf(migrations: readonly string[]): ReadonlyMap<string, string> {
  const db = new DatabaseSync(':memory:')
  try {
    db.exec(migrations.join(';'))
    const read: ReadRows = (sql, ...values) => {
      const statement = db.prepare(sql)
      statement.setReturnArrays(true)
      return statement.all(...values) as never
    }
    return new Map(read<SchemaRow>(schemaSql).map((row) => [nameOf(row), structureOf(read, row)]))
  } finally {
    db.close()
  }
}

function nameOf([type, name]: SchemaRow): string {
  return `${type} ${name}`
}

/** Equal for objects that do the same. */
function structureOf(read: ReadRows, row: SchemaRow): string {
  const [type, name, , sql] = row
  const tokens = sqlTokens(sql)
  if (type === 'index') return JSON.stringify(indexStructure(read, row, tokens))
  const [table] = type === 'table' ? read<[string, number, number]>(tableSql, name) : []
  // Nothing but its text tells what a trigger or a virtual table does.
  return JSON.stringify(
    table === undefined || table[0] === 'virtual' ? tokens : [table, tableStructure(read, name, tokens)],
  )
}

function indexStructure(read: ReadRows, [, name, table]: SchemaRow, tokens: readonly string[]) {
  const terms = read<[string | null, number, string]>(termsSql, name)
  const group = firstGroup(tokens)
  const parts = groupParts(group)
  const [list] = read<[string, number]>(indexesSql, table).filter(([index]) => index === name)
  return {
    table: table.toLowerCase(),
    isUnique: list?.[1],
    // The name of an expression is null.
    terms: terms.map((term, position) => (term[0] === null ? [parts[position], ...term] : term)),
    condition: tokens.slice(tokens.indexOf('(') + group.length),
  }
}

function tableStructure(read: ReadRows, name: string, tokens: readonly string[]) {
  type Column = [
    name: string,
    type: string,
    isNotNull: number,
    value: string | null,
    key: number,
    hidden: number,
  ]
  const columns = read<Column>(columnsSql, name).map(([column, type, isNotNull, value, ...rest]) => [
    column.toLowerCase(),
    type.toLowerCase(),
    isNotNull,
    value && sqlTokens(value),
    ...rest,
  ])
  const keys = read<[string, number, string]>(indexesSql, name)
    .filter(([, , origin]) => origin !== 'c')
    .map(([index, isUnique, origin]) => JSON.stringify([origin, isUnique, read(termsSql, index)]))
  const clauses = groupParts(firstGroup(tokens))
    .flatMap(clausesOf)
    .map((clause) => JSON.stringify(clause))
  return { columns, keys: keys.sort(), foreignKeys: read(foreignKeysSql, name), clauses: clauses.sort() }
}

/** What SQLite tells of a column or a constraint by its text alone. */
function clausesOf(part: readonly string[]): unknown[] {
  return part.flatMap((token, index) => {
    const next = part[index + 1]
    if (token === 'check') return [[token, firstGroup(part, index)]]
    if (token === 'as') return [[token, part[0], firstGroup(part, index), part.includes('stored')]]
    if (token === 'collate' || token === 'conflict' || token === 'initially') return [[token, part[0], next]]
    return token === 'autoincrement' ? [[token]] : []
  })
}
