/**
 * The events of a response as its run makes it.
 *
 * Problem: what a model writes is sent before it is stored, and only what is stored is the response. A client
 * that has followed the stream must have what a later GET shows.
 *
 * Idea: deltas name the event that they become. An item is opened with the first delta of its event, and is
 * closed by the stored event, which has the last word: its text is in the event that closes the item. Items
 * of other events are sent whole when these are stored.
 *
 * Invariants:
 * - One item is open at most; deltas of the next one wait until it is closed.
 * - Everything is in the order of the log, so the items are those of `readTurn`, in its order.
 */

import { randomUUID } from 'node:crypto'
import type { Conversation, TransientUpdate } from '@slipway/agent'
import { itemId, parseItemId } from '@slipway/protocol'
import { Signal } from '@slipway/shared/async'
import type { Clock } from '@slipway/shared/time'
import type { EventLog } from '@slipway/storage'
import { itemsOf, itemText, messageItem, type OutputItem } from './response-log.ts'

export interface StreamEvent {
  readonly type: string
  readonly [member: string]: unknown
}

interface ResponseStreamOptions {
  readonly conversation: Conversation
  readonly log: EventLog
  /** The events after this position are shown. */
  readonly after: number
  readonly isStructured: boolean
  readonly clock: Clock
}

interface OpenItem {
  readonly id: string
  readonly event: string
  sent: string
}

export class ResponseStream implements Disposable {
  readonly #options: ResponseStreamOptions
  readonly #wakeUp = new Signal()
  readonly #unsubscribe: () => void
  /** Texts that were sent ahead, by the id of the event that they become. */
  readonly #texts = new Map<string, { attempt: number; text: string }>()
  #position: number
  #hasStored = true
  #index = -1
  #open: OpenItem | undefined

  constructor(options: ResponseStreamOptions) {
    this.#options = options
    this.#position = options.after
    this.#unsubscribe = options.conversation.transientUpdates.subscribe((update) => this.#onUpdate(update))
  }

  [Symbol.dispose](): void {
    this.#unsubscribe()
  }

  /** The events of the items until `run` settles; `undefined` after `heartbeatMs` without any. */
  async *events(run: Promise<unknown>, heartbeatMs: number): AsyncGenerator<StreamEvent | undefined> {
    let isOver = false
    void run
      .catch(() => undefined)
      .then(() => {
        isOver = true
        this.#wakeUp.notify()
      })
    for (let version = -1; ; ) {
      const isNotified = await this.#wakeUp.waitFor(version, heartbeatMs, this.#options.clock)
      version = this.#wakeUp.version
      const isLastLook = isOver
      if (this.#hasStored || isLastLook) yield* this.#storedEvents()
      yield* this.#sentAhead()
      if (isLastLook) break
      if (!isNotified) yield undefined
    }
    if (this.#open !== undefined) yield* this.#close(this.#open.sent, 'incomplete')
  }

  #onUpdate(update: TransientUpdate): void {
    if (update.kind === 'delta' && update.item !== undefined && !this.#options.isStructured) {
      const { id, attempt } = update.item
      const known = this.#texts.get(id)
      const text = known?.attempt === attempt ? known.text : ''
      if (update.content !== undefined) this.#texts.set(id, { attempt, text: text + update.content })
    } else if (update.kind === 'reply_aborted') this.#texts.delete(update.item.id)
    else if (update.kind === 'stats' || update.kind === 'idle') this.#hasStored = true
    else return
    this.#wakeUp.notify()
  }

  async *#storedEvents(): AsyncGenerator<StreamEvent> {
    const { log, conversation, isStructured } = this.#options
    this.#hasStored = false
    for (;;) {
      const events = await log.read(conversation.id, this.#position, 100)
      for (const stored of events) {
        this.#position = stored.position
        for (const item of itemsOf(stored, { conversation: conversation.id, isStructured }))
          yield* this.#add(item)
        this.#texts.delete(stored.id)
      }
      if (events.length === 0) return
    }
  }

  /** What was written and not stored yet. */
  *#sentAhead(): Generator<StreamEvent> {
    const [next] = this.#texts
    if (next === undefined) return
    const [event, { text }] = next
    const id = itemId('msg', { conversation: this.#options.conversation.id, event })
    if (this.#open === undefined) yield* this.#openMessage(id, event)
    if (this.#open?.event === event) yield* this.#extend(text)
  }

  *#add(item: OutputItem): Generator<StreamEvent> {
    const text = itemText(item)
    if (this.#open !== undefined && this.#open.id !== item.id)
      yield* this.#close(this.#open.sent, 'incomplete')
    if (text === undefined) return yield* this.#call(item)
    if (this.#open === undefined) yield* this.#openMessage(item.id, parseItemId(item.id)?.event ?? '')
    yield* this.#extend(text)
    yield* this.#close(text, 'completed')
  }

  *#openMessage(id: string, event: string): Generator<StreamEvent> {
    this.#index++
    this.#open = { id, event, sent: '' }
    const item = { ...messageItem(id, ''), status: 'in_progress', content: [] }
    yield { type: 'response.output_item.added', output_index: this.#index, item }
    yield { type: 'response.content_part.added', ...this.#place(id), part: textPart('') }
  }

  /** Nothing where a repeated attempt differs from what was sent: the end of the item has its text. */
  *#extend(text: string): Generator<StreamEvent> {
    const open = this.#open
    if (open === undefined || !text.startsWith(open.sent) || text.length === open.sent.length) return
    const delta = text.slice(open.sent.length)
    open.sent = text
    yield { type: 'response.output_text.delta', ...this.#place(open.id), delta, logprobs: [] }
  }

  *#close(text: string, status: 'completed' | 'incomplete'): Generator<StreamEvent> {
    const { id = '' } = this.#open ?? {}
    this.#open = undefined
    yield { type: 'response.output_text.done', ...this.#place(id), text, logprobs: [] }
    yield { type: 'response.content_part.done', ...this.#place(id), part: textPart(text) }
    const item = { ...messageItem(id, text), status }
    yield { type: 'response.output_item.done', output_index: this.#index, item }
  }

  *#call(item: OutputItem): Generator<StreamEvent> {
    this.#index++
    const place = { item_id: item.id, output_index: this.#index }
    const started = { ...item, arguments: '', status: 'in_progress' }
    const args = String(item.arguments)
    yield { type: 'response.output_item.added', output_index: this.#index, item: started }
    for (const delta of pieces(args))
      yield { type: 'response.function_call_arguments.delta', ...place, delta }
    yield { type: 'response.function_call_arguments.done', ...place, name: item.name, arguments: args }
    yield { type: 'response.output_item.done', output_index: this.#index, item }
  }

  #place(id: string) {
    return { item_id: id, output_index: this.#index, content_index: 0 }
  }
}

const pieceLength = 1_000

/** A long text in parts, none of which ends within a character. */
export function pieces(text: string): string[] {
  return text.match(new RegExp(`[\\s\\S]{1,${pieceLength}}(?![\\udc00-\\udfff])`, 'g')) ?? []
}

function textPart(text: string) {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}

/** An id for what is not in the log. */
export function hexId(prefix: string): string {
  return prefix + randomUUID().replaceAll('-', '')
}
