import { assertOpens, mayAnswer, type ScopedKey } from '@slipway/http'
import {
  agentServerRoutes,
  conversationId,
  type KeyScope,
  Problem,
  parseOrThrow,
  type Route,
} from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { Storage } from '@slipway/storage'
import { getConversationRecord } from '../../core/conversations/conversation-info.ts'
import type { CallAnswer, CallRoute, RouteInput } from '../../core/server/call-route.ts'

type RouteName = keyof typeof agentServerRoutes

/**
 * What one MCP request may do: its key is held to the declarations of the routes that its tools call, and to
 * its scopes where a tool reads the log. Nothing of the door goes past it.
 */
export class Door {
  /** Undefined for a session key, and on a server that requires no key. */
  readonly #key: ScopedKey | undefined
  readonly #call: CallRoute
  readonly storage: Storage
  readonly clock: Clock

  constructor(options: {
    readonly key: ScopedKey | undefined
    readonly call: CallRoute
    readonly storage: Storage
    readonly clock: Clock
  }) {
    this.#key = options.key
    this.#call = options.call
    this.storage = options.storage
    this.clock = options.clock
  }

  /** The only conversation that is seen; undefined: all. */
  get bound(): string | undefined {
    return this.#key?.conversation ?? undefined
  }

  has(scope: KeyScope): boolean {
    if (this.#key === undefined) return true
    return scope === 'answer' ? mayAnswer(this.#key) : this.#key.scopes.includes(scope)
  }

  /** Calls a route that the key opens; otherwise the Problem of a request. */
  async call(name: RouteName, input: Omit<RouteInput, 'caller'>): Promise<CallAnswer> {
    const route: Route = agentServerRoutes[name]
    if (this.#key !== undefined) assertOpens(this.#key, route, input.params ?? {})
    return await this.#call(name, { ...input, caller: this.#key })
  }

  /** Calls a route for a tool that has checked what it is for: no scope opens this one. */
  async callTrusted(name: RouteName, input: RouteInput): Promise<CallAnswer> {
    return await this.#call(name, input)
  }

  /** A Problem `forbidden` without the scope, or when a bound key asks for more than its conversation. */
  assertMay(scope: KeyScope, conversation: 'all' | 'any' = 'any'): void {
    if (!this.has(scope)) throw new Problem('forbidden', `The key has not the scope ${scope} that this needs`)
    if (conversation === 'all' && this.bound !== undefined)
      throw new Problem('forbidden', `The key is bound to the conversation ${this.bound}`)
  }

  /** The record of a conversation that the key may read; another one is not found. */
  async getRecord(id: string) {
    this.assertMay('read')
    const parsed = parseOrThrow(conversationId, id, ['conversation_id'])
    if (this.bound !== undefined && parsed !== this.bound)
      throw new Problem('not_found', `Conversation not found: ${parsed}`)
    return await getConversationRecord(this.storage.conversations, parsed)
  }
}
