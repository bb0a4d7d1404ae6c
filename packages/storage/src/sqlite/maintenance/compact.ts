import { statSync } from 'node:fs'
import { openFile } from './open-file.ts'

/**
 * Rewrites a database that no server uses without its free space, from then on in a form that gives space
 * back on its own. Needs its space once more for a moment. Returns the sizes of the file in bytes.
 */
export function compactDatabase(path: string): { readonly before: number; readonly after: number } {
  const before = statSync(path).size
  using db = openFile(path, { readOnly: false })
  try {
    db.exec(
      'PRAGMA wal_checkpoint(TRUNCATE); PRAGMA auto_vacuum = INCREMENTAL; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)',
    )
  } catch (cause) {
    throw new Error(`${path} cannot be compacted: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
    })
  }
  return { before, after: statSync(path).size }
}
