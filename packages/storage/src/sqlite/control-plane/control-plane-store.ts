import { join } from 'node:path'
import { type Instant, type LogFunction, must } from '@slipway/protocol'
import type { ControlPlaneStore } from '../../control-plane/control-plane-store.ts'
import { LocalLeases } from '../../control-plane/leases.ts'
import { openRows } from '../../control-plane/stores/open-rows.ts'
import { CommitQueue } from '../database/commit-queue.ts'
import { Database } from '../database/database.ts'
import { DirectoryLock } from '../database/directory-lock.ts'
import { makeDataDirectory } from '../database/open-failure.ts'
import { recoverDatabase, StorageHealth } from '../database/storage-health.ts'
import { StoreMark } from '../database/store-mark.ts'
import { ChangeQueue } from './change-queue.ts'
import { reclaimPeriodically } from './reclaim-periodically.ts'
import { controlPlaneMigrations } from './schema.ts'
import { SqliteSession } from './session.ts'

/** Bound of the page cache of control.db. */
const cacheBytes = 8 * 1024 * 1024
const defaultReclaimIntervalMs = 60_000

interface ControlPlaneStoreOptions {
  /**
   * Created when missing; may be the one of a storage. `control.db` has the rows, `control-lock.db` excludes
   * other processes.
   */
  readonly directory: string
  readonly log?: LogFunction
  /** Of the storage beside it; its own unless passed. */
  readonly health?: StorageHealth
  /** The clock, in microseconds. */
  readonly now?: () => Instant
  /** How often the space of deleted rows is given back. */
  readonly reclaimIntervalMs?: number
}

/** Rejects with a plain Error when another process has the directory open. */
export async function openControlPlaneStore({
  directory,
  log = () => {},
  health = new StorageHealth(directory, log),
  now = () => Date.now() * 1000,
  reclaimIntervalMs = defaultReclaimIntervalMs,
}: ControlPlaneStoreOptions): Promise<ControlPlaneStore> {
  await makeDataDirectory(directory)
  const lock = await DirectoryLock.acquire(directory, 'control-lock.db')
  try {
    const path = join(directory, 'control.db')
    const mark = new StoreMark(path)
    mark.assertIsThere()
    const db = new Database(path, {
      synchronous: 'FULL',
      cacheBytes,
      isReclaimable: true,
      migrations: controlPlaneMigrations,
    })
    const readId = () => must(db.get<[string]>('SELECT id FROM ledger'), 'the id of the store')[0]
    const id = mark.confirm(db, readId)
    const recover = () =>
      recoverDatabase(db, () => {
        if (!db.isOpen || !db.isInPlace) {
          lock.release()
          db.close()
          lock.acquire()
        }
        db.reopen(() => {
          if (readId() !== id) throw new Error(`${path} is another store than the one that was open`)
        })
      })
    const databaseHealth = health.add(db, recover)
    const changes = new ChangeQueue(db, new CommitQueue(db, 'ledger', databaseHealth))
    const closing = new AbortController()
    const reclaiming = reclaimPeriodically(db, changes, closing.signal, reclaimIntervalMs)
    const store: ControlPlaneStore = {
      id,
      ...openRows(new SqliteSession(db, changes), now),
      leases: new LocalLeases(),
      // `secure_delete` overwrites them in the database; the write-ahead log has them until it begins again.
      overwriteRemoved: () => changes.checkpoint(),
      async [Symbol.asyncDispose]() {
        closing.abort()
        await databaseHealth.close()
        await changes.close()
        await reclaiming
        db.close()
        lock[Symbol.dispose]()
      },
    }
    log('debug', 'the control-plane store is open', { ledger: store.id })
    return store
  } catch (error) {
    lock[Symbol.dispose]()
    throw error
  }
}
