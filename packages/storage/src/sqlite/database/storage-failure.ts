import { basename } from 'node:path'
import { Problem, storageFullProblem, storageUnavailableProblem } from '@slipway/protocol/problem'
import { errorCode } from '@slipway/shared/fs'

export { isStorageFailure } from '@slipway/protocol/problem'

/** Failures by SQLite's primary result code. */
const reasons: Readonly<Record<number, string>> = {
  3: 'permission denied',
  5: 'another process holds a lock on it',
  6: 'another process holds a lock on it',
  7: 'no memory is left',
  8: 'the file or its disk is read-only, or the file was moved',
  10: 'the disk reports errors',
  11: 'it is damaged',
  14: 'a file cannot be opened',
  26: 'it is not a database',
}
const fullCode = 13
const lockedCodes = new Set<number | undefined>([5, 6])
const notDatabaseCode = 26
const damagedCodes = new Set<number | undefined>([11, notDatabaseCode])

const failedFiles = new WeakMap<object, string>()

/** The database that a Problem of this module is about. */
export function failedFile(error: unknown): string | undefined {
  return error instanceof Problem ? failedFiles.get(error) : undefined
}

/** The Problem for a failure of the disk or a foreign lock; any other error is returned as it is. */
export function toStorageProblem(error: unknown, path: string): unknown {
  if (error instanceof Problem) return error
  const code = resultCode(error)
  if (code === fullCode) return storageFullProblem(error)
  const isClosed = errorCode(error) === 'ERR_INVALID_STATE'
  const reason = isClosed ? 'it is closed' : reasons[code ?? -1]
  if (reason !== undefined) {
    const problem = storageUnavailableProblem(`${basename(path)} cannot be used: ${reason}`, error)
    failedFiles.set(problem, path)
    return problem
  }
  const system = errorCode(error)
  return system === undefined || !/^E[A-Z]+$/.test(system)
    ? error
    : storageUnavailableProblem(`${basename(path)} cannot be used: ${system}`, error)
}

/** An open file is not at its path any more. */
class FileMovedError extends Error {
  override readonly name = 'FileMovedError'
}

/** The Problem for a file that was removed, moved away or replaced while it is open. */
export function movedProblem(path: string): Problem {
  const name = basename(path)
  return storageUnavailableProblem(
    `${name} was removed or replaced while the server uses it: nothing is stored until it is back at its path`,
    new FileMovedError(`${path} is not the open file`),
  )
}

export function isMoved(error: unknown): boolean {
  return error instanceof Problem && error.cause instanceof FileMovedError
}

/**
 * Primary result code of an SQLite error, or of the Problem that it caused; undefined for any other error.
 */
export function resultCode(error: unknown): number | undefined {
  const cause = error instanceof Problem ? error.cause : error
  if (!(cause instanceof Error) || !('errcode' in cause) || typeof cause.errcode !== 'number')
    return undefined
  return cause.errcode & 0xff
}

export function isLocked(error: unknown): boolean {
  return lockedCodes.has(resultCode(error))
}

/** A page of the file is wrong, which concerns what is on it: the rest can be read and written. */
export function isDamaged(error: unknown): boolean {
  return damagedCodes.has(resultCode(error))
}

/** The first page of the file is wrong: nothing of it can be used. */
export function isNotDatabase(error: unknown): boolean {
  return resultCode(error) === notDatabaseCode
}

/** A failure after which writes that are smaller may still succeed. */
export function isDiskFull(error: unknown): boolean {
  return error instanceof Problem && error.code === 'storage_full'
}
