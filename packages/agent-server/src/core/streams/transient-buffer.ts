import { randomUUID } from 'node:crypto'
import type { TransientUpdate } from '@slipway/agent'
import { formatInstant } from '@slipway/protocol'

/** Most characters of pieces that wait for a reader; more are dropped. */
const maxPendingCharacters = 64 * 1024

/** Joined deltas; `position` is the end of the log when they were added. */
interface PendingDelta {
  readonly position: number
  /** The reader forgets the deltas that it has of this position. */
  isReset: boolean
  content: string
  reasoning_content: string
}

/**
 * Transient updates that wait for one reader: deltas, joined, until it has all earlier events, and the newest
 * value of each state update. A delta is dropped once its stored event was sent. Nothing is stored, and the
 * log never waits.
 */
export class TransientBuffer {
  readonly #now: () => number
  #pendingDelta: PendingDelta | undefined
  /** State updates by key; the newest value counts. */
  readonly #pendingStates = new Map<string, { readonly position: number; readonly value: unknown }>()

  /** `now` answers microseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  add(update: Exclude<TransientUpdate, { kind: 'idle' | 'reply_aborted' }>, position: number): void {
    if (update.kind === 'stats') {
      if (!update.isStored) this.#pendingStates.set('stats', { position, value: update.value })
    } else if (update.kind === 'member')
      this.#pendingStates.set(update.key, { position, value: update.value })
    else if (update.kind === 'retry')
      this.#pendingStates.set('model_retry', { position, value: retryValue(update) })
    else if (update.kind === 'reset')
      this.#pendingDelta = { position, isReset: true, content: '', reasoning_content: '' }
    else this.#appendDelta(update, position)
  }

  /** For a reader that knows no resets: drops what it has not been sent. */
  dropDelta(): void {
    this.#pendingDelta = undefined
  }

  /** The next event for a reader that has everything up to `position`, if any. */
  takeNext(position: number): object | undefined {
    const delta = this.#pendingDelta
    if (delta !== undefined && delta.position <= position) {
      const isCurrent = delta.position === position
      if (isCurrent && delta.isReset) {
        delta.isReset = false
        return { ...transientEvent({ kind: 'StreamingResetEvent' }, this.#now()), source: 'agent' }
      }
      this.#pendingDelta = undefined
      if (isCurrent && delta.content + delta.reasoning_content !== '') return this.#deltaEvent(delta)
    }
    for (const [key, pending] of this.#pendingStates) {
      if (pending.position > position) continue
      this.#pendingStates.delete(key)
      return stateUpdateEvent(key, pending.value, this.#now())
    }
    return undefined
  }

  #appendDelta(
    delta: { readonly content?: string; readonly reasoning_content?: string },
    position: number,
  ): void {
    if (this.#pendingDelta?.position !== position)
      this.#pendingDelta = { position, isReset: false, content: '', reasoning_content: '' }
    const { content = '', reasoning_content = '' } = delta
    const pending = this.#pendingDelta
    const size = pending.content.length + pending.reasoning_content.length
    if (size + content.length + reasoning_content.length > maxPendingCharacters) return
    pending.content += content
    pending.reasoning_content += reasoning_content
  }

  #deltaEvent({ content, reasoning_content }: PendingDelta): object {
    const members = {
      ...(content === '' ? {} : { content }),
      ...(reasoning_content === '' ? {} : { reasoning_content }),
      kind: 'StreamingDeltaEvent',
    }
    return { ...transientEvent(members, this.#now()), source: 'agent' }
  }
}

/** The value of an update about a retry; times in seconds. */
function retryValue(retry: Extract<TransientUpdate, { kind: 'retry' }>) {
  const { code, detail, status = null, host = null, waitMs, attempt, attempts } = retry
  return { code, detail, status, host, wait_seconds: waitMs / 1000, attempt, attempts }
}

/** An event that is sent and not stored. `now` in microseconds. */
export function transientEvent(members: object, now: number): object {
  return { id: randomUUID(), timestamp: formatInstant(now), source: 'environment', ...members }
}

export function stateUpdateEvent(key: string, value: unknown, now: number): object {
  return transientEvent({ key, value, kind: 'ConversationStateUpdateEvent' }, now)
}
