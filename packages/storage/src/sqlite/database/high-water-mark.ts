import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { LogFunction } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import type { Database } from './database.ts'

/** The newest acknowledged change of the log. */
interface Mark {
  readonly store: string
  readonly ordinal: number
  readonly head: number
}

/**
 * A small file beside the log that says how far the log went when a change was last acknowledged. SQLite silently
 * drops the rest of a write-ahead log from the first damaged frame on, and starts with an older file where one was put
 * in its place; the mark shows both at the next start.
 *
 * It is written after each commit and not synced: it may lag behind the log, but is never ahead of it.
 */
export class HighWaterMark {
  readonly #path: string
  readonly #store: string
  #fd: number
  #last: Mark | undefined

  /** Throws an Error with the next step when the log is older than the mark, or is another log. */
  constructor(path: string, logPath: string, db: Database, log: LogFunction) {
    this.#store = db.get<[string]>('SELECT id FROM store')?.[0] ?? ''
    const mark = readMark(path, log)
    if (mark !== undefined) checkLog(mark, this.#store, db, path, logPath)
    this.#last = mark
    this.#path = path
    // Neither truncated nor in append mode: each write replaces the one line.
    this.#fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  }

  /** After the log was opened again: throws an Error when it is older than before, or is another log. */
  reopen(db: Database): void {
    const store = db.get<[string]>('SELECT id FROM store')?.[0] ?? ''
    if (this.#last !== undefined) checkLog(this.#last, store, db, this.#path, db.path)
    this.close()
    this.#fd = openSync(this.#path, constants.O_RDWR | constants.O_CREAT, 0o600)
  }

  /**
   * Records that a conversation's log goes up to this position. The mark lags behind while it cannot be
   * written.
   */
  write(ordinal: number, head: number): void {
    this.#last = { store: this.#store, ordinal, head }
    const text = `${this.#store} ${String(ordinal).padStart(10)} ${String(head).padStart(10)}`
    try {
      writeSync(this.#fd, `${text} ${crc32(text).toString(16).padStart(8, '0')}\n`, 0)
    } catch {
      // The change is durable; the next one writes the mark again.
    }
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd)
    this.#fd = -1
  }
}

/** Undefined when there is none; one that is damaged is logged. */
function readMark(path: string, log: LogFunction): Mark | undefined {
  let line: string
  try {
    line = readFileSync(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  if (line === '') return undefined
  const [, text = '', store = '', ordinal, head, sum] =
    /^((\S+) +(\d+) +(\d+)) ([0-9a-f]{8})\n$/.exec(line) ?? []
  if (sum !== crc32(text).toString(16).padStart(8, '0')) {
    log(
      'error',
      'the high-water mark is damaged: this start cannot tell whether acknowledged events are missing',
      {
        path,
      },
    )
    return undefined
  }
  return { store, ordinal: Number(ordinal), head: Number(head) }
}

function checkLog(
  { store, ordinal, head }: Mark,
  id: string,
  db: Database,
  path: string,
  logPath: string,
): void {
  const advice = `Restore ${logPath} and its -wal file from a backup. To go on with what is there, delete ${path} and index.db beside it.`
  if (store !== id)
    throw new Error(`${logPath} is another log than the one that ${path} belongs to. ${advice}`)
  const row = db.get<[string, number]>('SELECT id, head FROM conversation WHERE ordinal = ?', ordinal)
  // A removed conversation leaves its number used.
  const [used = 0] = db.get<[number]>("SELECT seq FROM sqlite_sequence WHERE name = 'conversation'") ?? []
  if (row === undefined ? used >= ordinal : row[1] >= head) return
  const found =
    row === undefined ? 'the conversation is missing' : `conversation ${row[0]} ends at position ${row[1]}`
  throw new Error(
    `${logPath} is older than what was acknowledged: a conversation had an event at position ${head}, and ${found}. ${advice}`,
  )
}
