import { type KeyScope, Problem, type Route } from '@slipway/protocol'

/** A key that opens the routes of its scopes alone, where a session key opens all. */
export interface ScopedKey {
  readonly id: string
  readonly scopes: readonly KeyScope[]
  /** The only conversation that it sees; it answers no question then. */
  readonly conversation: string | null
}

/** How every key with scopes begins: a request with another one needs no look-up. */
export const scopedKeyPrefix = 'sk-slipway-'

/** Whether a caller, as handlers get it, may answer what waits for a person. Session keys may. */
export function mayAnswer(caller: unknown): boolean {
  const key = caller as ScopedKey | undefined
  return key === undefined || (key.conversation === null && key.scopes.includes('answer'))
}

/**
 * A Problem `forbidden` when the key does not open the route, and `not_found` for another conversation than
 * its own, as for one that does not exist. `params`: the decoded parameters of the path.
 */
export function assertOpens(
  key: ScopedKey,
  { scope, params: schema }: Pick<Route, 'scope' | 'params'>,
  params: unknown,
): void {
  if (scope === undefined)
    throw new Problem('forbidden', 'This needs a session key: a key with scopes may not')
  if (scope === 'any') return
  if (!key.scopes.includes(scope))
    throw new Problem('forbidden', `The key has not the scope ${scope} that this needs`)
  if (key.conversation === null) return
  if (scope === 'answer')
    throw new Problem('forbidden', 'A key that is bound to a conversation answers no question')
  const { conversation_id: id }: { conversation_id?: unknown } = Object(schema?.safeParse(params).data)
  if (id === undefined && Object(params).conversation_id === undefined)
    throw new Problem('forbidden', 'A key that is bound to a conversation opens routes of that one only')
  if (id !== key.conversation)
    throw new Problem('not_found', `Conversation not found: ${id ?? Object(params).conversation_id}`)
}
