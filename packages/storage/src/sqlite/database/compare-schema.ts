import { DatabaseSync } from 'node:sqlite'

type SchemaRow = readonly [type: string, name: string, sql: string]

/** The tables and indexes of a database, for `compareSchema`. */
export const schemaSql = `SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'`

const expectedSchemas = new WeakMap<readonly string[], readonly SchemaRow[]>()

/**
 * What the schema of a database lacks, or has in another form, of what these migrations make; undefined when
 * nothing. Anything more is allowed.
 */
export function compareSchema(rows: readonly SchemaRow[], migrations: readonly string[]): string | undefined {
  const expected = expectedSchemas.get(migrations) ?? schemaOf(migrations)
  expectedSchemas.set(migrations, expected)
  const present = new Map(rows.map(([type, name, sql]) => [`${type} ${name}`, sql]))
  for (const [type, name, sql] of expected) {
    const found = present.get(`${type} ${name}`)
    if (found === undefined) return `its ${type} ${name} is missing`
    if (found !== sql) return `its ${type} ${name} is not the one that was made`
  }
  return undefined
}

function schemaOf(migrations: readonly string[]): SchemaRow[] {
  const db = new DatabaseSync(':memory:')
  try {
    db.exec(migrations.join(';'))
    const select = db.prepare(schemaSql)
    select.setReturnArrays(true)
    return select.all() as unknown as SchemaRow[]
  } finally {
    db.close()
  }
}
