import { chmodSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { copyDatabase, openFile, rowsOf, syncFile } from './open-file.ts'
import { dropUnpublished } from './unpublished.ts'

/**
 * Backups of log.db. A full one is a copy; an increment has the events after the heads of the step before it
 * with their blobs, and all other tables whole. Each has the table `backup_tail`: the last event of each conversation, by which
 * the next step knows that the log continues this one.
 */

/** What a step of a backup has of the log. */
export interface LogStep {
  readonly kind: 'full' | 'increment'
  /** Id of the log. */
  readonly store: string
  /** Schema version; an increment has that of the step before. */
  readonly schema: number
  readonly conversations: number
  /** Events that this file has. */
  readonly events: number
}

type Tail = readonly [ordinal: number, head: number, id: string, instant: number]

const tailTable = `CREATE TABLE backup_tail (ordinal INTEGER PRIMARY KEY, head INTEGER, id TEXT, instant INTEGER)`
const selectTails = (schema: string) =>
  `SELECT c.ordinal, c.head, e.id, e.instant FROM ${schema}.conversation c JOIN ${schema}.event e
   ON e.row = c.ordinal * ${positionsPerConversation} + c.head WHERE c.is_visible = 1 AND c.head > 0`
/** Tables that an increment has whole; those of SQLite and of backups left out. */
const selectTables = (schema: string) =>
  `SELECT name FROM ${schema}.sqlite_master WHERE type = 'table' AND name NOT IN ('event', 'event_blob', 'blob')
   AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'backup\\_%' ESCAPE '\\'`

interface WriteOptions {
  /** log.db; a server may write it meanwhile. */
  readonly source: string
  /** A file that does not exist. */
  readonly target: string
  /** Leave out the sealed secrets of conversations, and sealed documents. */
  readonly isWithoutSecrets: boolean
}

/** Writes a copy of the log as readers see it. */
export function writeFullBackup({ source, target, isWithoutSecrets }: WriteOptions): LogStep {
  copyDatabase(source, target)
  using db = openFile(target, { readOnly: false })
  db.exec('PRAGMA secure_delete = ON; BEGIN')
  dropUnpublished(db)
  if (isWithoutSecrets) removeSealed(db)
  db.exec(`${tailTable}; INSERT INTO backup_tail ${selectTails('main')}; COMMIT`)
  return readStep(db, 'full')
}

/**
 * Writes what the log has more than the step before, a file of `previous`. Undefined where only a full backup
 * will do, because the schema has changed. Throws an Error when the log is not a continuation of the step
 * before.
 */
export function writeIncrement({
  source,
  target,
  previous,
  isWithoutSecrets,
}: WriteOptions & { readonly previous: string }): LogStep | undefined {
  const db = new DatabaseSync(target)
  let isDone = false
  try {
    chmodSync(target, 0o600)
    db.exec('PRAGMA secure_delete = ON')
    attach(db, source, 'src')
    attach(db, previous, 'prev')
    const schema = (name: string) => rowsOf<[number]>(db, `PRAGMA ${name}.user_version`)[0]?.[0] ?? 0
    if (schema('src') !== schema('prev')) return undefined
    db.exec(`BEGIN; CREATE TABLE event AS SELECT * FROM src.event WHERE 0`)
    const heads = checkContinuation(db, source)
    copyNewEvents(db, heads)
    if (hasBlobs(db, 'src'))
      db.exec(`CREATE TABLE event_blob AS SELECT * FROM src.event_blob WHERE row IN (SELECT row FROM main.event);
        CREATE TABLE blob AS SELECT * FROM src.blob WHERE number IN (SELECT blob FROM main.event_blob)`)
    for (const [name] of rowsOf<[string]>(db, selectTables('src')))
      db.exec(`CREATE TABLE "${name}" AS SELECT * FROM src."${name}"`)
    db.exec(`CREATE TABLE backup_sequence AS SELECT * FROM src.sqlite_sequence;
      DELETE FROM conversation WHERE is_visible = 0; DELETE FROM leftover;
      ${tailTable}; INSERT INTO backup_tail ${selectTails('src')}`)
    if (isWithoutSecrets) removeSealed(db)
    db.exec(`PRAGMA user_version = ${schema('src')}; COMMIT`)
    isDone = true
    return readStep(db, 'increment')
  } finally {
    db.close()
    if (isDone) syncFile(target)
    else rmSync(target, { force: true })
  }
}

/** Adds an increment to a log; the result is the log of that step. */
export function mergeIncrement(log: string, increment: string): void {
  using db = openFile(log, { readOnly: false })
  attach(db, increment, 'step')
  db.exec('BEGIN')
  const gone = `SELECT ordinal FROM main.conversation EXCEPT SELECT ordinal FROM step.conversation`
  for (const [ordinal] of rowsOf<[number]>(db, gone)) {
    const base = ordinal * positionsPerConversation
    db.prepare('DELETE FROM main.event WHERE row > ? AND row < ?').run(base, base + positionsPerConversation)
  }
  for (const [name] of rowsOf<[string]>(db, selectTables('step')))
    db.exec(`DELETE FROM main."${name}"; INSERT INTO main."${name}" SELECT * FROM step."${name}"`)
  if (hasBlobs(db, 'step'))
    db.exec(`INSERT INTO main.event_blob SELECT * FROM step.event_blob;
      INSERT OR IGNORE INTO main.blob SELECT * FROM step.blob`)
  db.exec(`INSERT INTO main.event SELECT * FROM step.event;
    DELETE FROM main.sqlite_sequence; INSERT INTO main.sqlite_sequence SELECT * FROM step.backup_sequence;
    COMMIT`)
}

/** Makes a restored log ready for a server: one with its own history. */
export function finishRestore(log: string): void {
  using db = openFile(log, { readOnly: false })
  // Receivers of webhooks may have what was acknowledged after the backup: they are told where the log ends.
  db.exec(`BEGIN; DROP TABLE IF EXISTS backup_tail; UPDATE store SET id = lower(hex(randomblob(16)));
    UPDATE delivery SET updated_at = NULL; COMMIT`)
}

/** Attaches a database, which is only read. */
function attach(db: DatabaseSync, path: string, name: string): void {
  const url = pathToFileURL(path)
  url.searchParams.set('mode', 'ro')
  try {
    db.prepare(`ATTACH ? AS ${name}`).run(url.href)
  } catch (cause) {
    throw new Error(`${path} cannot be opened: ${cause instanceof Error ? cause.message : cause}`, { cause })
  }
}

/** The heads of the step before. */
function checkContinuation(db: DatabaseSync, source: string): Map<number, number> {
  const advice = 'Back up into another directory.'
  const stores = ['src', 'prev'].map((name) => rowsOf<[string]>(db, `SELECT id FROM ${name}.store`)[0]?.[0])
  if (stores[0] !== stores[1]) throw new Error(`the backup is one of another log than ${source}. ${advice}`)
  const heads = new Map<number, number>()
  const find = db.prepare('SELECT id, instant FROM src.event WHERE row = ?')
  const exists = db.prepare('SELECT 1 FROM src.conversation WHERE ordinal = ? AND is_visible = 1')
  for (const [ordinal, head, id, instant] of rowsOf<Tail>(db, 'SELECT * FROM prev.backup_tail')) {
    heads.set(ordinal, head)
    if (exists.get(ordinal) === undefined) continue
    const event = find.get(ordinal * positionsPerConversation + head)
    if (event?.id !== id || event?.instant !== instant)
      throw new Error(
        `${source} does not continue the log of the backup: event ${head} of a conversation is another one. ${advice}`,
      )
  }
  return heads
}

function copyNewEvents(db: DatabaseSync, heads: ReadonlyMap<number, number>): void {
  const copy = db.prepare(
    'INSERT INTO main.event SELECT * FROM src.event WHERE row > ? AND row <= ? ORDER BY row',
  )
  const visible = 'SELECT ordinal, head FROM src.conversation WHERE is_visible = 1'
  for (const [ordinal, head] of rowsOf<[number, number]>(db, visible)) {
    const base = ordinal * positionsPerConversation
    const from = heads.get(ordinal) ?? 0
    if (head <= from) continue
    const { changes } = copy.run(base + from, base + head)
    if (Number(changes) !== head - from)
      throw new Error('events are missing in the log: it is damaged. See "slipway doctor --deep".')
  }
}

/** Logs of earlier versions have no blobs. */
function hasBlobs(db: DatabaseSync, schema: string): boolean {
  return rowsOf(db, `SELECT 1 FROM ${schema}.sqlite_master WHERE name = 'blob'`).length > 0
}

/** Logs of earlier versions do not have both. */
function removeSealed(db: DatabaseSync): void {
  const has = (table: string) =>
    rowsOf(db, 'SELECT 1 FROM main.sqlite_master WHERE name = ?', table).length > 0
  if (has('vault')) db.exec('UPDATE main.vault SET sealed = NULL')
  if (has('document')) db.exec("DELETE FROM main.document WHERE name LIKE '%.sealed'")
}

function readStep(db: DatabaseSync, kind: LogStep['kind']): LogStep {
  const number = (sql: string) => rowsOf<[number]>(db, sql)[0]?.[0] ?? 0
  return {
    kind,
    store: rowsOf<[string]>(db, 'SELECT id FROM main.store')[0]?.[0] ?? '',
    schema: number('PRAGMA main.user_version'),
    conversations: number('SELECT count(*) FROM main.conversation'),
    events: number('SELECT count(*) FROM main.event'),
  }
}
