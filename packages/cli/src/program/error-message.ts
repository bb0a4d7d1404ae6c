import { CallError, NoAnswerError } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import { visible } from '../output/sanitize.ts'

/** What to tell the user about a failure, and what to do next where we know. Lines without an LF at the end. */
export function inWords(error: unknown): string {
  if (error instanceof CallError) return [visible(error.detail), ...advice(error.status)].join('\n')
  if (!(error instanceof Error)) return visible(String(error))
  const isOurs = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError
  if (isOurs) return `${error.stack}`
  return error instanceof NoAnswerError || error instanceof Problem ? error.message : visible(error.message)
}

function advice(status: number): string[] {
  if (status === 401) return ['Set SLIPWAY_SESSION_API_KEY to the session key of the server.']
  if (status === 404) return ['"slipway conversations" lists what is there.']
  if (status === 503 || status === 429) return ['Try again in a moment.']
  if (status >= 500) return ['The log of the server says more.']
  return []
}
