import { Problem } from '@slipway/protocol'
import { LruMap } from '@slipway/shared/collections'
import type { Extent } from '../../event-log/append-planner.ts'
import type { PostgresDatabase } from '../database/database.ts'

/** `version` is new after each change, `generation` after each change of events before the head. */
export interface LogHead extends Extent {
  readonly id: string
  readonly ordinal: number
  readonly version: number
  readonly generation: number
}

type Row = readonly [
  id: string,
  ordinal: number,
  head: number,
  lastInstant: number | null,
  isInOrder: boolean,
  bytes: number,
]

const selectSql = `SELECT id, ordinal, head, last_instant, in_order, bytes FROM conversation
  WHERE id = ANY($1::text[]) AND is_visible`
const maxHeads = 5_000

/**
 * Extents of conversations, read on demand; the most recently used ones stay in memory. Memory follows each
 * commit, because one server owns the data.
 */
export class LogHeads {
  readonly #db: PostgresDatabase
  readonly #heads = new LruMap<string, LogHead>({ max: maxHeads })
  /** Counts changes of memory: what was read before a change may be older than it. */
  #changes = 0
  #lastVersion = 0

  constructor(db: PostgresDatabase) {
    this.#db = db
  }

  async find(conversation: string): Promise<LogHead | undefined> {
    return this.#heads.get(conversation) ?? (await this.findAll([conversation])).get(conversation)
  }

  /** The head, or a Problem `not_found`. */
  async get(conversation: string): Promise<LogHead> {
    const head = await this.find(conversation)
    if (head === undefined) throw conversationNotFound(conversation)
    return head
  }

  /** The heads of the conversations that exist. */
  async findAll(conversations: readonly string[]): Promise<Map<string, LogHead>> {
    const found = new Map<string, LogHead>()
    const missing: string[] = []
    for (const id of new Set(conversations)) {
      const head = this.#heads.get(id)
      if (head !== undefined) found.set(id, head)
      else if (!id.includes('\0')) missing.push(id)
    }
    if (missing.length === 0) return found
    const changes = this.#changes
    for (const row of await this.#db.query<Row>(selectSql, [missing])) {
      const [id, ordinal, head, lastInstant, isInOrder, bytes] = row
      const version = ++this.#lastVersion
      const loaded = { id, ordinal, head, lastInstant: lastInstant ?? undefined, isInOrder, bytes }
      const newest = this.#heads.get(id) ?? { ...loaded, version, generation: version }
      if (changes === this.#changes) this.#heads.set(id, newest)
      found.set(id, newest)
    }
    return found
  }

  /** The head with another extent. */
  next(head: LogHead, extent: Extent): LogHead {
    const version = ++this.#lastVersion
    const isPastChanged = head.isInOrder !== extent.isInOrder || !extent.isInOrder
    const { lastInstant, isInOrder, bytes } = extent
    const changed = { head: extent.head, lastInstant, isInOrder, bytes }
    return { ...head, ...changed, version, generation: isPastChanged ? version : head.generation }
  }

  /** The head of a conversation that memory has not known. */
  create(id: string, ordinal: number, extent: Extent): LogHead {
    const version = ++this.#lastVersion
    return { ...extent, id, ordinal, version, generation: version }
  }

  /** To be called after a commit; undefined for a removed conversation. */
  committed(heads: ReadonlyMap<string, LogHead | undefined>): void {
    this.#changes += 1
    for (const [id, head] of heads) {
      if (head === undefined) this.#heads.delete(id)
      else this.#heads.set(id, head)
    }
  }

  /** Forgets everything: the database is read again. */
  clear(): void {
    this.#changes += 1
    this.#heads.clear()
  }
}

export function conversationNotFound(conversation: string): Problem {
  return new Problem('not_found', `Conversation not found: ${conversation}`)
}
