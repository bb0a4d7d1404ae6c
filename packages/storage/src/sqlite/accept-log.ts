import { existsSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { must } from '@slipway/protocol'
import { Database } from './database/database.ts'
import { DirectoryLock } from './database/directory-lock.ts'
import { type LogIdentity, readIdentity } from './database/log-identity.ts'
import { logMigrations } from './event-log/schema.ts'

/** The log that a directory has now. */
export interface AcceptedLog {
  readonly path: string
  readonly generation: number
  readonly conversations: number
  readonly events: number
}

/**
 * Makes the present log of a data directory, such as an older copy, the one that its other files belong to:
 * with a new generation, a new text index, and webhook receivers that are told where it ends. Without a log,
 * `isEmpty` starts an empty one. Rejects with a plain Error while a server uses the directory.
 */
export async function acceptLog(directory: string, isEmpty: boolean): Promise<AcceptedLog> {
  const path = join(directory, 'log.db')
  const isMissing = !statSync(path, { throwIfNoEntry: false })?.size
  if (isMissing && !isEmpty)
    throw new Error(
      `There is no log in ${directory}: ${path} is missing or empty. Restore it from a backup, or start with an empty one: --empty`,
    )
  if (!isMissing && isEmpty) throw new Error(`${path} is there: move it away to start with an empty log`)
  using lock = await DirectoryLock.acquire(directory)
  const leftover = `${path}-wal`
  if (isMissing && existsSync(leftover)) renameSync(leftover, `${leftover}.without-log`)
  const db = new Database(path, { synchronous: 'FULL', cacheBytes: 1_048_576, migrations: logMigrations })
  try {
    const { store, generation } = must(readIdentity(db), 'the identity of the log')
    // Above what the other files know, so that they are the older ones.
    const next: LogIdentity = {
      store,
      generation: Math.max(generation, lock.readIdentity()?.generation ?? 0) + 1,
    }
    db.transaction(() => {
      db.run('UPDATE store SET generation = ?', next.generation)
      // What receivers have after their cursor may be of another history: they are told.
      db.run('UPDATE delivery SET updated_at = NULL')
    })
    for (const name of ['log.mark', 'index.db', 'index.db-wal', 'index.db-shm'])
      rmSync(join(directory, name), { force: true })
    lock.writeIdentity(next)
    const [conversations = 0, events = 0] =
      db.get<[number, number]>(
        'SELECT count(*), coalesce(sum(head), 0) FROM conversation WHERE is_visible = 1',
      ) ?? []
    return { path, generation: next.generation, conversations, events }
  } finally {
    db.close()
  }
}
