import { Problem } from '@slipway/protocol'

/** The server that has the lease of a conversation. `url` is undefined while it cannot be reached yet. */
export type LeaseHolder =
  | { readonly isOwn: true }
  | { readonly isOwn: false; readonly url: string | undefined }

/**
 * Leases of conversations, where several servers share a database: one server at a time may write a
 * conversation and run it. A lease is valid as long as the registration of its server, which is renewed; the
 * database refuses writes of a server that has lost it.
 */
export interface ConversationLeases {
  /** Takes the lease when it is free. A conversation that does not exist counts as own. */
  acquire(conversation: string): Promise<LeaseHolder>
  /** Gives the lease back. Call it when nothing writes any more. */
  release(conversation: string): Promise<void>
  /** Gives back the leases that were not asked for in the last minute, but those that are in use. */
  releaseUnused(isUsed: (conversation: string) => boolean): Promise<void>
  /** Sets the address by which other servers reach this one. */
  announce(url: string): Promise<void>
  /**
   * Calls back when this server has lost all leases that it had: what runs must end, and can write nothing.
   * Leases are acquired again when the listener has resolved.
   */
  onLost(listener: () => Promise<void>): void
  /** Calls back with conversations that were running or waiting on servers that are gone. */
  onOrphans(listener: (conversations: readonly string[]) => Promise<void>): void
}

/** A Problem `unavailable`: another server has the lease of the conversation. */
export class HeldElsewhereError extends Problem {
  override readonly name = 'HeldElsewhereError'

  constructor() {
    super('unavailable', 'Another server has this conversation at the moment')
    this.retryAfterSeconds = 1
  }
}
