import { chmodSync, copyFileSync, existsSync, mkdirSync, renameSync, statfsSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { ReadRows } from './compare-schema.ts'
import { isDamaged } from './storage-failure.ts'

/** A page that SQLite cannot read. */
export interface DamagedPage {
  /** The table or index. */
  readonly name: string
  /** Undefined where it is a page of a long value. */
  readonly page: number | undefined
  /** Nothing of the table or index can be read without it. */
  readonly isRoot: boolean
  /** The index can be made again from its table. */
  readonly isRebuildable: boolean
}

/** All trees of a file up to this size are read at the start: some 50 milliseconds. */
const maxReadBytes = 32 * 1024 * 1024
const treesSql = `SELECT name, type = 'index' AND sql IS NOT NULL FROM sqlite_schema
  WHERE rootpage > 0 AND (?1 OR tbl_name IN (SELECT value FROM json_each(?2)))`
const pagesSql = `SELECT pageno, path FROM dbstat WHERE name = ? AND pagetype = 'corrupted'`

/**
 * What cannot be read of a database: of all of it when it is small or the check is thorough, of some tables
 * and their indexes otherwise.
 */
export function findDamagedPages(
  read: ReadRows,
  { tables, isThorough = false }: { readonly tables: readonly string[]; readonly isThorough?: boolean },
): DamagedPage[] {
  const [[bytes] = [0]] = read<[number]>(
    'SELECT page_count * page_size FROM pragma_page_count, pragma_page_size',
  )
  const isAll = isThorough || bytes <= maxReadBytes
  return read<[string, number]>(treesSql, isAll ? 1 : 0, JSON.stringify(tables)).flatMap(([name, isIndex]) =>
    readTree(read, name).map(([page, path]) => ({
      name,
      page,
      isRoot: path === '/',
      isRebuildable: isIndex === 1,
    })),
  )
}

function readTree(read: ReadRows, name: string): (readonly [page: number | undefined, path: string])[] {
  try {
    return read<[number, string]>(pagesSql, name)
  } catch (error) {
    if (!isDamaged(error)) throw error
    // A page of a long value: the tree is read no further.
    return [[undefined, '']]
  }
}

/**
 * Makes indexes with damaged pages again from their tables, in a file that no server uses. REINDEX and DROP
 * INDEX would read the pages. Throws when that is not possible; the file is as before then.
 */
export function rebuildIndexes(path: string, names: readonly string[]): void {
  using db = new DatabaseSync(path, { defensive: false })
  db.exec('BEGIN IMMEDIATE')
  const find = db.prepare("SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?")
  const statements = names.map((name) => String(find.get(name)?.sql))
  db.exec('PRAGMA writable_schema = ON')
  const remove = db.prepare("DELETE FROM sqlite_schema WHERE type = 'index' AND name = ?")
  for (const name of names) remove.run(name)
  db.exec('PRAGMA writable_schema = RESET')
  for (const statement of statements) db.exec(statement)
  db.exec('COMMIT')
  // The pages of the old ones belong to nothing.
  db.exec('VACUUM')
}

/**
 * Puts a copy of a file that no server uses into the folder `damaged` beside it, before its indexes are made
 * again; returns its path. The copy of an attempt that did not end stays. Throws when the disk has no room
 * for it and the attempt.
 */
export function setAside(path: string): string {
  const folder = join(dirname(path), 'damaged')
  const copy = join(folder, `${basename(path)}-before`)
  const isThere = existsSync(copy)
  // VACUUM writes the file twice: beside it, and into the write-ahead log.
  const neededBytes = statSync(path).size * (isThere ? 2 : 3)
  const { bavail, bsize } = statfsSync(dirname(path))
  if (bavail * bsize < neededBytes)
    throw new Error(`${neededBytes} bytes are needed on the disk, and ${bavail * bsize} are free`)
  if (isThere) return copy
  const draft = `${copy}.draft`
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  copyFileSync(path, draft)
  chmodSync(draft, 0o600)
  renameSync(draft, copy)
  return copy
}

/** Gives the copy the name that it keeps, after the attempt; returns its path. */
export function keepAside(copy: string): string {
  const kept = copy.replace(/before$/, String(Date.now()))
  renameSync(copy, kept)
  return kept
}
