import { type Instant, Problem } from '@slipway/protocol'
import type { Database } from '../database/database.ts'

/** How far the log of a conversation goes. */
export interface Extent {
  /** Position of the last event, 0 when there is none. */
  readonly head: number
  /** The greatest instant so far. */
  readonly lastInstant: Instant | undefined
  /** Every instant is at or above its predecessor's, so that order of time is order of position. */
  readonly isInOrder: boolean
}

/** What memory knows of a conversation. `version` is new after each change, `generation` after each change of the past. */
export interface LogHead extends Extent {
  readonly id: string
  readonly ordinal: number
  readonly version: number
  readonly generation: number
}

type Row = readonly [ordinal: number, head: number, lastInstant: Instant | null, inOrder: number]

const selectSql = `SELECT ordinal, head, last_instant, in_order FROM conversation WHERE id = ? AND is_visible = 1`
const updateSql = `UPDATE conversation SET head = ?, last_instant = ?, in_order = ?, updated_at = max(updated_at + 1, ?),
  status = coalesce(?, status), stats = coalesce(?, stats) WHERE ordinal = ?`

/** What of a record moves along with its log. */
export interface RecordUpdate {
  readonly status?: string
  readonly stats?: string
}

/**
 * Extents of conversations, read on demand and kept for the latest thousands. Changes are made while a transaction is open
 * and reach its rows at `save`; when the transaction fails, `settle` takes memory back to what is stored.
 */
export class LogHeads {
  readonly #db: Database
  readonly #now: () => Instant
  readonly #maxHeads: number
  readonly #heads = new Map<string, LogHead>()
  readonly #unsaved = new Map<number, { head: LogHead; change: RecordUpdate }>()
  #lastVersion = 0

  constructor(db: Database, now: () => Instant, maxHeads = 5_000) {
    this.#db = db
    this.#now = now
    this.#maxHeads = maxHeads
  }

  find(conversation: string): LogHead | undefined {
    return this.#heads.get(conversation) ?? this.#load(conversation)
  }

  /** The head, or a Problem `not_found`. */
  get(conversation: string): LogHead {
    const head = this.find(conversation)
    if (head === undefined) throw new Problem('not_found', `Conversation not found: ${conversation}`)
    return head
  }

  /** Sets a new extent (and what moves along), to be saved with the open transaction. */
  update(head: LogHead, extent: Extent, { status, stats }: RecordUpdate = {}): void {
    const isPastChanged = head.isInOrder !== extent.isInOrder || !extent.isInOrder
    const updated = {
      ...head,
      ...extent,
      version: ++this.#lastVersion,
      generation: isPastChanged ? this.#lastVersion : head.generation,
    }
    this.#heads.set(head.id, updated)
    const change = {
      ...this.#unsaved.get(head.ordinal)?.change,
      ...(status === undefined ? {} : { status }),
      ...(stats === undefined ? {} : { stats }),
    }
    this.#unsaved.set(head.ordinal, { head: updated, change })
  }

  forget(conversation: string): void {
    this.#heads.delete(conversation)
  }

  /** Writes what was moved. */
  beforeCommit(): void {
    for (const { head, change } of this.#unsaved.values()) {
      const inOrder = head.isInOrder ? 1 : 0
      this.#db.run(
        updateSql,
        head.head,
        head.lastInstant ?? null,
        inOrder,
        this.#now(),
        change.status ?? null,
        change.stats ?? null,
        head.ordinal,
      )
    }
    this.#unsaved.clear()
  }

  /** What was moved in a transaction that failed is forgotten. */
  afterTransaction(isCommitted: boolean): void {
    if (isCommitted) return
    this.#heads.clear()
    this.#unsaved.clear()
  }

  #load(conversation: string): LogHead | undefined {
    const row = this.#db.get<Row>(selectSql, conversation)
    if (row === undefined) return undefined
    const [ordinal] = row
    const head = this.#unsaved.get(ordinal)?.head ?? this.#newHead(conversation, row)
    if (this.#heads.size >= this.#maxHeads) this.#dropOldest()
    this.#heads.set(conversation, head)
    return head
  }

  #newHead(id: string, [ordinal, head, lastInstant, inOrder]: Row): LogHead {
    const version = ++this.#lastVersion
    const extent = { head, lastInstant: lastInstant ?? undefined, isInOrder: inOrder === 1 }
    return { id, ordinal, ...extent, version: version, generation: version }
  }

  #dropOldest(): void {
    const [oldest] = this.#heads.keys()
    if (oldest !== undefined) this.#heads.delete(oldest)
  }
}
