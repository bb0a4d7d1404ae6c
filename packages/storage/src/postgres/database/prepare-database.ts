import type { LogFunction } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
import pg from 'pg'
import type { PostgresDatabase, Session } from './database.ts'
import { isConnectionFailure } from './database-failure.ts'
import { keyFinerDigits } from './key-finer-digits.ts'
import { lockName } from './lock-name.ts'
import { finerVersion, migrations } from './schema.ts'

/** PostgreSQL 14. */
const minVersion = 140_000

type Settings = readonly [
  version: string,
  encoding: string,
  synchronous: string,
  schema: string | null,
  isStandby: boolean,
  readOnly: string,
]

const settingsSql = `SELECT current_setting('server_version_num'), current_setting('server_encoding'),
  current_setting('synchronous_commit'), current_schema(), pg_is_in_recovery(), current_setting('transaction_read_only')`
/** The connections that this role may have at once; limits below zero are none. */
const allowedSql = `SELECT least(
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
    CASE WHEN rolconnlimit >= 0 AND NOT rolsuper THEN rolconnlimit END,
    CASE WHEN datconnlimit >= 0 AND NOT rolsuper THEN datconnlimit END)
  FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()`

/**
 * Checks what durability depends on, then brings the tables up to date. Safe when several servers start at
 * once. Throws an Error for a database that cannot be used, such as one of a newer version.
 *
 * @param connections of this server at most, where it opens all of them itself.
 */
export async function prepareDatabase(
  db: PostgresDatabase,
  log: LogFunction,
  connections = 0,
): Promise<void> {
  const [settings] = await db.query<Settings>(settingsSql)
  checkSettings(settings)
  const [[allowed] = [connections]] = await db.query<[number]>(allowedSql)
  if (allowed < connections)
    log(
      'warn',
      'the database allows fewer connections than the server uses: it will refuse requests under load',
      {
        allowed,
        used: connections,
      },
    )
  await db.transaction(
    `SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(${lockName('schema')})`,
    migrate,
  )
  await createTrigramIndex(db, log)
}

function checkSettings(settings: Settings | undefined): void {
  const [version, encoding, synchronous, schema, isStandby, readOnly] = settings ?? []
  if (Number(version) < minVersion) throw new Error('PostgreSQL 14 or newer is needed')
  if (encoding !== 'UTF8') throw new Error(`The database has the encoding ${encoding}; UTF8 is needed`)
  if (schema == null)
    throw new Error('The search path of the database names no schema that exists: create one, or change it')
  if (isStandby)
    throw new Error('The database is a standby, which takes no writes: give the address of the primary')
  if (readOnly === 'on')
    throw new Error(
      'The database takes no writes: default_transaction_read_only is on for it, or for this role',
    )
  if (synchronous === 'off')
    throw new Error('The database acknowledges commits before they are durable: set synchronous_commit = on')
}

async function migrate(session: Session): Promise<void> {
  await session.run('CREATE TABLE IF NOT EXISTS slipway_schema (version integer NOT NULL)')
  const { rows } = await session.run<[number]>('SELECT version FROM slipway_schema')
  const version = rows[0]?.[0] ?? 0
  if (version > migrations.length)
    throw new Error(
      `The database has version ${version} of the tables, and this server knows ${migrations.length}: start the newer server`,
    )
  if (rows.length === 0) await session.run('INSERT INTO slipway_schema VALUES (0)')
  if (version === migrations.length) return
  try {
    for (const statements of migrations.slice(version)) {
      for (const statement of statements.split(';')) await session.run(statement)
    }
    if (version > 0 && version < finerVersion) await keyFinerDigits(session)
    await session.run('UPDATE slipway_schema SET version = $1', [migrations.length])
  } catch (cause) {
    // What a lost connection has left is rolled back by the database.
    if (isConnectionFailure(cause)) throw cause
    const reason = errorText(cause)
    throw new Error(
      `The tables of the database could not be migrated from version ${version} to ${migrations.length}: ${reason}. They are unchanged: start the version that wrote them, or remove the cause and start again.`,
      { cause },
    )
  }
}

const extensionSql = `SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
  WHERE extname = 'pg_trgm'`

/** An administrator may create the extension, or a later start may be allowed to. */
async function createTrigramIndex(db: PostgresDatabase, log: LogFunction): Promise<void> {
  let [extension] = await db.query<[string]>(extensionSql)
  if (extension === undefined) {
    await db.query('CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public').catch(ignoreRefusal)
    extension = (await db.query<[string]>(extensionSql))[0]
  }
  if (extension === undefined) {
    log('info', 'the extension pg_trgm is missing: text searches read all messages of a conversation', {})
    return
  }
  const operators = `${pg.escapeIdentifier(extension[0])}.gin_trgm_ops`
  await db.transaction(
    `SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(${lockName('schema')})`,
    (session) =>
      session.run(`CREATE INDEX IF NOT EXISTS message_trigram ON message USING gin (folded ${operators})`),
  )
}

function ignoreRefusal(error: unknown): void {
  if (!(error instanceof pg.DatabaseError)) throw error
}
