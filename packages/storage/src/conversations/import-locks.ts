import { Problem } from '@slipway/protocol'

/** Conversations locked for appends by an import, or by the removal of an unfinished one. */
export class ImportLocks {
  readonly #held = new Map<string, Problem>()

  acquire(conversation: string): void {
    this.assertFree(conversation)
    this.#held.set(conversation, new Problem('busy', 'An import into the conversation is under way'))
  }

  release(conversation: string): void {
    this.#held.delete(conversation)
  }

  /** The rest of an import waits for the storage: callers get this reason. */
  explain(conversation: string, { code, message }: Problem): void {
    this.#held.set(conversation, new Problem(code, message))
  }

  /** Throws a Problem while the conversation is locked, `busy` unless there is another reason. */
  assertFree(conversation: string): void {
    const problem = this.#held.get(conversation)
    if (problem !== undefined) throw problem
  }
}
