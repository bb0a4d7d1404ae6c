import type { TransientUpdate } from '@slipway/agent'
import type { StoredEvent } from '@slipway/storage'
import { stateUpdateEvent } from './transient-buffer.ts'

/** Most characters of deltas that wait for one reader; the rest of that reply is not streamed to it. */
const maxPendingCharacters = 1024 * 1024

type DeltaKind = 'text' | 'reasoning'

/** A streamed reply as one reader knows it. */
interface OpenItem {
  readonly id: string
  readonly attempt: number
  /** `order` of the next delta. */
  order: number
  isStarted: boolean
  /** Too much waited: the reader is sent no more of it. */
  isCut: boolean
}

type PendingFrame =
  | { readonly type: 'item_started'; readonly item: OpenItem; readonly position: number }
  | {
      readonly type: 'delta'
      readonly item: OpenItem
      readonly position: number
      readonly kind: DeltaKind
      content: string
    }
  | {
      readonly type: 'item_aborted'
      readonly item: OpenItem
      readonly position: number
      readonly reason: string
    }
  | { readonly type: 'state'; readonly key: string; readonly position: number; value: unknown }

/**
 * What a session socket is sent beside the log: the progress of streamed replies, and state updates that are
 * not stored. Each waits until the reader has all earlier events. A reply is streamed to readers that were
 * there when it began, and ends with its event or with `item_aborted`.
 */
export class SessionUpdates {
  readonly #now: () => number
  #pending: PendingFrame[] = []
  #open: OpenItem | undefined

  /** `now` answers microseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  add(update: TransientUpdate, position: number): void {
    if (update.kind === 'stats') {
      if (!update.isStored) this.#addState('stats', update.value, position)
    } else if (update.kind === 'member') this.#addState(update.key, update.value, position)
    else if (update.kind === 'delta') this.#addDelta(update, position)
    else if (update.kind === 'reply_aborted') this.#abort(update.item.id, update.reason, position)
  }

  /** Call it before the event is sent: it ends the streamed reply whose event it is. */
  retire({ id }: Pick<StoredEvent, 'id'>): void {
    if (this.#open?.id !== id) return
    this.#dropDeltas()
    this.#open = undefined
  }

  /** The frames that a reader with all events up to `position` can get now. */
  take(position: number): object[] {
    const end = this.#pending.findIndex((frame) => frame.position > position)
    const frames = this.#pending.splice(0, end === -1 ? this.#pending.length : end)
    return frames.map((frame) => this.#toJson(frame))
  }

  #addState(key: string, value: unknown, position: number): void {
    this.#pending = this.#pending.filter((frame) => !(frame.type === 'state' && frame.key === key))
    this.#pending.push({ type: 'state', key, value, position })
  }

  #addDelta(
    {
      item,
      order,
      isStreamRequested,
      content,
      reasoning_content,
    }: Extract<TransientUpdate, { kind: 'delta' }>,
    position: number,
  ): void {
    if (item === undefined || !isStreamRequested) return
    if (this.#open?.id !== item.id || this.#open.attempt !== item.attempt) {
      // The reader came in the middle of it.
      if (order !== 0) return
      this.#dropDeltas()
      this.#open = { ...item, order: 0, isStarted: false, isCut: false }
      this.#pending.push({ type: 'item_started', item: this.#open, position })
    }
    const open = this.#open
    if (open.isCut) return
    const add = (kind: DeltaKind, text: string) => {
      const last = this.#pending.at(-1)
      if (last?.type === 'delta' && last.item === open && last.kind === kind && last.position === position)
        last.content += text
      else this.#pending.push({ type: 'delta', item: open, kind, content: text, position })
    }
    if (reasoning_content !== undefined) add('reasoning', reasoning_content)
    if (content !== undefined) add('text', content)
    const lengths = this.#pending.map((frame) => (frame.type === 'delta' ? frame.content.length : 0))
    open.isCut = lengths.reduce((total, length) => total + length, 0) > maxPendingCharacters
  }

  #abort(id: string, reason: string, position: number): void {
    const open = this.#open
    if (open?.id !== id) return
    this.#dropDeltas()
    this.#open = undefined
    if (open.isStarted) this.#pending.push({ type: 'item_aborted', item: open, reason, position })
  }

  /** Drops what was not sent of the open reply. */
  #dropDeltas(): void {
    this.#pending = this.#pending.filter(({ type }) => type !== 'delta' && type !== 'item_started')
  }

  #toJson(frame: PendingFrame): object {
    if (frame.type === 'state') {
      return { type: 'transient', event: stateUpdateEvent(frame.key, frame.value, this.#now()) }
    }
    const { item, type } = frame
    const members = { type, item_id: item.id, attempt: item.attempt }
    if (type === 'item_aborted') return { ...members, reason: frame.reason }
    if (type === 'delta') return { ...members, order: item.order++, kind: frame.kind, content: frame.content }
    item.isStarted = true
    return frame.position === 0 ? members : { ...members, anchor_seq: frame.position - 1 }
  }
}
