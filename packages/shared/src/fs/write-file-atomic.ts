import * as systemFiles from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/**
 * Creates or replaces a file atomically: a reader sees the old content or the new one, also after a crash,
 * and the new one is durable when the promise resolves. Mode 0600. One writer of a path at a time. Rejects
 * with the system's error (`ENOSPC`, ...) and leaves the old file unchanged.
 */
export async function writeFileAtomic(
  path: string,
  content: string | Uint8Array,
  files: Pick<typeof systemFiles, 'open' | 'rename' | 'rm'> = systemFiles,
): Promise<void> {
  const { open, rename, rm } = files
  const draft = join(dirname(path), `.${basename(path)}.draft`)
  try {
    await rm(draft, { force: true })
    await using file = await open(draft, 'wx', 0o600)
    await file.writeFile(content)
    await file.sync()
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {})
    throw error
  }
  await rename(draft, path)
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
