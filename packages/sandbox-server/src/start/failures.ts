import { CallError, NoAnswerError } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import type { SandboxRow, StartTaskRow } from '@slipway/storage'
import { NotPrepared } from './prepare-workspace.ts'

/** A start that cannot go on. `message` is for the owner. */
export class StartFailed extends Error {}

/** The start was ended on purpose: the conversation was deleted. */
export const deleted = new StartFailed('The conversation was deleted while it was being started.')

/** The server stops, or has died: nobody goes on with the start. */
export function interrupted({ status }: Pick<StartTaskRow, 'status'>): StartFailed {
  return new StartFailed(
    `The server was restarted while this start was in ${status}. Start it again with the same conversation_id.`,
  )
}

/** Classes of what goes wrong with a sandbox (wire 3.11), by what its detail says. The first that fits. */
const classes: readonly (readonly [words: string, RegExp])[] = [
  ['Its image cannot be had', /\bimage|\bpull(?:ing)?\b|manifest|registry/i],
  [
    'There is no room for it',
    /no space|out of memory|cannot allocate|insufficient|\bENOSPC\b|\bENOMEM\b|\bOOM/i,
  ],
  ['No place for it fits', /no matching node|taint|unschedulable|affinity/i],
  ['A device that it needs is missing', /\/dev\/(?:kvm|fuse)|no such device/i],
  [
    'It is not configured rightly',
    /config|invalid (?:mount|argument|option)|no such file|ENOENT|permission/i,
  ],
  ['It crashed', /exit(?:ed)? (?:code|with|status)|crash|signal|killed/i],
  ['It cannot be reached', /\bDNS\b|\bTLS\b|timed? ?out|connect|did not answer|ECONN/i],
]

/** Why a sandbox in ERROR or MISSING is of no use, in words for its owner. */
export function sandboxFailure(row: Pick<SandboxRow, 'id' | 'status' | 'detail'>): StartFailed {
  const { id, status, detail } = row
  if (status === 'MISSING')
    return new StartFailed(`Nothing is left of the sandbox ${id}. Start the conversation in another one.`)
  const known = classes.find(([, pattern]) => pattern.test(detail ?? ''))
  const why = known === undefined ? 'It could not be started, or ended by itself' : known[0]
  const said = detail === null || detail === '' ? '' : ` It says: ${detail}.`
  return new StartFailed(
    `The sandbox is in ERROR. ${why}.${said} Resume it to try again, or start in another one. Sandbox ${id}.`,
  )
}

/** What a start says when it ends with an error; undefined when it is a mistake of ours. May hold secrets. */
export function explained(error: unknown): string | undefined {
  if (error instanceof StartFailed || error instanceof NotPrepared) return error.message
  if (error instanceof Problem) return error.message
  if (error instanceof CallError)
    return `The agent server of the sandbox refused with ${error.status}: ${error.detail}`
  if (error instanceof NoAnswerError) return 'The agent server of the sandbox did not answer.'
  if (error instanceof Error && error.name === 'TimeoutError')
    return 'The agent server of the sandbox did not answer in time.'
  return error instanceof TypeError && error.message === 'fetch failed'
    ? 'The agent server of the sandbox cannot be reached.'
    : undefined
}
