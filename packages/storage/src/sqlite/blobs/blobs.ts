import { createHash } from 'node:crypto'
import type { Database, Value } from '../database/database.ts'
import { toBuffer } from '../database/database.ts'
import { joinHeader, minRunLength, splitBody, wholeBody } from './stored-body.ts'

/** What the store of blobs uses of a database. */
export interface BlobRows {
  get<R extends readonly unknown[]>(sql: string, ...values: Value[]): R | undefined
}

const findSql = 'SELECT bytes FROM blob WHERE number = ?'
const findByHashSql = 'SELECT number, bytes FROM blob WHERE hash = ?'
const insertSql = 'INSERT INTO blob (hash, bytes) VALUES (?, ?) RETURNING number'
const useSql = 'INSERT OR IGNORE INTO event_blob (row, blob) VALUES (?, ?)'

/**
 * The stored form of the body of the event at `row`. Equal content of several events, as in forks and for a
 * picture that is sent again, is stored once. Call it in the transaction that inserts the event.
 */
export function storeBody(db: Database, row: number, text: Buffer): Buffer {
  const split = text.length < minRunLength ? undefined : splitBody(text)
  if (split === undefined) return text
  const blobs = split.runs.map(({ bytes }) => {
    const blob = storeBlob(db, bytes)
    db.run(useSql, row, blob)
    return blob
  })
  return joinHeader(text, split, blobs)
}

function storeBlob(db: Database, bytes: Buffer): number {
  const hash = createHash('sha256').update(bytes).digest()
  // What is stored under the hash may be damaged: this event does not depend on it then.
  for (const [number, stored] of db.all<[number, Uint8Array]>(findByHashSql, hash))
    if (toBuffer(stored).equals(bytes)) return number
  const [number] = db.get<[number]>(insertSql, hash, bytes) ?? []
  if (number === undefined) throw new Error('SQLite has given no number to a blob')
  return number
}

/** The JSON text of an event by its stored form; a damaged one does not match the checksum of the event. */
export function readBody(db: BlobRows, stored: Uint8Array): Buffer {
  return wholeBody(toBuffer(stored), (number) => db.get<[Uint8Array]>(findSql, number)?.[0])
}
