import * as systemFiles from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/**
 * Creates or replaces a file atomically: a reader sees the old content or the new one, also after a crash,
 * and the new one is durable when the promise resolves. Mode 0600. One writer of a path at a time. Rejects
 * with the system's error (`ENOSPC`, ...): the old file is unchanged, unless the directory alone could not be
 * synced, after which the new content is there and may be lost by a crash.
 */
export async function writeFileAtomic(
  path: string,
  content: string | Uint8Array,
  files: Pick<typeof systemFiles, 'open' | 'rename' | 'rm'> = systemFiles,
): Promise<void> {
  const { open, rename, rm } = files
  const draft = join(dirname(path), `.${basename(path)}.draft`)
  let written: FileIdentity
  try {
    await rm(draft, { force: true })
    await using file = await open(draft, 'wx', 0o600)
    await file.writeFile(content)
    await file.sync()
    written = await file.stat()
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {})
    throw error
  }
  try {
    await rename(draft, path)
  } catch (error) {
    // The answer alone may be lost, as on a file system of the network.
    if (!(await isAt(path, written, files))) {
      await rm(draft, { force: true }).catch(() => {})
      throw error
    }
  }
  await syncDirectory(dirname(path), files)
}

/** Makes the creation, renaming and removal of files in a directory durable. */
export async function syncDirectory(
  path: string,
  { open }: Pick<typeof systemFiles, 'open'> = systemFiles,
): Promise<void> {
  // Windows cannot open directories, and its renames need no sync.
  if (process.platform === 'win32') return
  await using directory = await open(path, 'r')
  await directory.sync()
}

interface FileIdentity {
  readonly dev: number
  readonly ino: number
}

async function isAt(
  path: string,
  { dev, ino }: FileIdentity,
  { open }: Pick<typeof systemFiles, 'open'>,
): Promise<boolean> {
  try {
    await using file = await open(path, systemFiles.constants.O_RDONLY | systemFiles.constants.O_NONBLOCK)
    const stats = await file.stat()
    return stats.dev === dev && stats.ino === ino
  } catch {
    return false
  }
}
