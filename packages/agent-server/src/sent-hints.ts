import { randomUUID } from 'node:crypto'
import type { Hint, Hints } from '@slipway/agent'
import { formatInstant } from '@slipway/protocol'

/** Of pieces that wait for a reader; what comes on top of it is left out. */
const maxWaitingCharacters = 64 * 1024

interface Waiting {
  /** The last event of the log when they were given. */
  readonly position: number
  content: string
  reasoning_content: string
}

/**
 * What a reader of server-sent events is told besides the log. Pieces of an answer wait until the reader has been sent all
 * events before them, and are joined while it is slow; once the event that they became has been sent they are dropped. Of
 * what was used only the last word waits. Nothing of it is stored, and the log never waits for it.
 */
export class SentHints implements Disposable {
  readonly #ring: () => void
  readonly #now: () => number
  #end: (() => void) | undefined
  #pieces: Waiting | undefined
  #stats: { readonly position: number; readonly value: unknown } | undefined

  /** `ring` is called when there is something new to be taken; `now` answers microseconds. */
  constructor(ring: () => void, now: () => number) {
    this.#ring = ring
    this.#now = now
  }

  listen(hints: Pick<Hints, 'listen'>): void {
    this.#end = hints.listen((hint, position) => this.#take(hint, position))
  }

  /** What may be sent now to a reader that has everything up to `position`, as server-sent events. */
  taken(position: number): Buffer[] {
    const events: object[] = []
    if (this.#pieces !== undefined && this.#pieces.position <= position) {
      if (this.#pieces.position === position) events.push(this.#delta(this.#pieces))
      this.#pieces = undefined
    }
    if (this.#stats !== undefined && this.#stats.position <= position) {
      const { value } = this.#stats
      events.push(this.#event('environment', { key: 'stats', value, kind: 'ConversationStateUpdateEvent' }))
      this.#stats = undefined
    }
    return events.map((event) => Buffer.from(`event: hint\ndata: ${JSON.stringify(event)}\n\n`))
  }

  [Symbol.dispose](): void {
    this.#end?.()
  }

  #take(hint: Hint, position: number): void {
    if (hint.kind === 'rest') return
    if (hint.kind === 'stats') this.#stats = { position, value: hint.value }
    else this.#add(hint, position)
    this.#ring()
  }

  #add(piece: { readonly content?: string; readonly reasoning_content?: string }, position: number): void {
    if (this.#pieces?.position !== position) this.#pieces = { position, content: '', reasoning_content: '' }
    const { content = '', reasoning_content = '' } = piece
    const waiting = this.#pieces
    const size = waiting.content.length + waiting.reasoning_content.length
    if (size + content.length + reasoning_content.length > maxWaitingCharacters) return
    waiting.content += content
    waiting.reasoning_content += reasoning_content
  }

  #delta({ content, reasoning_content }: Waiting): object {
    return this.#event('agent', {
      ...(content === '' ? {} : { content }),
      ...(reasoning_content === '' ? {} : { reasoning_content }),
      kind: 'StreamingDeltaEvent',
    })
  }

  #event(source: 'agent' | 'environment', members: object): object {
    return { id: randomUUID(), timestamp: formatInstant(this.#now()), source, ...members }
  }
}
