/**
 * Where each log ends, in memory.
 *
 * Problem: each append and each page needs the head of its conversation, and a query for it would double the
 * ways to the database. Memory of a row that another server writes is wrong.
 *
 * Idea: memory follows each commit of this server, and is believed where no other server can write:
 * everywhere while one server owns the data, otherwise for the conversations whose lease it has.
 *
 * Invariants:
 * - A head without the lease is read each time (`#cached`).
 * - What was read is kept only if memory has not changed since the query began (`#changes`): a commit
 *   meanwhile is newer than the answer.
 * - `version` is new after each change of a log and `generation` after each change before its head. Pages are
 *   cached by them, so a head that is read again has the old ones only where nothing has changed (`#loaded`).
 * - A read knows all kinds and sources that the table has (`onKindSources`).
 *
 * If you change this: pages from the cache that lack events, or appends that the fence refuses for ever.
 *
 * Decision pages: docs/decisions/0022-postgresql.md, docs/decisions/0028-conversation-leases.md
 */

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
  /** The server that has the lease, and how many leases there were. */
  readonly server: string | null
  readonly epoch: number
}

/** What the data of several servers asks for. */
export interface SharedData {
  /** The id of this server. */
  readonly server: string
  /** This server has the lease: memory is as new as the table. */
  isHeld(conversation: string): boolean
  /** Memory may be wrong about these. */
  forget(conversations: readonly string[]): void
  /** The events of conversations have changed; called after a commit. */
  notify(conversations: readonly string[]): void
}

type Row = readonly [
  id: string,
  ordinal: number,
  head: number,
  lastInstant: number | null,
  isInOrder: boolean,
  hasFiner: boolean,
  bytes: number,
  server: string | null,
  epoch: number,
  kindSources: number,
]

const selectSql = `SELECT id, ordinal, head, last_instant, in_order, has_finer, bytes, server, epoch,
    (SELECT count(*) FROM facet) FROM conversation
  WHERE id = ANY($1::text[]) AND is_visible`
const maxHeads = 5_000

/** Extents of conversations, read on demand; the most recently used ones stay in memory. */
export class LogHeads {
  readonly #db: PostgresDatabase
  readonly #shared: SharedData | undefined
  /** Called with the number of kinds and sources in the table, which a read must know all of. */
  readonly #onKindSources: (count: number) => Promise<void>
  readonly #heads = new LruMap<string, LogHead>({ max: maxHeads })
  /** Counts changes of memory: what was read before a change may be older than it. */
  #changes = 0
  #lastVersion = 0

  constructor(
    db: PostgresDatabase,
    shared?: SharedData,
    onKindSources: (count: number) => Promise<void> = async () => {},
  ) {
    this.#db = db
    this.#shared = shared
    this.#onKindSources = onKindSources
  }

  async find(conversation: string): Promise<LogHead | undefined> {
    return this.#cached(conversation) ?? (await this.findAll([conversation])).get(conversation)
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
      const head = this.#cached(id)
      if (head !== undefined) found.set(id, head)
      else if (!id.includes('\0')) missing.push(id)
    }
    if (missing.length === 0) return found
    const changes = this.#changes
    for (const row of await this.#db.query<Row>(selectSql, [missing])) {
      const [id, ordinal, head, lastInstant, isInOrder, hasFiner, bytes, server, epoch, kindSources] = row
      if (this.#shared !== undefined) await this.#onKindSources(kindSources)
      const extent = { head, lastInstant: lastInstant ?? undefined, isInOrder, hasFiner, bytes }
      const newest = this.#cached(id) ?? this.#loaded({ id, ordinal, server, epoch }, extent)
      if (changes === this.#changes) this.#heads.set(id, newest)
      found.set(id, newest)
    }
    return found
  }

  /** The head with another extent. */
  next(head: LogHead, extent: Extent): LogHead {
    const version = ++this.#lastVersion
    const isPastChanged = head.isInOrder !== extent.isInOrder || !extent.isInOrder
    const { lastInstant, isInOrder, hasFiner, bytes } = extent
    const changed = { head: extent.head, lastInstant, isInOrder, hasFiner, bytes }
    return { ...head, ...changed, version, generation: isPastChanged ? version : head.generation }
  }

  /** The head of a conversation that memory has not known. */
  create(id: string, ordinal: number, extent: Extent): LogHead {
    const version = ++this.#lastVersion
    const server = this.#shared?.server ?? null
    return { ...extent, id, ordinal, version, generation: version, server, epoch: 0 }
  }

  /** To be called after a commit; undefined for a removed conversation. */
  committed(heads: ReadonlyMap<string, LogHead | undefined>): void {
    this.#changes += 1
    for (const [id, head] of heads) {
      if (head === undefined) this.#heads.delete(id)
      else this.#heads.set(id, head)
    }
  }

  /** Where memory has it. */
  ordinalOf(conversation: string): number | undefined {
    return this.#heads.get(conversation)?.ordinal
  }

  forget(conversation: string): void {
    this.#changes += 1
    this.#heads.delete(conversation)
  }

  /** Forgets everything: the database is read again. */
  clear(): void {
    this.#changes += 1
    this.#heads.clear()
  }

  #cached(conversation: string): LogHead | undefined {
    return this.#shared?.isHeld(conversation) === false ? undefined : this.#heads.get(conversation)
  }

  /**
   * The head of a row; with the versions of the last one, as far as nothing that they stand for has changed.
   */
  #loaded(row: Pick<LogHead, 'id' | 'ordinal' | 'server' | 'epoch'>, extent: Extent): LogHead {
    const last = this.#heads.get(row.id)
    if (last?.ordinal !== row.ordinal || extent.head < last.head) {
      const version = ++this.#lastVersion
      return { ...row, ...extent, version, generation: version }
    }
    const isSame = last.head === extent.head && last.bytes === extent.bytes
    return { ...(isSame ? last : this.next(last, extent)), ...row }
  }
}

export function conversationNotFound(conversation: string): Problem {
  return new Problem('not_found', `Conversation not found: ${conversation}`)
}
