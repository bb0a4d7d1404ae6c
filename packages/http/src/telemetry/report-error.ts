import { randomBytes } from 'node:crypto'
import { type LogFunction, Problem } from '@slipway/protocol'
import { errorStack } from './logger.ts'

/**
 * Logs an error that is not the caller's fault and returns its id in the log. Internal errors have the level
 * `error`; failures of the environment (a full disk, a server that does not answer) have the level `warn`.
 */
export function reportError(
  log: LogFunction,
  message: string,
  error: unknown,
  members: Readonly<Record<string, unknown>> = {},
): string {
  const error_id = randomBytes(8).toString('hex')
  const isInternal = !(error instanceof Problem)
  // The stack of a Problem says nothing; its cause does.
  const reason = isInternal || error.cause !== undefined ? errorStack(error) : error.message
  log(isInternal ? 'error' : 'warn', message, { error_id, ...members, error: reason })
  return error_id
}
