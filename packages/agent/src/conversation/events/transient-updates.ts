import type { Delta } from '../../llm/model.ts'

/**
 * What is sent and never stored: pieces of an answer on their way, what was used so far, and that a run has ended. Losing one
 * is no harm.
 */
export type Hint =
  | ({
      readonly kind: 'delta'
      /** The creator of the conversation asked for pieces (`llm.stream`). */
      readonly isAsked?: boolean
    } & Delta)
  | { readonly kind: 'stats'; readonly value: unknown }
  | { readonly kind: 'rest' }

/** `position` of the last event that the conversation has written. */
type Listener = (hint: Hint, position: number) => void

/** Those who listen to the hints of a conversation, whether it is loaded or not. */
export class Hints {
  readonly #listeners = new Set<Listener>()

  /** Answers what ends it. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  give(hint: Hint, position: number): void {
    for (const listener of this.#listeners) listener(hint, position)
  }

  get isHeard(): boolean {
    return this.#listeners.size > 0
  }
}
