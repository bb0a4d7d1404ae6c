import { join } from 'node:path'
import { type TableDefinition, tableDefinitions } from '../control-plane/stores/tables.ts'
import { PostgresDatabase, type Session, type Value } from '../postgres/database/database.ts'
import { decodeText, encodeText } from '../postgres/text/encoded-text.ts'
import { controlPlaneMigrations } from '../sqlite/control-plane/schema.ts'
import { Database, toBuffer } from '../sqlite/database/database.ts'
import { StoreMark } from '../sqlite/database/store-mark.ts'

interface Places {
  /** Data directory, which no server uses meanwhile. */
  readonly directory: string
  readonly url: string
}

type Row = readonly unknown[]

const settings = {
  synchronous: 'FULL',
  cacheBytes: 8 * 1024 * 1024,
  migrations: controlPlaneMigrations,
} as const
/** Statements take long with long tables, and so do the pauses between them, in which files are read. */
const beginSql = 'SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0'
const ordinalSql = ['pending_message', 'sandbox_event'].map(
  (table) =>
    `SELECT setval(pg_get_serial_sequence('${table}', 'ordinal'), greatest(1, (SELECT max(ordinal) FROM ${table})))`,
)

/** Copies the rows of a control plane in one transaction, and returns their number. */
export async function controlPlaneToPostgres({ directory, url }: Places): Promise<number> {
  using files = openFiles(directory)
  const db = new PostgresDatabase(url, () => {})
  try {
    return await db.transaction(beginSql, async (session) => {
      assertSameLedger((await session.run<[string]>('SELECT id FROM ledger')).rows[0]?.[0], files.ledger())
      await assertUnused(session)
      let count = 0
      for (const table of tableDefinitions) {
        await session.run(`DELETE FROM ${table.postgres}`)
        const rows = files.db.all(selectSql(table, table.sqlite))
        const placeholders = table.columns.map((_, index) => `$${index + 1}`).join(', ')
        const sql = `INSERT INTO ${table.postgres} (${names(table)}) VALUES (${placeholders})`
        for (const row of rows) await session.run(sql, toPostgres(table, row))
        count += rows.length
      }
      for (const sql of ordinalSql) await session.run(sql)
      return count
    })
  } finally {
    await db.close()
  }
}

/** The same back. */
export async function controlPlaneToFiles({ directory, url }: Places): Promise<number> {
  using files = openFiles(directory)
  const db = new PostgresDatabase(url, () => {})
  try {
    const copied = new Map<TableDefinition, readonly Row[]>()
    await db.transaction(beginSql, async (session) => {
      await assertUnused(session)
      for (const table of tableDefinitions)
        copied.set(table, (await session.run(selectSql(table, table.postgres))).rows)
    })
    const ledger = files.ledger()
    const isNew = files.db.all('SELECT id FROM sandbox LIMIT 1').length === 0
    const [incoming] = [...copied].find(([{ sqlite }]) => sqlite === 'ledger')?.[1] ?? []
    if (!isNew) assertSameLedger(ledger, String(incoming?.[0]))
    let count = 0
    new StoreMark(files.db.path).remove()
    files.db.transaction(() => {
      for (const [table, rows] of copied) {
        files.db.run(`DELETE FROM "${table.sqlite}"`)
        const placeholders = table.columns.map(() => '?').join(', ')
        const sql = `INSERT INTO "${table.sqlite}" (${names(table)}) VALUES (${placeholders})`
        for (const row of rows) files.db.run(sql, ...toSqlite(table, row))
        count += rows.length
      }
    })
    return count
  } finally {
    await db.close()
  }
}

function openFiles(directory: string) {
  const db = new Database(join(directory, 'control.db'), settings)
  return {
    db,
    ledger: () => db.get<[string]>('SELECT id FROM ledger')?.[0] ?? '',
    [Symbol.dispose]: () => db.close(),
  }
}

function assertSameLedger(target: string | undefined, source: string): void {
  if (target !== undefined && target !== source)
    throw new Error('The target has another control plane: use an empty one')
}

async function assertUnused(session: Session): Promise<void> {
  const { rows } = await session.run('SELECT 1 FROM replica WHERE expires_at > clock_timestamp()')
  if (rows.length > 0) throw new Error('The database is in use by a sandbox server: stop it first')
}

function names({ columns }: TableDefinition): string {
  return columns.map((column) => `"${column}"`).join(', ')
}

function selectSql(table: TableDefinition, name: string): string {
  return `SELECT ${names(table)} FROM "${name}" ORDER BY 1`
}

function toPostgres({ columns, bytes = [], flags = [] }: TableDefinition, row: Row): Value[] {
  return columns.map((column, index) => {
    const value = row[index]
    if (flags.includes(column)) return value === 1
    if (value instanceof Uint8Array) return toBuffer(value)
    if (typeof value === 'string') return bytes.includes(column) ? Buffer.from(value) : encodeText(value)
    return value as number | null
  })
}

function toSqlite({ columns, bytes = [] }: TableDefinition, row: Row) {
  return columns.map((column, index) => {
    const value = row[index]
    if (typeof value === 'boolean') return Number(value)
    if (Buffer.isBuffer(value)) return bytes.includes(column) ? value.toString() : value
    return typeof value === 'string' ? decodeText(value) : (value as number | null)
  })
}
