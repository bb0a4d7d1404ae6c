import { randomBytes } from 'node:crypto'
import { type LogFunction, Problem } from '@slipway/protocol'
import { errorStack } from './logger.ts'

/**
 * Tells the log, once, of what the caller is not to blame for, and answers the id by which it is found there. Our own mistakes
 * are errors; what the world refuses us (a full disk, a server that does not answer) is a warning.
 */
export function reportError(
  log: LogFunction,
  message: string,
  error: unknown,
  members: Readonly<Record<string, unknown>> = {},
): string {
  const error_id = randomBytes(8).toString('hex')
  const isInternal = !(error instanceof Problem)
  // Where a refusal comes from is plain; what lies behind it is not.
  const reason = isInternal || error.cause !== undefined ? errorStack(error) : error.message
  log(isInternal ? 'error' : 'warn', message, { error_id, ...members, error: reason })
  return error_id
}
