import { CallError, ConnectionError } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { SandboxRow, StartTaskRow } from '@slipway/storage/control-plane'
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

/** Classes of sandbox failures (wire 3.11) by patterns of the detail; the first match counts. */
const failureClasses: readonly (readonly [words: string, RegExp])[] = [
  ['Its image is not available', /\bimage|\bpull(?:ing)?\b|manifest|registry/i],
  [
    'There is not enough memory or disk space',
    /no space|out of memory|cannot allocate|insufficient|\bENOSPC\b|\bENOMEM\b|\bOOM/i,
  ],
  ['No node matches its requirements', /no matching node|taint|unschedulable|affinity/i],
  ['A device that it needs is missing', /\/dev\/(?:kvm|fuse)|no such device/i],
  [
    'Its configuration is invalid',
    /config|invalid (?:mount|argument|option)|no such file|ENOENT|permission/i,
  ],
  ['It crashed', /exit(?:ed)? (?:code|with|status)|crash|signal|killed/i],
  ['It cannot be reached', /\bDNS\b|\bTLS\b|timed? ?out|connect|did not answer|ECONN/i],
]

/** Explains a sandbox in ERROR or MISSING to its owner. */
export function sandboxError(row: Pick<SandboxRow, 'id' | 'status' | 'detail'>): StartError {
  const { id, status, detail } = row
  if (status === 'MISSING')
    return new StartError(`The sandbox ${id} is MISSING. Start the conversation in another one.`)
  const failureClass = failureClasses.find(([, pattern]) => pattern.test(detail ?? ''))
  const reason = failureClass === undefined ? 'It could not be started, or exited' : failureClass[0]
  const detailText = detail === null || detail === '' ? '' : ` Detail: ${detail}.`
  return new StartError(
    `The sandbox is in ERROR. ${reason}.${detailText} Resume it to try again, or start in another one. Sandbox ${id}.`,
  )
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
