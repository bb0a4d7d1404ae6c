import type { ModelDelta, ModelRetry } from '../../llm/model.ts'

/** A reply that is streamed: the id of its event, and how often its stream was begun. */
interface StreamedItem {
  readonly id: string
  /** From 1. */
  readonly attempt: number
}

/**
 * Sent and never stored; losing it does no harm: deltas of a reply, usage, members beside the log, the end of
 * a run.
 */
export type TransientUpdate =
  | ({
      readonly kind: 'delta'
      /** The creator of the conversation asked for deltas (`llm.stream`). */
      readonly isStreamRequested?: boolean
      readonly item?: StreamedItem
      /** Counts the deltas of an attempt, from 0. */
      readonly order?: number
    } & ModelDelta)
  /** The deltas of the current reply are void: its stream broke. */
  | { readonly kind: 'reset' }
  /** The model failed and is asked again. */
  | ({ readonly kind: 'retry' } & ModelRetry)
  /** Deltas of a reply that becomes no event. */
  | { readonly kind: 'reply_aborted'; readonly item: StreamedItem; readonly reason: string }
  /**
   * `isAside`: after a reply beside the agent loop, such as a title. `isStored`: the log has an update that
   * says the same.
   */
  | {
      readonly kind: 'stats'
      readonly value: unknown
      readonly isAside?: boolean
      readonly isStored?: boolean
    }
  /** A member of the conversation that its log does not have: title, tags, names of secrets. */
  | { readonly kind: 'member'; readonly key: string; readonly value: unknown }
  | { readonly kind: 'idle' }

/** `position` is that of the conversation's last event. */
type TransientListener = (update: TransientUpdate, position: number) => void

/** The listeners of a conversation, whether it is loaded or not. */
export class TransientUpdates {
  readonly #listeners = new Set<TransientListener>()
  /** The newest wait for a model that failed: readers that come meanwhile get it too. */
  #retry:
    | { readonly update: TransientUpdate & { kind: 'retry' }; readonly position: number; readonly at: number }
    | undefined

  /** Returns a function that ends the subscription. */
  subscribe(listener: TransientListener): () => void {
    this.#listeners.add(listener)
    if (this.#retry !== undefined) {
      const { update, position, at } = this.#retry
      const waitMs = update.waitMs - (Date.now() - at)
      if (waitMs > 0) listener({ ...update, waitMs }, position)
    }
    return () => this.#listeners.delete(listener)
  }

  publish(update: TransientUpdate, position: number): void {
    if (update.kind === 'retry') {
      this.#retry = { update, position, at: Date.now() }
    } else if (update.kind === 'idle' || update.kind === 'delta') this.#retry = undefined
    for (const listener of this.#listeners) listener(update, position)
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }
}
