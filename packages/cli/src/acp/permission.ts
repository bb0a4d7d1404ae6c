import {
  type AgentContext,
  methods,
  type PermissionOption,
  RequestError,
} from '@agentclientprotocol/sdk/unstable'
import type { JsonObject } from '../output/action-text.ts'
import { alwaysPattern } from '../session/pending-text.ts'
import { toToolCall } from './tool-calls.ts'

/** `stop`: the editor has no answer, so nothing is done. */
export type Permission =
  | { readonly kind: 'once' | 'reject' | 'stop' }
  | { readonly kind: 'always'; readonly pattern: string }

/**
 * Asks the user of the editor about each action that waits, until one is refused: the server takes one
 * answer for all of them. `signal` aborts when another screen has answered.
 */
export async function askPermission(
  peer: AgentContext,
  sessionId: string,
  { actions, signal }: { readonly actions: readonly JsonObject[]; readonly signal: AbortSignal },
): Promise<Permission> {
  const pattern = alwaysPattern(actions)
  const always: PermissionOption[] =
    pattern === undefined
      ? []
      : [{ optionId: 'always', kind: 'allow_always', name: `Always allow: ${pattern}` }]
  for (const action of actions) {
    const { outcome } = await peer.request(
      methods.client.session.requestPermission,
      {
        sessionId,
        toolCall: toToolCall(action),
        options: [
          { optionId: 'once', kind: 'allow_once', name: 'Allow' },
          ...always,
          { optionId: 'reject', kind: 'reject_once', name: 'Reject' },
        ],
      },
      { cancellationSignal: signal, stopWaitingOnCancel: true },
    )
    if (outcome.outcome === 'cancelled') return { kind: 'stop' }
    if (outcome.optionId === 'always' && pattern !== undefined) return { kind: 'always', pattern }
    if (outcome.optionId === 'reject') return { kind: 'reject' }
    if (outcome.optionId !== 'once')
      throw new RequestError(-32602, `There is no option ${outcome.optionId}: nothing was allowed.`)
  }
  return { kind: 'once' }
}
