import { open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Problem } from '@slipway/protocol'

/**
 * Puts a text where a file is or shall be: a reader sees all of the old one or all of the new one, also after a crash, and it
 * is on the disk when the promise resolves. Only its owner may read it. One writer of a path at a time. A full disk is a
 * Problem `storage_full`; then, as after any failure, the old file is as it was.
 */
export async function writeFileAtomic(path: string, text: string): Promise<void> {
  const temporaryPath = join(dirname(path), `.${basename(path)}.draft`)
  try {
    await rm(temporaryPath, { force: true })
    await using file = await open(temporaryPath, 'wx', 0o600)
    await file.writeFile(text)
    await file.sync()
  } catch (error) {
    await rm(temporaryPath, { force: true }).catch(() => {})
    throw toStorageProblem(error)
  }
  await rename(temporaryPath, path)
  await syncDirectory(dirname(path))
}

/** Makes it last that files of a directory were renamed or removed. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows opens no directories, and keeps what was renamed by itself.
  if (process.platform === 'win32') return
  await using directory = await open(path, 'r')
  await directory.sync()
}

function toStorageProblem(cause: unknown): unknown {
  const code = errorCode(cause)
  return code === 'ENOSPC' || code === 'EDQUOT' ? new Problem('storage_full', 'The disk is full') : cause
}

/** The system's code of an error (`ENOENT`), undefined when it has none. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
