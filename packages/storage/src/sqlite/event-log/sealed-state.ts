import type { Snapshot, Vault } from '../../conversations/conversation-records.ts'
import { bufferOf, type Database } from '../database/database.ts'

type Row = readonly [sealed: Uint8Array | null, position: number | null, text: string | null]

const select = `SELECT sealed, snapshot_position, snapshot
  FROM conversation LEFT JOIN vault USING (ordinal) WHERE id = ? AND is_visible = 1`
const putSealed = `INSERT INTO vault (ordinal, sealed) VALUES (?, ?)
  ON CONFLICT (ordinal) DO UPDATE SET sealed = excluded.sealed`
const putSnapshot = `INSERT INTO vault (ordinal, snapshot_position, snapshot) VALUES (?, ?, ?)
  ON CONFLICT (ordinal) DO UPDATE SET snapshot_position = excluded.snapshot_position, snapshot = excluded.snapshot`

/** The vault of a conversation that is visible. */
export function readVault(db: Database, conversation: string): Vault | undefined {
  const row = db.row<Row>(select, conversation)
  if (row === undefined) return undefined
  const [sealed, position, text] = row
  return {
    sealed: sealed === null ? null : bufferOf(sealed),
    snapshot: position === null || text === null ? null : { position, text },
  }
}

/** To be called in a transaction. */
export function writeSealed(db: Database, ordinal: number, sealed: Buffer): void {
  db.run(putSealed, ordinal, sealed)
}

/** To be called in a transaction. */
export function writeSnapshot(db: Database, ordinal: number, { position, text }: Snapshot): void {
  db.run(putSnapshot, ordinal, position, text)
}

/** To be called in a transaction. */
export function emptyVault(db: Database, ordinal: number): void {
  db.run('DELETE FROM vault WHERE ordinal = ?', ordinal)
}
