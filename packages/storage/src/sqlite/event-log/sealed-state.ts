import { crc32 } from 'node:zlib'
import type { SealedState, Snapshot } from '../../conversations/conversation-records.ts'
import { type Database, toBuffer } from '../database/database.ts'

const checksumLength = 8

type Row = readonly [sealed: Uint8Array | null, position: number | null, text: string | null]

const selectSql = `SELECT sealed, snapshot_position, snapshot
  FROM conversation LEFT JOIN vault USING (ordinal) WHERE id = ? AND is_visible = 1`
const putSealedSql = `INSERT INTO vault (ordinal, sealed) VALUES (?, ?)
  ON CONFLICT (ordinal) DO UPDATE SET sealed = excluded.sealed`
const putSnapshotSql = `INSERT INTO vault (ordinal, snapshot_position, snapshot) VALUES (?, ?, ?)
  ON CONFLICT (ordinal) DO UPDATE SET snapshot_position = excluded.snapshot_position, snapshot = excluded.snapshot`

/** Undefined when there is no such visible conversation. */
export function readSealedState(db: Database, conversation: string): SealedState | undefined {
  const row = db.get<Row>(selectSql, conversation)
  if (row === undefined) return undefined
  const [sealed, position, text] = row
  return {
    sealed: sealed === null ? null : toBuffer(sealed),
    snapshot: position === null || text === null ? null : openSnapshot(position, text),
  }
}

/** To be called in a transaction. */
export function writeSealed(db: Database, ordinal: number, sealed: Buffer): void {
  db.run(putSealedSql, ordinal, sealed)
}

/** To be called in a transaction. */
export function writeSnapshot(db: Database, ordinal: number, { position, text }: Snapshot): void {
  db.run(putSnapshotSql, ordinal, position, `${checksumOf(position, text)} ${text}`)
}

/**
 * Null for one that is not what was written: the state is read from the log then. Earlier versions wrote no
 * checksum.
 */
function openSnapshot(position: number, stored: string): Snapshot | null {
  if (stored.startsWith('{')) return { position, text: stored }
  const text = stored.slice(checksumLength + 1)
  return stored.startsWith(`${checksumOf(position, text)} `) ? { position, text } : null
}

function checksumOf(position: number, text: string): string {
  return crc32(text, position).toString(16).padStart(checksumLength, '0')
}

/** To be called in a transaction. */
export function deleteSealedState(db: Database, ordinal: number): void {
  db.run('DELETE FROM vault WHERE ordinal = ?', ordinal)
}
