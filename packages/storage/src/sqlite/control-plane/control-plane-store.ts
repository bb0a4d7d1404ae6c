import { join } from 'node:path'
import { type Instant, type LogFunction, must } from '@slipway/protocol'
import { makeDirectory } from '@slipway/shared/fs'
import type { ControlPlaneStore } from '../../control-plane/control-plane-store.ts'
import { Database } from '../database/database.ts'
import { DirectoryLock } from '../database/directory-lock.ts'
import { SqliteAppConversationRows } from './app-conversations.ts'
import { ChangeQueue } from './change-queue.ts'
import { SqliteDocumentStore } from './documents.ts'
import { SqlitePendingMessageRows } from './pending-messages.ts'
import { SqliteQuotaRows } from './quota.ts'
import { SqliteSandboxRows } from './sandboxes.ts'
import { controlPlaneMigrations } from './schema.ts'
import { SqliteStartTaskRows } from './start-tasks.ts'
import { SqliteUserRows } from './users.ts'

/** Bound of the page cache of control.db. */
const cacheBytes = 8 * 1024 * 1024

interface ControlPlaneStoreOptions {
  /**
   * Created when missing; may be the one of a storage. `control.db` has the rows, `control-lock.db` excludes
   * other processes.
   */
  readonly directory: string
  readonly log?: LogFunction
  /** The clock, in microseconds. */
  readonly now?: () => Instant
}

/** Rejects with a plain Error when another process has the directory open. */
export async function openControlPlaneStore({
  directory,
  log = () => {},
  now = () => Date.now() * 1000,
}: ControlPlaneStoreOptions): Promise<ControlPlaneStore> {
  await makeDirectory(directory, 0o700)
  const lock = new DirectoryLock(directory, 'control-lock.db')
  try {
    const path = join(directory, 'control.db')
    const db = new Database(path, { synchronous: 'FULL', cacheBytes, migrations: controlPlaneMigrations })
    const store = new SqliteControlPlaneStore(db, lock, now)
    log('debug', 'the control-plane store is open', { ledger: store.id })
    return store
  } catch (error) {
    lock[Symbol.dispose]()
    throw error
  }
}

/** ControlPlaneStore on one SQLite file. */
class SqliteControlPlaneStore implements ControlPlaneStore {
  readonly id: string
  readonly sandboxes: SqliteSandboxRows
  readonly conversations: SqliteAppConversationRows
  readonly startTasks: SqliteStartTaskRows
  readonly users: SqliteUserRows
  readonly quota: SqliteQuotaRows
  readonly pendingMessages: SqlitePendingMessageRows
  readonly documents: SqliteDocumentStore
  readonly #db: Database
  readonly #lock: DirectoryLock
  readonly #changes: ChangeQueue

  constructor(db: Database, lock: DirectoryLock, now: () => Instant) {
    this.#db = db
    this.#lock = lock
    this.#changes = new ChangeQueue(db)
    this.id = must(db.get<[string]>('SELECT id FROM ledger'), 'the id of the ledger')[0]
    this.sandboxes = new SqliteSandboxRows(db, this.#changes, now)
    this.conversations = new SqliteAppConversationRows(db, this.#changes)
    this.startTasks = new SqliteStartTaskRows(db, this.#changes)
    this.users = new SqliteUserRows(db, this.#changes)
    this.quota = new SqliteQuotaRows(db, this.#changes)
    this.pendingMessages = new SqlitePendingMessageRows(db, this.#changes)
    this.documents = new SqliteDocumentStore(db, this.#changes)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#changes.close()
    this.#db.close()
    this.#lock[Symbol.dispose]()
  }
}
