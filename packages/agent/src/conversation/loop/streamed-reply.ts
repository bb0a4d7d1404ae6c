/**
 * The progress of one reply of a model, shown before its event is stored.
 *
 * Problem: clients show a reply while it comes in, but only whole events are stored. A client has to know
 * which event the pieces become, which of them a repeated attempt replaces, and that no event will come. A
 * secret may be split between two pieces.
 *
 * Idea: the id of the reply's first event is chosen before the model is asked; `call-model.ts` and
 * `external/external-turn.ts` store that event under it. Each piece has the attempt and its number in that
 * attempt. Texts pass through a redacting stream that holds back what may be the beginning of a secret.
 *
 * Invariants:
 * - A reply of which a piece was published becomes an event with its id, or is ended by `abort`. So the
 *   caller calls `end`, then stores or aborts, on every way out, errors included.
 * - Pieces are numbered also while no one listens (`add`): who comes later sees that the beginning is
 *   missing.
 * - `reset` drops what was held back, and begins a new attempt at number 0.
 * - Reasoning is flushed before the first piece of the text (`add`), so the pieces are in order.
 * - Nothing of this is stored: a client that reads the log alone misses nothing.
 *
 * If you change this: clients show a text twice, or keep one that never becomes a message. The frames are
 * those of `docs/streams.md`.
 *
 * Decision page: docs/decisions/0032-session-socket.md
 */

import { randomUUID } from 'node:crypto'
import type { ModelDelta } from '../../llm/model.ts'
import type { ConversationContext } from '../runtime/conversation-context.ts'

/** Publishes the deltas of one reply under the id that its first event will have. */
export class StreamedReply {
  /** The id of the reply's message, or of its first action. */
  readonly id = randomUUID()
  readonly #context: ConversationContext
  readonly #isStreamRequested: boolean
  #attempt = 1
  #order = 0
  #isPublished = false
  #text: ReturnType<ConversationContext['secrets']['stream']>
  #reasoning: ReturnType<ConversationContext['secrets']['stream']>

  /** `isStreamRequested`: the creator of the conversation asked for deltas. */
  constructor(context: ConversationContext, isStreamRequested: boolean) {
    this.#context = context
    this.#isStreamRequested = isStreamRequested
    this.#text = context.secrets.stream()
    this.#reasoning = context.secrets.stream()
  }

  readonly add = ({ content, reasoning_content }: ModelDelta): void => {
    if (!this.#context.transientUpdates.hasListeners) {
      this.#order++
      return
    }
    if (reasoning_content !== undefined)
      this.#send('reasoning_content', this.#reasoning.add(reasoning_content))
    if (content === undefined) return
    this.#send('reasoning_content', this.#reasoning.end())
    this.#send('content', this.#text.add(content))
  }

  /** The stream broke, and the next attempt begins. Also drops what was held back. */
  readonly reset = (): void => {
    const { secrets, transientUpdates, publish } = this.#context
    this.#text = secrets.stream()
    this.#reasoning = secrets.stream()
    this.#attempt++
    this.#order = 0
    if (transientUpdates.hasListeners) publish({ kind: 'reset' })
  }

  end(): void {
    this.#send('reasoning_content', this.#reasoning.end())
    this.#send('content', this.#text.end())
  }

  /** No event has the id. `reason`: `cancelled`, the code of a failure, or `no_durable_event`. */
  abort(reason: string): void {
    if (!this.#isPublished) return
    this.#isPublished = false
    this.#context.publish({ kind: 'reply_aborted', item: this.#item, reason })
  }

  get #item() {
    return { id: this.id, attempt: this.#attempt }
  }

  #send(member: keyof ModelDelta, piece: string): void {
    if (piece === '') return
    this.#isPublished = true
    const isStreamRequested = this.#isStreamRequested
    const order = this.#order++
    this.#context.publish({ kind: 'delta', isStreamRequested, item: this.#item, order, [member]: piece })
  }
}
