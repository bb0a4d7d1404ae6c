import { randomInt } from 'node:crypto'
import { dirname } from 'node:path'
import { type Instant, must, Problem } from '@slipway/protocol'
import type {
  BashEventRange,
  BashEventRow,
  BashEvents,
  FinishedFilter,
} from '../../bash-events/bash-events.ts'
import { Database, toBuffer, type Value } from '../database/database.ts'
import { type CompactedFile, type CompactOptions, compactInSteps } from '../database/reclaim-space.ts'
import { isLocked } from '../database/storage-failure.ts'
import { type DatabaseHealth, recoverDatabase, StorageHealth } from '../database/storage-health.ts'
import { StoreMark } from '../database/store-mark.ts'
import { valuesChecksum } from '../database/values-checksum.ts'

type Row = readonly [
  instant: Instant,
  id: string,
  commandId: string,
  order: number,
  isLast: number,
  body: Uint8Array,
  conversationId: string | null,
  checksum: number | null,
]

const table = `(
  instant INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  command_id TEXT NOT NULL,
  output_order INTEGER NOT NULL,
  is_last INTEGER NOT NULL,
  size INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT`

/** `bash_event_command` has all columns but the bodies that the queries over whole commands read. */
export const bashMigrations: readonly string[] = [
  `CREATE TABLE bash_event ${table};
   CREATE INDEX bash_event_command ON bash_event (command_id, instant, output_order, is_last, size);
   CREATE INDEX bash_event_end ON bash_event (instant, command_id) WHERE is_last = 1`,
  `ALTER TABLE bash_event ADD COLUMN conversation_id TEXT;
   CREATE INDEX bash_event_conversation ON bash_event (conversation_id, instant);
   DROP INDEX bash_event_end;
   CREATE INDEX bash_event_end ON bash_event (instant, conversation_id, command_id) WHERE is_last = 1`,
  // Null in events of earlier versions, which are not verified.
  'ALTER TABLE bash_event ADD COLUMN checksum INTEGER',
]

const cacheBytes = 4 * 1024 * 1024
/** Space is given back when less than this is stored: to copy it takes a moment only. */
const maxCompactedBytes = 16 * 1024 * 1024

/**
 * Opens the events of a file, which is made when it was never there. Another process must not have it open.
 * Throws an Error with the next step for a file that is missing, damaged or another one.
 *
 * @param health of the server's storage.
 */
export function openBashEvents(
  path: string,
  health: StorageHealth = new StorageHealth(dirname(path), () => {}),
): SqliteBashEvents {
  const mark = new StoreMark(path)
  mark.assertIsThere()
  const db = new Database(path, {
    synchronous: 'NORMAL',
    cacheBytes,
    isReclaimable: true,
    migrations: bashMigrations,
  })
  try {
    mark.confirm(db, (known) => readId(db, known))
    return new SqliteBashEvents(db, health)
  } catch (error) {
    db.close()
    throw error
  }
}

/**
 * The id of a file. One of an earlier version has none: it gets that of the mark beside it, or a new one,
 * durably.
 */
function readId(db: Database, known: string | undefined): string {
  if (Number(db.pragma('application_id')) === 0) {
    db.pragma(`application_id = ${Number(known) || randomInt(1, 2 ** 31)}`)
    db.checkpoint()
  }
  return String(db.pragma('application_id'))
}

/** Events for which the disk has no room are in a temporary table, in memory; `all_event` is both. */
export class SqliteBashEvents implements BashEvents {
  readonly #db: Database
  readonly #health: DatabaseHealth
  readonly #fileId: unknown
  readonly #closing = new AbortController()
  #unsaved: readonly BashEventRow[] = []
  #hasUnsaved = false
  totals: { readonly count: number; readonly sizeBytes: number }

  constructor(db: Database, health: StorageHealth) {
    this.#db = db
    this.#fileId = db.pragma('application_id')
    const recover = () =>
      recoverDatabase(db, () => {
        // The lock of the directory is the log's.
        health.assertOthersInPlace(db)
        this.#reopen()
      })
    this.#health = health.add(db, recover, 'bash_event')
    this.#createTemporary()
    this.totals = this.#readTotals()
  }

  get lastInstant(): Instant {
    const [instant] =
      this.#db.get<[Instant]>('SELECT instant FROM all_event ORDER BY instant DESC LIMIT 1') ?? []
    return instant ?? 0
  }

  add(events: readonly BashEventRow[]): void {
    const { totals } = this
    try {
      this.#write(() => this.#insert('main.bash_event', events))
    } catch (error) {
      this.totals = totals
      // Another process holds the lock for a moment: output that was read once must not be lost.
      if (!isLocked(error) || events.some(({ order }) => order < 0)) throw error
      for (const event of events) this.addInMemory(event)
      return
    }
    this.#saveMemory()
  }

  addInMemory(event: BashEventRow): void {
    this.#insert('temp.unsaved_event', [event])
    this.#hasUnsaved = true
  }

  get(id: string): BashEventRow | undefined {
    const row = this.#db.get<Row>(`SELECT ${columns} FROM all_event WHERE id = ?`, id)
    return row === undefined ? undefined : toEvent(row)
  }

  *read(range: BashEventRange): Generator<BashEventRow> {
    const { conversationId, commandId, kind, orderAfter, from, to, isDescending = false } = range
    const conditions: [string, Value | undefined][] = [
      ['conversation_id IS ?', conversationId],
      ['command_id = ?', commandId],
      ['(output_order = -1) = ?', kind === undefined ? undefined : Number(kind === 'BashCommand')],
      ['(output_order = -1 OR output_order > ?)', orderAfter],
      ['instant >= ?', from],
      ['instant < ?', to],
    ]
    const used = conditions.filter((entry): entry is [string, Value] => entry[1] !== undefined)
    const where = used.length === 0 ? '' : `WHERE ${used.map(([condition]) => condition).join(' AND ')}`
    const sql = `SELECT ${columns} FROM all_event ${where} ORDER BY instant ${isDescending ? 'DESC' : 'ASC'}`
    for (const row of this.#db.iterate<Row>(sql, ...used.map(([, value]) => value))) yield toEvent(row)
  }

  unfinished(): { commandId: string; conversationId: string | null; nextOrder: number }[] {
    const rows = this.#db.all<[string, string | null, number]>(
      `SELECT command_id, max(conversation_id), max(output_order) + 1 FROM all_event
       GROUP BY command_id HAVING max(is_last) = 0 ORDER BY min(instant)`,
    )
    return rows.map(([commandId, conversationId, nextOrder]) => ({ commandId, conversationId, nextOrder }))
  }

  finished(filter: FinishedFilter = {}): { commandId: string; count: number; sizeBytes: number }[] {
    const { endedBefore = Number.MAX_SAFE_INTEGER, conversationId } = filter
    const scope = conversationId === undefined ? '' : 'AND +conversation_id IS ?'
    const ended = `SELECT command_id FROM all_event WHERE is_last = 1 AND instant < ? ${scope}`
    const rows = this.#db.all<[string, number, number]>(
      `SELECT command_id, count(*), sum(size) FROM all_event WHERE command_id IN (${ended})
       GROUP BY command_id ORDER BY min(instant)`,
      endedBefore,
      ...(conversationId === undefined ? [] : [conversationId]),
    )
    return rows.map(([commandId, count, sizeBytes]) => ({ commandId, count, sizeBytes }))
  }

  remove(commandIds: readonly string[]): number {
    const { count } = this.totals
    this.#write(() => {
      for (const table of ['main.bash_event', 'temp.unsaved_event'])
        for (const id of commandIds) this.#db.run(`DELETE FROM ${table} WHERE command_id = ?`, id)
    })
    this.totals = this.#readTotals()
    return count - this.totals.count
  }

  sync(): void {
    this.#db.checkpoint()
  }

  compact(): void {
    const freeBytes = Number(this.#db.pragma('freelist_count')) * Number(this.#db.pragma('page_size'))
    if (this.totals.sizeBytes > maxCompactedBytes || freeBytes < maxCompactedBytes) return
    this.#db.run('VACUUM')
    this.#db.checkpoint()
  }

  async compactInSteps({ signal, maxMs }: CompactOptions): Promise<CompactedFile> {
    return await compactInSteps(this.#db, (apply) => this.#write(apply), {
      signal: AbortSignal.any([signal, this.#closing.signal]),
      maxMs,
    })
  }

  [Symbol.dispose](): void {
    this.#closing.abort()
    void this.#health.close()
    this.#db.close()
  }

  #write(work: () => void): void {
    try {
      this.#health.assertUsable()
      this.#db.transaction(work)
    } catch (error) {
      this.#health.failed(error)
      throw error
    }
    this.#health.succeeded()
  }

  /** Stores the events in memory, if the disk has room for them by now. */
  #saveMemory(): void {
    if (!this.#hasUnsaved) return
    try {
      this.#db.transaction(() => {
        const columnsWithSize = `${columns}, size`
        this.#db.run(
          `INSERT OR IGNORE INTO main.bash_event (${columnsWithSize}) SELECT ${columnsWithSize} FROM temp.unsaved_event`,
        )
        this.#db.run('DELETE FROM temp.unsaved_event')
      })
      this.#hasUnsaved = false
    } catch {
      // They stay in memory.
    }
  }

  #createTemporary(): void {
    this.#db.run(`CREATE TEMP TABLE unsaved_event ${table}`)
    this.#db.run('ALTER TABLE temp.unsaved_event ADD COLUMN conversation_id TEXT')
    this.#db.run('ALTER TABLE temp.unsaved_event ADD COLUMN checksum INTEGER')
    this.#db.run(
      'CREATE TEMP VIEW all_event AS SELECT * FROM main.bash_event UNION ALL SELECT * FROM temp.unsaved_event',
    )
  }

  /** Keeps the events in memory, which belong to the connection. */
  #reopen(): void {
    const sql = `SELECT ${columns} FROM temp.unsaved_event`
    if (this.#db.isOpen) this.#unsaved = this.#db.all<Row>(sql).map(toEvent)
    this.#db.reopen(() => {
      if (this.#db.pragma('application_id') !== this.#fileId)
        throw new Error(`${this.#db.path} is another one than the one that was open`)
      this.#createTemporary()
      this.#insert('temp.unsaved_event', this.#unsaved)
      this.totals = this.#readTotals()
    })
  }

  #insert(table: string, events: readonly BashEventRow[]): void {
    const insert = this.#db.prepare(
      `INSERT OR IGNORE INTO ${table} (${columns}, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    let { count, sizeBytes } = this.totals
    for (const { instant, id, commandId, order, isLast, body, conversationId } of events) {
      const values = [instant, id, commandId, order, Number(isLast), body, conversationId]
      if (insert.run(...values, valuesChecksum(values), body.length).changes === 0) continue
      count++
      sizeBytes += body.length
    }
    this.totals = { count, sizeBytes }
  }

  #readTotals(): { count: number; sizeBytes: number } {
    const sql = 'SELECT count(*), coalesce(sum(size), 0) FROM all_event'
    const [count, sizeBytes] = must(this.#db.get<[number, number]>(sql), 'the totals')
    return { count, sizeBytes }
  }
}

const columns = 'instant, id, command_id, output_order, is_last, body, conversation_id, checksum'

/** Throws a Problem `unavailable` for an event that is not what was written. */
function toEvent(row: Row): BashEventRow {
  const [instant, id, commandId, order, isLast, body, conversationId, checksum] = row
  if (checksum !== null && checksum !== valuesChecksum(row.slice(0, -1)))
    throw new Problem(
      'unavailable',
      `Event ${id} of /api/bash does not match its checksum: bash.db is damaged. Restore it from a backup, or delete the events of /api/bash.`,
    )
  return { instant, id, commandId, conversationId, order, isLast: isLast === 1, body: toBuffer(body) }
}
