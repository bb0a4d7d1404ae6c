import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { Database } from './database.ts'
import { readableRows } from './readable-rows.ts'

/**
 * Which log the files of a data directory belong to. `generation` grows when somebody accepts a log that is
 * not the one that the other files know.
 */
export interface LogIdentity {
  readonly store: string
  readonly generation: number
}

/** Reads the table `store` of log.db or index.db; earlier versions have no generation. */
export function readIdentity(db: Database): LogIdentity | undefined {
  const row = db.get<[string, number?]>('SELECT * FROM store')
  return row && { store: row[0], generation: row[1] ?? 1 }
}

/** Throws an Error with the next step when another file of the directory knows another or a newer log. */
export function assertSameLog(logPath: string, log: LogIdentity, path: string, known: LogIdentity): void {
  if (known.store !== log.store)
    throw new Error(`${logPath} is another log than the one that ${path} belongs to. ${advice(logPath)}`)
  if (known.generation > log.generation)
    throw new Error(
      `${logPath} is older than ${path}: it has generation ${log.generation}, not ${known.generation}. ${advice(logPath)}`,
    )
}

/** Throws an Error with the next step when the text index has seen events that the log does not have. */
export function assertNotBehindIndex(
  logPath: string,
  db: Database,
  log: LogIdentity,
  indexPath: string,
): void {
  const index = readIndex(indexPath)
  // The index of another log is a cache of no use, and is rebuilt.
  if (index?.identity?.store !== log.store) return
  assertSameLog(logPath, log, indexPath, index.identity)
  if (index.identity.generation < log.generation) return
  const heads = new Map(readableRows<[number, number]>(db, headsSql))
  const [lastOrdinal = 0] =
    db.get<[number]>("SELECT seq FROM sqlite_sequence WHERE name = 'conversation'") ?? []
  // A removed conversation leaves its number used.
  const ahead = index.indexed.find(
    ([ordinal, upto]) => upto > (heads.get(ordinal) ?? (ordinal > lastOrdinal ? 0 : upto)),
  )
  if (ahead === undefined) return
  const [ordinal, upto] = ahead
  throw new Error(
    `${logPath} is older than ${indexPath}, which has seen position ${upto} of a conversation that ends at position ${heads.get(ordinal) ?? 0}. ${advice(logPath)}`,
  )
}

const headsSql = (condition: string) => `SELECT ordinal, head FROM conversation WHERE ${condition}`

/** Undefined when there is none, or when it is damaged: then it is rebuilt. */
function readIndex(path: string) {
  if (!existsSync(path)) return undefined
  try {
    const db = new Database(path, {
      readOnly: true,
      synchronous: 'NORMAL',
      cacheBytes: 1_048_576,
      migrations: [],
    })
    try {
      return {
        identity: readIdentity(db),
        indexed: db.all<[number, number]>('SELECT ordinal, upto FROM indexed'),
      }
    } finally {
      db.close()
    }
  } catch {
    return undefined
  }
}

export function advice(logPath: string): string {
  return `Restore ${logPath} and its -wal file from a backup, or continue with what is there as a new history: slipway accept-log --data ${dirname(logPath)}`
}
