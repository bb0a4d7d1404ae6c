import { CallError, ConnectionError } from '@slipway/client'
import { Problem, type SandboxInfo } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { StartTaskRow } from '@slipway/storage/control-plane'
import { PrepareError } from './prepare-workspace.ts'

/** Whether a task copies a conversation; see `fork.ts`. */
export function isFork({ request }: Pick<StartTaskRow, 'request'>): boolean {
  const parsed = parseJson(request)
  return isRecord(parsed) && parsed.forked_from_conversation_id !== undefined
}

/** A start that failed. `message` is for the owner. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

export const conversationDeletedError = new StartError(
  'The conversation was deleted while it was being started.',
)

export function interruptedError(row: Pick<StartTaskRow, 'status' | 'request'>): StartError {
  const { status } = row
  return new StartError(
    isFork(row)
      ? `The server was restarted while this fork was in ${status}. Nothing of it is left: fork the conversation again.`
      : `The server was restarted while this start was in ${status}. Start it again with the same conversation_id.`,
  )
}

/** What of a sandbox says why it does not run. */
export type SandboxFailure = Pick<SandboxInfo, 'id' | 'status' | 'status_detail' | 'status_reason'>

/** Explains a sandbox in ERROR or MISSING to its owner, in the words of its `status_reason`. */
export function sandboxError({ id, status, status_detail, status_reason }: SandboxFailure): StartError {
  if (status === 'MISSING')
    return new StartError(`The sandbox ${id} is MISSING. Start the conversation in another one.`)
  const detail = status_detail === null ? '' : ` Detail: ${endSentence(status_detail)}`
  const next = status_reason === null ? '' : ` Try next: ${status_reason.next_command}, or another sandbox.`
  return new StartError(
    `The sandbox is in ERROR. ${status_reason?.message ?? ''}${detail}${next} Sandbox ${id}.`,
  )
}

function endSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** The detail of a failed start; undefined for an internal error. May contain secrets. */
export function explainError(error: unknown): string | undefined {
  if (error instanceof StartError || error instanceof PrepareError) return error.message
  if (error instanceof Problem) return error.message
  if (error instanceof CallError)
    return `The agent server of the sandbox refused with ${error.status}: ${error.detail}`
  if (error instanceof ConnectionError) return 'The agent server of the sandbox did not answer.'
  if (error instanceof Error && error.name === 'TimeoutError')
    return 'The agent server of the sandbox did not answer in time.'
  return error instanceof TypeError && error.message === 'fetch failed'
    ? 'The agent server of the sandbox cannot be reached.'
    : undefined
}
