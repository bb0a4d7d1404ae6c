import { CallError, ConnectionError } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import { sanitizeLine } from '../output/sanitize.ts'

/** What to tell the user about a failure, and what to do next where we know. Lines without an LF at the end. */
export function errorMessage(error: unknown): string {
  if (error instanceof CallError) return [sanitizeLine(error.detail), ...advice(error.status)].join('\n')
  if (!(error instanceof Error)) return sanitizeLine(String(error))
  const isInternal =
    error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError
  if (isInternal) return `${error.stack}`
  return error instanceof ConnectionError || error instanceof Problem
    ? error.message
    : sanitizeLine(error.message)
}

function advice(status: number): string[] {
  if (status === 401) return ['Set SLIPWAY_SESSION_API_KEY to the session key of the server.']
  if (status === 404) return ['"slipway conversations" lists what is there.']
  if (status === 503 || status === 429) return ['Try again in a moment.']
  if (status >= 500) return ['The log of the server says more.']
  return []
}
