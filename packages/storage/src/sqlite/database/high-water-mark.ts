/**
 * How far the log was acknowledged: log.mark, a line beside log.db.
 *
 * Problem: SQLite drops the rest of a write-ahead log from its first damaged frame on, and opens an older
 * file that was put in its place, both without a word. Acknowledged events would be missing, and their
 * positions would be used again.
 *
 * Idea: after each commit a small file says which conversation changed last, and where its log ends. At a
 * start a log that ends before that is refused, with the next step for the operator.
 *
 * Invariants:
 * - The mark is written after the commit, so it is never ahead of the log. It is not synced and failures to
 *   write it are ignored: it may lag behind, and then proves less.
 * - A write replaces the one line, of fixed length, with a checksum. A damaged line is logged and proves
 *   nothing.
 * - The mark has the identity of its log. Another log is refused; a log of a later generation, which an
 *   operator has accepted, is not compared (`checkLog`).
 * - Positions and numbers of conversations only grow. A removed conversation leaves its number used, so its
 *   mark is no sign of an older log.
 * - A record on a damaged page says nothing about the age of the log (`readHead`).
 * - After a recovery the log is compared with the mark in memory, which is the newest (`reopen`).
 *
 * If you change this: a start on an older copy of the log, whose clients and webhook receivers have seen
 * other events at the same positions. "Damage" in `docs/operations.md` says what an operator can do; cursors
 * that name their event notice it too (docs/decisions/0021-cursors.md).
 */

import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs'
import type { LogFunction } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { textChecksum } from '../../event-log/text-checksum.ts'
import type { Database } from './database.ts'
import { advice, assertSameLog, type LogIdentity, readIdentity } from './log-identity.ts'
import { isDamaged } from './storage-failure.ts'

/** The newest acknowledged change of the log. */
interface Mark extends LogIdentity {
  readonly ordinal: number
  readonly head: number
}

/** A small file beside the log that says how far the log went when a change was last acknowledged. */
export class HighWaterMark {
  readonly #path: string
  #identity: LogIdentity
  #fd: number
  #last: Mark | undefined

  /** Throws an Error with the next step when the log is older than the mark, or is another log. */
  constructor(path: string, identity: LogIdentity, db: Database, log: LogFunction) {
    this.#identity = identity
    const mark = readMark(path, log)
    if (mark !== undefined) checkLog(mark, identity, db, path)
    this.#last = mark?.generation === identity.generation ? mark : undefined
    this.#path = path
    // Neither truncated nor in append mode: each write replaces the one line.
    this.#fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  }

  /** After the log was opened again: throws an Error when it is older than before, or is another log. */
  reopen(identity: LogIdentity, db: Database): void {
    this.#identity = identity
    if (this.#last !== undefined) checkLog(this.#last, identity, db, this.#path)
    this.close()
    this.#fd = openSync(this.#path, constants.O_RDWR | constants.O_CREAT, 0o600)
  }

  /** Whether the log is known to be as new as what was acknowledged. */
  get isKnown(): boolean {
    return this.#last !== undefined
  }

  /** Records that a conversation's log goes up to this position. */
  write(ordinal: number, head: number): void {
    const { store, generation } = this.#identity
    this.#last = { store, generation, ordinal, head }
    const text = `${store}.${String(generation).padStart(4, '0')} ${String(ordinal).padStart(10)} ${String(head).padStart(10)}`
    try {
      writeSync(this.#fd, `${text} ${textChecksum(text)}\n`, 0)
    } catch {
      // The change is durable; the next one writes the mark again.
    }
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd)
    this.#fd = -1
  }
}

/** Throws an Error with the next step when the log is older than the mark of a file, or is another log. */
export function verifyMark(path: string, db: Database, log: LogFunction): void {
  const mark = readMark(path, log)
  const identity = readIdentity(db)
  if (mark !== undefined && identity !== undefined) checkLog(mark, identity, db, path)
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
  // Versions before 0.2.0 wrote no generation.
  const [, text = '', store = '', generation = '1', ordinal, head, sum] =
    /^(([^\s.]+)(?:\.(\d+))? +(\d+) +(\d+)) ([0-9a-f]{8})\n$/.exec(line) ?? []
  if (sum !== textChecksum(text)) {
    log(
      'error',
      'the high-water mark is damaged: this start cannot tell whether acknowledged events are missing',
      {
        path,
      },
    )
    return undefined
  }
  return { store, generation: Number(generation), ordinal: Number(ordinal), head: Number(head) }
}

/** Null where the record is on a damaged page, which says nothing about the age of the log. */
function readHead(db: Database, ordinal: number): readonly [id: string, head: number] | undefined | null {
  try {
    return db.get<[string, number]>('SELECT id, head FROM conversation WHERE ordinal = ?', ordinal)
  } catch (error) {
    if (isDamaged(error)) return null
    throw error
  }
}

function checkLog(mark: Mark, identity: LogIdentity, db: Database, path: string): void {
  assertSameLog(db.path, identity, path, mark)
  if (mark.generation < identity.generation) return
  const { ordinal, head } = mark
  const row = readHead(db, ordinal)
  if (row === null) return
  // A removed conversation leaves its number used.
  const [used = 0] = db.get<[number]>("SELECT seq FROM sqlite_sequence WHERE name = 'conversation'") ?? []
  if (row === undefined ? used >= ordinal : row[1] >= head) return
  const found =
    row === undefined ? 'the conversation is missing' : `conversation ${row[0]} ends at position ${row[1]}`
  throw new Error(
    `${db.path} is older than what was acknowledged: a conversation had an event at position ${head}, and ${found}. ${advice(db.path)}`,
  )
}
