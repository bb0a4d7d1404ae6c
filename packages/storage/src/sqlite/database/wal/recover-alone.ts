import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'

/**
 * Moves a write-ahead log into its database without its index, `-shm`, which may name frames that are lost:
 * SQLite makes that again for the first connection of all processes only. With an exclusive lock the index is
 * in memory, made of the frames that have the right checksums. Throws SQLite's error for a lock while another
 * connection is open, of this process too.
 */
export function recoverAlone(path: string): void {
  const url = pathToFileURL(path)
  url.searchParams.set('mode', 'rw')
  const db = new DatabaseSync(url, { timeout: 0 })
  try {
    // Before the first access: afterwards the index is the shared one.
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE)')
  } finally {
    db.close()
  }
}
