import type { MemberChanges } from '@slipway/shared/json'

/** One document, as bytes, for each owner and name (settings, profiles, secrets). */
export interface DocumentStore {
  get(owner: string, name: string): Promise<Buffer | undefined>
  /** The names of an owner's documents, in no order. */
  list(owner: string): Promise<readonly string[]>
  /**
   * Replaces a document by what `make` returns for the current bytes; undefined removes it. Updates of a
   * document are serialized and durable when they resolve; one whose `make` throws rejects and changes
   * nothing. `describe` says what changes, where changes are audited.
   */
  update(
    owner: string,
    name: string,
    make: (old: Buffer | undefined) => Buffer | undefined,
    describe?: () => MemberChanges,
  ): Promise<void>
}
