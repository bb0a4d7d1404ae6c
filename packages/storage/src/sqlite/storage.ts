import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Family, Instant, Log } from '@slipway/protocol'
import type { Records } from '../conversations/conversation-records.ts'
import type { Import } from '../conversations/import-session.ts'
import type { Storage } from '../conversations/storage.ts'
import type { Deliveries } from '../deliveries/deliveries.ts'
import type { EventLog } from '../event-log/event-log.ts'
import { SqliteRecords } from './conversations/conversation-records.ts'
import { startImport } from './conversations/import-session.ts'
import { Purge } from './conversations/purge.ts'
import { Writer } from './database/commit-queue.ts'
import { Database } from './database/database.ts'
import { Lock } from './database/directory-lock.ts'
import { SqliteDeliveries } from './deliveries/deliveries.ts'
import { type Parts, SqliteEventLog } from './event-log/event-log.ts'
import { Events } from './event-log/event-rows.ts'
import { Pens } from './event-log/import-locks.ts'
import { Facets } from './event-log/kind-source-index.ts'
import { Lives } from './event-log/live-tails.ts'
import { Heads } from './event-log/log-heads.ts'
import { logMigrations } from './event-log/schema.ts'
import { TextIndex } from './event-log/text-index.ts'

/** Of the pages of log.db. */
const cacheBytes = 8 * 1024 * 1024

export interface StorageOptions {
  /**
   * Where the files are; it is made when it is not there. `log.db` is the truth, `index.db` can be deleted while the
   * server is down and is made again, `lock.db` keeps a second process out.
   */
  readonly directory: string
  readonly log?: Log
  /** The clock, in microseconds. */
  readonly now?: () => Instant
}

/** Opens the store of a directory. Rejects with a plain Error when another process has it open. */
export async function openStorage({
  directory,
  log = () => {},
  now = () => Date.now() * 1000,
}: StorageOptions) {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const lock = new Lock(directory, 'lock.db')
  try {
    const path = join(directory, 'log.db')
    const db = new Database(path, { synchronous: 'FULL', cacheBytes, migrations: logMigrations })
    const facets = new Facets(db)
    const heads = new Heads(db, now)
    const events = new Events(db, facets, now)
    const writer = new Writer(db, 'log', [heads, facets])
    const text = new TextIndex({ logPath: path, indexPath: join(directory, 'index.db'), log })
    const shared = { lives: new Lives(), pens: new Pens(), deliveries: new SqliteDeliveries(db, writer) }
    return new SqliteStorage({ db, writer, heads, events, facets, ...shared, text, now, log }, lock)
  } catch (error) {
    lock[Symbol.dispose]()
    throw error
  }
}

/** Storage on SQLite files of one directory. */
export class SqliteStorage implements Storage {
  readonly log: EventLog
  readonly conversations: Records
  readonly deliveries: Deliveries
  readonly #lock: Lock
  readonly #parts: Parts
  readonly #purge: Purge
  readonly #events: SqliteEventLog

  constructor(parts: Parts, lock: Lock) {
    this.#parts = parts
    this.#lock = lock
    this.#purge = new Purge(parts)
    this.#events = new SqliteEventLog(parts)
    this.log = this.#events
    this.conversations = new SqliteRecords(parts, this.#purge)
    this.deliveries = parts.deliveries
    this.#purge.resume()
  }

  startImport(conversation: string): Promise<Import> {
    return startImport(this.#parts, this.#purge, conversation)
  }

  indexed(): Promise<void> {
    return this.#parts.text.settled()
  }

  /** What was written, in numbers. */
  measures(): readonly Family[] {
    return this.#parts.writer.numbers.families()
  }

  /** Settings as the file of the log has them now. */
  pragmas(): { readonly journal_mode: unknown; readonly synchronous: unknown } {
    const { db } = this.#parts
    return { journal_mode: db.pragma('journal_mode'), synchronous: db.pragma('synchronous') }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#parts.writer.close()
    this.#events.close()
    // A purge may be waiting for the index, which is let go without finishing: both go on after the next open.
    const purged = this.#purge.close()
    await this.#parts.text.close()
    await purged
    this.#parts.db.close()
    this.#lock[Symbol.dispose]()
  }
}
