import { join } from 'node:path'
import type { Instant, LogFunction } from '@slipway/protocol'
import { makeDirectory } from '@slipway/shared/fs'
import type { Metric } from '@slipway/shared/metrics'
import type { ConversationRecords } from '../conversations/conversation-records.ts'
import type { ImportSession } from '../conversations/import-session.ts'
import type { Storage } from '../conversations/storage.ts'
import type { Deliveries } from '../deliveries/deliveries.ts'
import { SqliteConversationRecords } from './conversations/conversation-records.ts'
import { startImport } from './conversations/import-session.ts'
import { Purge } from './conversations/purge.ts'
import { CommitQueue } from './database/commit-queue.ts'
import { Database } from './database/database.ts'
import { DirectoryLock } from './database/directory-lock.ts'
import { SqliteDeliveries } from './deliveries/deliveries.ts'
import { SqliteEventLog, type StorageContext } from './event-log/event-log.ts'
import { EventRows } from './event-log/event-rows.ts'
import { ImportLocks } from './event-log/import-locks.ts'
import { KindSourceIndex } from './event-log/kind-source-index.ts'
import { LiveTails } from './event-log/live-tails.ts'
import { LogHeads } from './event-log/log-heads.ts'
import { logMigrations } from './event-log/schema.ts'
import { TextIndex } from './event-log/text-index.ts'

/** SQLite's page cache of log.db. */
const cacheBytes = 8 * 1024 * 1024

interface StorageOptions {
  /**
   * Created when it is missing. `log.db` is the data; `index.db` is a cache that may be deleted while the
   * server is down; `lock.db` excludes a second process.
   */
  readonly directory: string
  readonly log?: LogFunction
  /** The clock, in microseconds. */
  readonly now?: () => Instant
}

/** Opens the storage of a directory. Rejects with a plain Error when another process has it open. */
export async function openStorage({
  directory,
  log = () => {},
  now = () => Date.now() * 1000,
}: StorageOptions) {
  await makeDirectory(directory, 0o700)
  const lock = new DirectoryLock(directory, 'lock.db')
  try {
    const path = join(directory, 'log.db')
    const db = new Database(path, { synchronous: 'FULL', cacheBytes, migrations: logMigrations })
    const kindSources = new KindSourceIndex(db)
    const heads = new LogHeads(db, now)
    const events = new EventRows(db, kindSources, now)
    const writer = new CommitQueue(db, 'log', [heads, kindSources])
    const text = new TextIndex({ logPath: path, indexPath: join(directory, 'index.db'), log })
    const components = {
      liveTails: new LiveTails(),
      importLocks: new ImportLocks(),
      deliveries: new SqliteDeliveries(db, writer),
    }
    return new SqliteStorage({ db, writer, heads, events, kindSources, ...components, text, now, log }, lock)
  } catch (error) {
    lock[Symbol.dispose]()
    throw error
  }
}

/** Storage on SQLite files of one directory. */
export class SqliteStorage implements Storage {
  readonly log: SqliteEventLog
  readonly conversations: ConversationRecords
  readonly deliveries: Deliveries
  readonly #lock: DirectoryLock
  readonly #context: StorageContext
  readonly #purge: Purge

  constructor(context: StorageContext, lock: DirectoryLock) {
    this.#context = context
    this.#lock = lock
    this.#purge = new Purge(context)
    this.log = new SqliteEventLog(context)
    this.conversations = new SqliteConversationRecords(context, this.#purge)
    this.deliveries = context.deliveries
    this.#purge.resume()
  }

  startImport(conversation: string): Promise<ImportSession> {
    return startImport(this.#context, this.#purge, conversation)
  }

  waitUntilIndexed(): Promise<void> {
    return this.#context.text.waitUntilIndexed()
  }

  get metrics(): readonly Metric[] {
    return this.#context.writer.metrics.all
  }

  /** SQLite settings of log.db, for tests. */
  pragmas(): { readonly journal_mode: unknown; readonly synchronous: unknown } {
    const { db } = this.#context
    return { journal_mode: db.pragma('journal_mode'), synchronous: db.pragma('synchronous') }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#context.writer.close()
    this.log.close()
    // A purge may wait for the index, which stops without finishing: both continue after the next open.
    const purged = this.#purge.close()
    await this.#context.text.close()
    await purged
    this.#context.db.close()
    this.#lock[Symbol.dispose]()
  }
}
