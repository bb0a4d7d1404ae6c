import { randomUUID } from 'node:crypto'
import type { ModelDelta } from '../../llm/model.ts'
import type { ConversationContext } from '../runtime/conversation-context.ts'

/**
 * Publishes the deltas of one reply under the id that its first event will have. Holds back a possible
 * beginning of a secret. Each reply whose deltas were published either becomes an event or is ended by
 * `abort`.
 */
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
      // Listeners that come later know that they miss the beginning.
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
