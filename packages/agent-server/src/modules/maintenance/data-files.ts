import type { Stats } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '@slipway/shared/fs'
import { lockName } from '@slipway/storage'

/** The database of conversations; a data directory is one that has it. */
export const logName = 'log.db'
/** Databases that a server writes while it runs. */
export const databaseNames: ReadonlySet<string> = new Set([logName, 'bash.db', 'control.db'])
/** Files that belong to a running server, or are made again from the others. */
const transientNames: ReadonlySet<string> = new Set([
  ...['index.db', lockName, 'control-lock.db'],
  ...['log.mark', 'bash.mark', 'control.mark'],
])
/** At the top: where the server is, and the page that opened its console once. */
const serverNotes: ReadonlySet<string> = new Set(['server.json', 'open-console.html'])
const sidecarPattern = /\.db-(?:wal|shm|journal)$/
/** A file that `writeFileAtomic` was writing when its process died. */
export const draftPattern = /^\..+\.draft$/
/** A copy that a migration made before it. */
export const migrationCopyPattern = /\.db\.v\d+\.bak$/
/**
 * Folders at the top that no backup has: that of a sandbox server which makes starts faster, and the files of
 * the editor, which may have secrets of its extensions.
 */
const omittedFolders: ReadonlySet<string> = new Set(['code', 'editor'])

export interface DataFile {
  /** From the data directory, with `/`. */
  readonly path: string
  readonly stats: Stats
}

/**
 * Everything of a data directory that a backup has, folders before what is in them; the databases too,
 * without what SQLite has beside them. Files that vanish meanwhile are left out.
 */
export async function* listDataFiles(directory: string, folder = ''): AsyncGenerator<DataFile> {
  for (const name of (await readdir(join(directory, folder))).toSorted()) {
    const isOmitted = folder === '' && (omittedFolders.has(name) || serverNotes.has(name))
    const isTransient = transientNames.has(name) || sidecarPattern.test(name) || draftPattern.test(name)
    if (isOmitted || isTransient || migrationCopyPattern.test(name)) continue
    const path = folder === '' ? name : `${folder}/${name}`
    const stats = await statOrUndefined(join(directory, path))
    if (stats === undefined) continue
    yield { path, stats }
    if (stats.isDirectory()) yield* listDataFiles(directory, path)
  }
}

/** Not of the target of a symbolic link; undefined when there is nothing. */
export async function statOrUndefined(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}
