import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Instant, type Log, must } from '@slipway/protocol'
import type { Ledger } from '../../control-plane/control-plane-store.ts'
import { Database } from '../database/database.ts'
import { Lock } from '../database/directory-lock.ts'
import { SqliteAppConversationRows } from './app-conversations.ts'
import { Changes } from './change-queue.ts'
import { SqliteDocumentRows } from './documents.ts'
import { SqlitePendingMessageRows } from './pending-messages.ts'
import { SqliteQuotaRows } from './quota.ts'
import { SqliteSandboxRows } from './sandboxes.ts'
import { ledgerMigrations } from './schema.ts'
import { SqliteStartTaskRows } from './start-tasks.ts'
import { SqlitePeopleRows } from './users.ts'

/** Of the pages of control.db. */
const cacheBytes = 8 * 1024 * 1024

export interface LedgerOptions {
  /**
   * Where the files are; it is made when it is not there, and may be the one of a storage. `control.db` is the truth,
   * `control-lock.db` keeps a second process out.
   */
  readonly directory: string
  readonly log?: Log
  /** The clock, in microseconds. */
  readonly now?: () => Instant
}

/** Opens the ledger of a directory. Rejects with a plain Error when another process has it open. */
export async function openLedger({
  directory,
  log = () => {},
  now = () => Date.now() * 1000,
}: LedgerOptions): Promise<Ledger> {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const lock = new Lock(directory, 'control-lock.db')
  try {
    const path = join(directory, 'control.db')
    const db = new Database(path, { synchronous: 'FULL', cacheBytes, migrations: ledgerMigrations })
    const ledger = new SqliteLedger(db, lock, now)
    log('debug', 'the ledger is open', { ledger: ledger.id })
    return ledger
  } catch (error) {
    lock[Symbol.dispose]()
    throw error
  }
}

/** Ledger on one SQLite file. */
class SqliteLedger implements Ledger {
  readonly id: string
  readonly sandboxes: SqliteSandboxRows
  readonly conversations: SqliteAppConversationRows
  readonly startTasks: SqliteStartTaskRows
  readonly people: SqlitePeopleRows
  readonly quota: SqliteQuotaRows
  readonly pendingMessages: SqlitePendingMessageRows
  readonly documents: SqliteDocumentRows
  readonly #db: Database
  readonly #lock: Lock
  readonly #changes: Changes

  constructor(db: Database, lock: Lock, now: () => Instant) {
    this.#db = db
    this.#lock = lock
    this.#changes = new Changes(db)
    this.id = must(db.row<[string]>('SELECT id FROM ledger'), 'the id of the ledger')[0]
    this.sandboxes = new SqliteSandboxRows(db, this.#changes, now)
    this.conversations = new SqliteAppConversationRows(db, this.#changes)
    this.startTasks = new SqliteStartTaskRows(db, this.#changes)
    this.people = new SqlitePeopleRows(db, this.#changes)
    this.quota = new SqliteQuotaRows(db, this.#changes)
    this.pendingMessages = new SqlitePendingMessageRows(db, this.#changes)
    this.documents = new SqliteDocumentRows(db, this.#changes)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#changes.close()
    this.#db.close()
    this.#lock[Symbol.dispose]()
  }
}
