import { type Instant, Problem } from '@slipway/protocol'
import { LruMap } from '@slipway/shared/collections'
import type { Extent } from '../../event-log/append-planner.ts'
import type { RecordUpdate } from '../../event-log/event-log.ts'
import type { TransactionParticipant } from '../database/commit-queue.ts'
import type { Database } from '../database/database.ts'
import { nameRecord, updateConversation } from './conversation-row.ts'

/** `version` is new after each change, `generation` after each change of events before the head. */
export interface LogHead extends Extent {
  readonly id: string
  readonly ordinal: number
  readonly version: number
  readonly generation: number
}

type Row = readonly [
  ordinal: number,
  head: number,
  lastInstant: Instant | null,
  inOrder: number,
  hasFiner: number,
  bytes: number,
]

interface LogHeadsOptions {
  readonly maxHeads?: number
  /** Throws when the log of a conversation does not end at its head. */
  verifyEnd?(ordinal: number, head: number, lastInstant?: Instant): void
  /** Records the last head of each commit. */
  readonly mark?: { write(ordinal: number, head: number): void }
}

const selectSql = `SELECT ordinal, head, last_instant, in_order, has_finer, bytes FROM conversation WHERE id = ? AND is_visible = 1`

/**
 * Extents of conversations, read on demand; the most recently used ones stay in memory. Updates of a
 * transaction are written once, before its commit; others see them when it is durable, and after a rollback
 * they are read again.
 */
export class LogHeads implements TransactionParticipant {
  readonly #db: Database
  readonly #now: () => Instant
  readonly #options: LogHeadsOptions
  readonly #heads: LruMap<string, LogHead>
  /**
   * Heads that the transaction has read or changed, seen by others when it is durable; undefined for those
   * that are to be read again.
   */
  readonly #changed = new Map<string, LogHead | undefined>()
  #lastChanged: LogHead | undefined
  readonly #unsaved = new Map<number, { readonly head: LogHead; readonly update: RecordUpdate }>()
  #lastVersion = 0

  constructor(db: Database, now: () => Instant, options: LogHeadsOptions = {}) {
    this.#db = db
    this.#now = now
    this.#options = options
    this.#heads = new LruMap({ max: options.maxHeads ?? 5_000 })
  }

  find(conversation: string): LogHead | undefined {
    const isChanged = this.#db.isWriting && this.#changed.has(conversation)
    const known = (isChanged ? this.#changed : this.#heads).get(conversation)
    return known ?? this.#load(conversation)
  }

  /** The head, or a Problem `not_found`. */
  get(conversation: string): LogHead {
    const head = this.find(conversation)
    if (head === undefined) throw new Problem('not_found', `Conversation not found: ${conversation}`)
    return head
  }

  /** Sets a new extent and changes the record, in the open transaction. */
  update(head: LogHead, extent: Extent, update: RecordUpdate = {}): void {
    const isPastChanged = head.isInOrder !== extent.isInOrder || !extent.isInOrder
    const updated = {
      ...head,
      ...extent,
      version: ++this.#lastVersion,
      generation: isPastChanged ? this.#lastVersion : head.generation,
    }
    this.#changed.set(head.id, updated)
    const unsaved = this.#unsaved.get(head.ordinal)?.update
    this.#unsaved.set(head.ordinal, { head: updated, update: { ...unsaved, ...update } })
  }

  /** The open transaction has removed the conversation, or written its row past this class. */
  forget(conversation: string): void {
    this.#changed.set(conversation, undefined)
  }

  beforeCommit(): void {
    for (const [ordinal, { head, update }] of this.#unsaved) {
      updateConversation(this.#db, ordinal, this.#now(), { ...update, extent: head })
      this.#lastChanged = head
    }
    this.#unsaved.clear()
  }

  afterTransaction(isCommitted: boolean): void {
    const changed = this.#lastChanged
    this.#lastChanged = undefined
    if (isCommitted) {
      for (const [id, head] of this.#changed)
        if (head === undefined) this.#heads.delete(id)
        else this.#heads.set(id, head)
      this.#changed.clear()
      if (changed !== undefined) this.#options.mark?.write(changed.ordinal, changed.head)
      return
    }
    this.#heads.clear()
    this.#changed.clear()
    this.#unsaved.clear()
  }

  #load(conversation: string): LogHead | undefined {
    const row = nameRecord(conversation, () => this.#db.get<Row>(selectSql, conversation))
    if (row === undefined) return undefined
    const [ordinal, headPosition, lastInstant, inOrder] = row
    const unsaved = this.#unsaved.get(ordinal)?.head
    if (unsaved === undefined)
      this.#options.verifyEnd?.(ordinal, headPosition, (inOrder === 1 && lastInstant) || undefined)
    const head = unsaved ?? this.#newHead(conversation, row)
    if (this.#db.isWriting) this.#changed.set(conversation, head)
    else this.#heads.set(conversation, head)
    return head
  }

  #newHead(id: string, [ordinal, head, lastInstant, inOrder, hasFiner, bytes]: Row): LogHead {
    const version = ++this.#lastVersion
    const order = {
      lastInstant: lastInstant ?? undefined,
      isInOrder: inOrder === 1,
      hasFiner: hasFiner === 1,
    }
    return { id, ordinal, head, ...order, bytes, version, generation: version }
  }
}
