import { randomUUID } from 'node:crypto'
import type { Hint } from '@slipway/agent'
import { formatInstant } from '@slipway/protocol'

/** Of pieces that wait for a reader; what comes on top of it is left out. */
const maxWaitingCharacters = 64 * 1024

/** Pieces of an answer, joined; `position` is the end of the log when they were given. */
interface Pieces {
  readonly position: number
  content: string
  reasoning_content: string
}

/**
 * What waits to be told to one reader besides the log. Pieces of an answer wait until the reader has been sent all events
 * before them, and are joined while it is slow; once the event that they became has been sent they are dropped. Of what was
 * used only the last word waits. Nothing of it is stored, and the log never waits for it.
 */
export class WaitingHints {
  readonly #now: () => number
  #pieces: Pieces | undefined
  #stats: { readonly position: number; readonly value: unknown } | undefined

  /** `now` answers microseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  add(hint: Exclude<Hint, { kind: 'rest' }>, position: number): void {
    if (hint.kind === 'stats') this.#stats = { position, value: hint.value }
    else this.#join(hint, position)
  }

  /** The next event that may be sent to a reader that has everything up to `position`; undefined when there is none now. */
  next(position: number): object | undefined {
    const pieces = this.#pieces
    if (pieces !== undefined && pieces.position <= position) {
      this.#pieces = undefined
      if (pieces.position === position) return this.#delta(pieces)
    }
    const stats = this.#stats
    if (stats === undefined || stats.position > position) return undefined
    this.#stats = undefined
    return stateUpdate('stats', stats.value, this.#now())
  }

  #join(piece: { readonly content?: string; readonly reasoning_content?: string }, position: number): void {
    if (this.#pieces?.position !== position) this.#pieces = { position, content: '', reasoning_content: '' }
    const { content = '', reasoning_content = '' } = piece
    const waiting = this.#pieces
    const size = waiting.content.length + waiting.reasoning_content.length
    if (size + content.length + reasoning_content.length > maxWaitingCharacters) return
    waiting.content += content
    waiting.reasoning_content += reasoning_content
  }

  #delta({ content, reasoning_content }: Pieces): object {
    const members = {
      ...(content === '' ? {} : { content }),
      ...(reasoning_content === '' ? {} : { reasoning_content }),
      kind: 'StreamingDeltaEvent',
    }
    return { ...hintEvent(members, this.#now()), source: 'agent' }
  }
}

/** An event that is sent and not stored. `now` in microseconds. */
export function hintEvent(members: object, now: number): object {
  return { id: randomUUID(), timestamp: formatInstant(now), source: 'environment', ...members }
}

export function stateUpdate(key: string, value: unknown, now: number): object {
  return hintEvent({ key, value, kind: 'ConversationStateUpdateEvent' }, now)
}
