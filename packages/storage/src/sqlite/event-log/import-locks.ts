import { Problem } from '@slipway/protocol'

/** Conversations locked for appends by an import, or by the removal of an unfinished one. */
export class ImportLocks {
  readonly #held = new Set<string>()

  acquire(conversation: string): void {
    this.assertFree(conversation)
    this.#held.add(conversation)
  }

  release(conversation: string): void {
    this.#held.delete(conversation)
  }

  /** Throws a Problem `busy` while the conversation is locked. */
  assertFree(conversation: string): void {
    if (this.#held.has(conversation))
      throw new Problem('busy', 'An import into the conversation is under way')
  }
}
