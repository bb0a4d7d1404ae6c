import { RequestError } from '@agentclientprotocol/sdk/unstable'
import { CallError, ConnectionError } from '@slipway/client'
import { Problem } from '@slipway/protocol/client'
import { sanitizeLine } from '../output/sanitize.ts'

const invalidParams = -32602
const internalError = -32603

/** What an editor shows of a failure: what happened, and what to do next. */
export function toRequestError(error: unknown): RequestError {
  if (error instanceof RequestError) return error
  if (error instanceof CallError) {
    const next = error.status >= 500 ? '. The log of the server has more.' : ''
    return new RequestError(
      error.status < 500 ? invalidParams : internalError,
      sanitizeLine(error.detail) + next,
    )
  }
  if (error instanceof ConnectionError || error instanceof Problem)
    return new RequestError(internalError, error.message)
  return new RequestError(
    internalError,
    error instanceof Error ? sanitizeLine(error.message) : 'Internal error',
  )
}

/** Of a session that the server does not have; the id may be none of a conversation at all. */
export function isUnknownSession(error: unknown): boolean {
  return error instanceof CallError && (error.status === 404 || error.status === 422)
}
