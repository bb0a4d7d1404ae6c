import type { SealedState, Snapshot } from '../../conversations/conversation-records.ts'
import { type Database, toBuffer } from '../database/database.ts'

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
    snapshot: position === null || text === null ? null : { position, text },
  }
}

/** To be called in a transaction. */
export function writeSealed(db: Database, ordinal: number, sealed: Buffer): void {
  db.run(putSealedSql, ordinal, sealed)
}

/** To be called in a transaction. */
export function writeSnapshot(db: Database, ordinal: number, { position, text }: Snapshot): void {
  db.run(putSnapshotSql, ordinal, position, text)
}

/** To be called in a transaction. */
export function deleteSealedState(db: Database, ordinal: number): void {
  db.run('DELETE FROM vault WHERE ordinal = ?', ordinal)
}
