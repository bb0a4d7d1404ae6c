import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openFile, rowsOf } from './open-file.ts'

/** A document of a data directory, also while a server uses it; of an earlier version, its file. */
export function readStoredDocument(directory: string, name: string): Buffer | undefined {
  const path = join(directory, 'log.db')
  if (existsSync(path)) {
    using db = openFile(path, { readOnly: true })
    const hasTable = rowsOf(db, "SELECT 1 FROM sqlite_master WHERE name = 'document'").length > 0
    const sql = "SELECT sealed FROM document WHERE user = '' AND name = ?"
    const [row] = hasTable ? rowsOf<[Uint8Array]>(db, sql, name) : []
    if (row !== undefined) return Buffer.from(row[0])
  }
  const file = join(directory, name)
  return existsSync(file) ? readFileSync(file) : undefined
}
