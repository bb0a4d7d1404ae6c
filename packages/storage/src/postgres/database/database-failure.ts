import { Problem, storageFullProblem, storageUnavailableProblem } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import pg from 'pg'

const { DatabaseError } = pg

/**
 * SQLSTATE classes and codes of failures that pass: connections, shutdown, resources, locks, a standby or
 * closed database.
 */
const passing = /^(08|28|53|57P|58000$|58030$|25006$|25P0[34]$|3D000$|40001$|40P01$|55000$|55P03$|57014$)/
const diskFullState = '53100'
const readOnlyState = '25006'
/** A pooler refuses a parameter of the address, and names it. */
const protocolViolation = '08P01'
/** The statement failed, and the connection continues. */
const connected = /^(40001|40P01|55P03|57014|53100)$/

/** The Problem for an error of the driver when it is a failure of the database, or of the way to it. */
export function toDatabaseProblem(error: unknown): unknown {
  if (error instanceof TypeError || error instanceof RangeError) return error
  if (!(error instanceof DatabaseError))
    return storageUnavailableProblem(`The database cannot be reached: ${connectionReason(error)}`, error)
  const state = error.code ?? ''
  if (state === diskFullState) return storageFullProblem(error)
  if (state === readOnlyState) return readOnlyProblem(error)
  if (!passing.test(state)) return error
  const reason = state === protocolViolation ? `: ${error.message}` : ''
  return storageUnavailableProblem(`The database cannot be used (SQLSTATE ${state})${reason}`, error)
}

export function readOnlyProblem(cause: unknown = new Error('transaction_read_only is on')): Problem {
  const detail = 'The database takes no writes: it is a standby, or default_transaction_read_only is on'
  return storageUnavailableProblem(detail, cause)
}

/** The database or the connection is lost, for all statements. */
export function isConnectionFailure(error: unknown): boolean {
  if (!(error instanceof Problem) || error.retryAfterSeconds === undefined) return false
  const { cause } = error
  return cause instanceof DatabaseError ? !connected.test(cause.code ?? '') : cause instanceof Error
}

/** A row with the same key exists. */
export function isUniqueViolation(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '23505'
}

const noTls = 'The server does not support SSL connections'

/** The errors of the driver name hosts and users, never a password. */
function connectionReason(error: unknown): string {
  if (error instanceof Error && error.message === noTls) return 'it does not support TLS'
  const code = errorCode(error)
  return code !== undefined && /^[A-Z][A-Z_]+$/.test(code) ? code : 'the connection failed'
}
