import type { ModelDelta } from '../../llm/model.ts'

/**
 * What is sent and never stored: pieces of an answer on their way, what was used so far, and that a run has ended. Losing one
 * is no harm.
 */
export type TransientUpdate =
  | ({
      readonly kind: 'delta'
      /** The creator of the conversation asked for pieces (`llm.stream`). */
      readonly isStreamRequested?: boolean
    } & ModelDelta)
  | { readonly kind: 'stats'; readonly value: unknown }
  | { readonly kind: 'idle' }

/** `position` of the last event that the conversation has written. */
type TransientListener = (hint: TransientUpdate, position: number) => void

/** Those who listen to the hints of a conversation, whether it is loaded or not. */
export class TransientUpdates {
  readonly #listeners = new Set<TransientListener>()

  /** Answers what ends it. */
  subscribe(listener: TransientListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  publish(hint: TransientUpdate, position: number): void {
    for (const listener of this.#listeners) listener(hint, position)
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }
}
