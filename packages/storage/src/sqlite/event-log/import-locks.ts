import { Problem } from '@slipway/protocol'

/** Conversations whose pen an import holds, or the removal of what an import left behind. */
export class ImportLocks {
  readonly #held = new Set<string>()

  acquire(conversation: string): void {
    this.assertFree(conversation)
    this.#held.add(conversation)
  }

  release(conversation: string): void {
    this.#held.delete(conversation)
  }

  /** A Problem `busy` while somebody holds it. */
  assertFree(conversation: string): void {
    if (this.#held.has(conversation))
      throw new Problem('busy', 'An import into the conversation is under way')
  }
}
