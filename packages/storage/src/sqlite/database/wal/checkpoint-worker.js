import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { parentPort } from 'node:worker_threads'

/** SQLITE_BUSY, SQLITE_READONLY_DBMOVED */
const busyCode = 5
const movedCode = 1032

/**
 * The thread of CheckpointThread. It opens the database for each checkpoint: a connection that stays open
 * would keep an index of the write-ahead log that has to be made again after a failed sync.
 *
 * The first frame after a checkpoint begins the write-ahead log again, and SQLite syncs that at once. Unless
 * the mode is PASSIVE it is written here, by a change that changes nothing, and not by the next commit of the
 * event loop.
 */
function checkpoint({ path, file, mode }) {
  const url = pathToFileURL(path)
  url.searchParams.set('mode', 'rw')
  const db = new DatabaseSync(url, { timeout: 100 })
  try {
    const { dev, ino } = statSync(path)
    if (`${dev}:${ino}` !== file)
      throw Object.assign(new Error('the file was replaced'), { errcode: movedCode })
    db.exec('PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 33554432')
    const { busy, log, checkpointed } = db.prepare(`PRAGMA wal_checkpoint(${mode})`).get()
    const isWhole = busy === 0 && checkpointed === log
    // Another process makes one.
    if (log < 0) throw Object.assign(new Error('database is locked'), { errcode: busyCode })
    if (mode === 'PASSIVE') return { frames: log, isWhole }
    const { user_version } = db.prepare('PRAGMA user_version').get()
    db.exec(`BEGIN IMMEDIATE; PRAGMA user_version = ${user_version}; COMMIT`)
    return { frames: isWhole ? 1 : log + 1, isWhole }
  } finally {
    db.close()
  }
}

parentPort.on('message', ({ id, ...request }) => {
  try {
    parentPort.postMessage({ id, ...checkpoint(request) })
  } catch (error) {
    const { message, errcode } = error
    parentPort.postMessage({ id, error: { message, errcode } })
  }
})
