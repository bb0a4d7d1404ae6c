import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { parentPort } from 'node:worker_threads'

/**
 * The thread of CheckpointThread. It opens the database for each checkpoint: a connection that stays open would keep
 * an index of the write-ahead log that has to be made again after a failed sync.
 *
 * The first frame after a checkpoint begins the write-ahead log again, and SQLite syncs that at once. It is written here,
 * by a change that changes nothing, and not by the next commit of the event loop.
 */
function checkpoint(path) {
  const url = pathToFileURL(path)
  url.searchParams.set('mode', 'rw')
  const db = new DatabaseSync(url, { timeout: 100 })
  try {
    db.exec(
      'PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 33554432; PRAGMA wal_checkpoint(RESTART)',
    )
    const { user_version } = db.prepare('PRAGMA user_version').get()
    db.exec(`BEGIN IMMEDIATE; PRAGMA user_version = ${user_version}; COMMIT`)
    return db.prepare('PRAGMA wal_checkpoint(NOOP)').get().log
  } finally {
    db.close()
  }
}

parentPort.on('message', ({ id, path }) => {
  try {
    parentPort.postMessage({ id, frames: checkpoint(path) })
  } catch (error) {
    const { message, errcode } = error
    parentPort.postMessage({ id, error: { message, errcode } })
  }
})
