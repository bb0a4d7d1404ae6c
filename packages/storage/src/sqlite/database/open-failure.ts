import { statfsSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errorCode, makeDirectory } from '@slipway/shared/fs'
import { resultCode } from './storage-failure.ts'

/** SQLite needs more for its index of the write-ahead log. */
const minFreeBytes = 64 * 1024

/** Why a database file cannot be opened, and what to do. `freeBytes`: of its disk. */
export function openFailure(path: string, cause: unknown, freeBytes = measureFree(dirname(path))): string {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const examine = `"slipway doctor --data ${dirname(path)}" examines it, "slipway restore" writes a backup.`
  const code = resultCode(cause)
  // SQLite calls it an I/O error where it cannot make its shared memory.
  if (code === 13 || (code === 10 && freeBytes < minFreeBytes)) return 'the disk is full. Make room.'
  switch (code) {
    case 11:
    case 26:
      return `${reason}. It is damaged, or not written by Slipway: ${examine}`
    case 14:
      return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
        ? 'it is a directory. Name another data directory, or move it away.'
        : `${reason}. Check the rights of ${dirname(path)} and the number of open files.`
    default:
      return reason
  }
}

function measureFree(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

const directoryReasons: Readonly<Record<string, string>> = {
  EEXIST: 'it is a file',
  ENOTDIR: 'a part of its path is a file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
}

/**
 * Creates a data directory, for this user alone, which git ignores: it has keys. Rejects with an Error that
 * says why, and what to do.
 */
export async function makeDataDirectory(directory: string): Promise<void> {
  try {
    const created = await makeDirectory(directory, 0o700)
    // An earlier version made the default directories without the file; others may be somebody's repository.
    if (created === undefined && !/^\.slipway(-sandboxes)?$/.test(basename(directory))) return
    await writeFile(join(directory, '.gitignore'), '*\n', { flag: 'wx', mode: 0o600 }).catch((error) => {
      if (errorCode(error) !== 'EEXIST') throw error
    })
  } catch (cause) {
    const reason =
      directoryReasons[errorCode(cause) ?? ''] ?? (cause instanceof Error ? cause.message : cause)
    throw new Error(
      `the data directory ${directory} cannot be used: ${reason}. Name another one with --data.`,
      {
        cause,
      },
    )
  }
}
