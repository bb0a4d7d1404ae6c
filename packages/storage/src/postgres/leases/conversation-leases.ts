/**
 * Leases of conversations: which of several servers on one database writes a conversation and runs it.
 *
 * Problem: a server that dies leaves conversations that others are to continue. A server that only stands
 * still must not write when it wakes, and nothing but the database can tell the two apart.
 *
 * Idea: a conversation has the columns `server` and `epoch`. It belongs to that server as long as the server
 * has a row in `agent_server` (`registration.ts`), so one small update renews all leases of a server. Taking
 * a conversation adds 1 to its epoch, and each write compares the epoch (`group-plan.ts`).
 *
 * Invariants:
 * - A conversation is taken by one update of one row, if it is free, own, or of a server without a row, and
 *   only by a server that has one (`acquireSql`). No one holds two of these locks, so no order can deadlock.
 * - Memory of the conversation is dropped before the lease counts as held (`onAcquired`), and the lease
 *   counts only if the registration is still the one that took it.
 * - A lease is held only while the registration is valid (`isHeld`), by the clock of this process.
 * - A release names the epoch, so it gives back no lease that was taken since. One that failed is not held,
 *   and is given back again later (`#unreleased`).
 * - Callers release when nothing writes any more; the registry closes the conversation first.
 * - A conversation that does not exist counts as own: who reads it answers that it is not found.
 *
 * If you change this: two servers run one conversation. Their writes are still refused by the epoch, but
 * tools run twice.
 *
 * Decision page: docs/decisions/0028-conversation-leases.md
 */

import { type ConversationLeases, HeldElsewhereError, type LeaseHolder } from '../../conversations/leases.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { Registration } from './registration.ts'

/** Leases of conversations that are not loaded are given back after this. */
const unusedMs = 60_000
/** Orphans that one sweep reports. */
const maxOrphans = 100

const isGone = 'NOT EXISTS (SELECT 1 FROM agent_server WHERE agent_server.id = server)'
const acquireSql = `UPDATE conversation SET server = $2, epoch = epoch + 1
  WHERE id = $1 AND is_visible AND (server IS NULL OR server = $2 OR ${isGone})
    AND EXISTS (SELECT 1 FROM agent_server WHERE agent_server.id = $2)
  RETURNING ordinal, epoch, (SELECT above FROM leftover WHERE leftover.ordinal = conversation.ordinal)`
const holderSql = `SELECT server, url, expires_at < clock_timestamp() FROM conversation
  LEFT JOIN agent_server ON agent_server.id = server WHERE conversation.id = $1 AND is_visible`
const releaseSql = `UPDATE conversation SET server = NULL
  FROM unnest($1::text[], $2::integer[]) AS held (id, epoch)
  WHERE conversation.id = held.id AND is_visible AND server = $3 AND conversation.epoch = held.epoch`
const orphansSql = `SELECT id FROM conversation WHERE is_visible AND (status = $1 OR (status = $2 AND server IS NOT NULL))
  AND ${isGone} ORDER BY random() LIMIT ${maxOrphans}`
const takeDutySql = `INSERT INTO duty (name, server) SELECT $1, $2
  WHERE EXISTS (SELECT 1 FROM agent_server WHERE agent_server.id = $2)
  ON CONFLICT (name) DO UPDATE SET server = $2
    WHERE NOT EXISTS (SELECT 1 FROM agent_server WHERE agent_server.id = duty.server)`

interface Held {
  readonly epoch: number
  usedMs: number
}

interface LeasesOptions {
  readonly db: PostgresDatabase
  readonly registration: Registration
  /**
   * The conversation was acquired: what memory has of it is old. `above`: what an import left, to be removed.
   */
  readonly onAcquired: (lease: {
    readonly conversation: string
    readonly ordinal: number
    readonly epoch: number
    readonly above: number | undefined
  }) => Promise<void>
}

/** ConversationLeases on PostgreSQL: the columns `server` and `epoch` of the conversation. */
export class PostgresConversationLeases implements ConversationLeases {
  readonly #options: LeasesOptions
  readonly #held = new Map<string, Held>()
  /** Given back by this server, and perhaps not in the table. */
  readonly #unreleased = new Map<string, Held>()
  readonly #acquiring = new Map<string, Promise<LeaseHolder>>()
  readonly #duties = new Set<string>()
  #lostListener: () => Promise<void> = async () => {}
  #orphansListener: ((conversations: readonly string[]) => Promise<void>) | undefined

  constructor(options: LeasesOptions) {
    this.#options = options
  }

  /** The id of this server. */
  get server(): string {
    return this.#options.registration.id
  }

  /** True while memory is as new as the table. */
  isHeld(conversation: string): boolean {
    return this.#held.has(conversation) && this.#options.registration.isValid
  }

  async acquire(conversation: string): Promise<LeaseHolder> {
    const held = this.#held.get(conversation)
    if (held !== undefined && this.#options.registration.isValid) {
      held.usedMs = performance.now()
      return { isOwn: true }
    }
    const acquiring = this.#acquiring.get(conversation) ?? this.#acquire(conversation)
    this.#acquiring.set(conversation, acquiring)
    try {
      return await acquiring
    } finally {
      if (this.#acquiring.get(conversation) === acquiring) this.#acquiring.delete(conversation)
    }
  }

  async release(conversation: string): Promise<void> {
    const held = this.#held.get(conversation) ?? this.#unreleased.get(conversation)
    if (held !== undefined) await this.#release([[conversation, held]])
  }

  async releaseUnused(isUsed: (conversation: string) => boolean): Promise<void> {
    const before = performance.now() - unusedMs
    const unused = [...this.#held].filter(([id, { usedMs }]) => usedMs < before && !isUsed(id))
    const released = [...unused, ...this.#unreleased]
    if (released.length > 0) await this.#release(released)
  }

  /** The table may say something else than memory. */
  forget(conversations: readonly string[]): void {
    for (const id of conversations) this.#held.delete(id)
  }

  async announce(url: string): Promise<void> {
    await this.#options.registration.announce(url)
  }

  onLost(listener: () => Promise<void>): void {
    this.#lostListener = listener
  }

  onOrphans(listener: (conversations: readonly string[]) => Promise<void>): void {
    this.#orphansListener = listener
  }

  /** Work that one server at a time does, such as deliveries to a receiver; false when another does it. */
  async holdsDuty(name: string): Promise<boolean> {
    if (this.#duties.has(name)) return this.#options.registration.isValid
    const { server } = this
    const query = 'SELECT server FROM duty WHERE name = $1'
    await this.#options.db.query(takeDutySql, [name, server])
    const [row] = await this.#options.db.query<[string]>(query, [name])
    if (row?.[0] !== server || !this.#options.registration.isValid) return false
    this.#duties.add(name)
    return true
  }

  /** Everything is lost. */
  async lose(): Promise<void> {
    this.#held.clear()
    this.#unreleased.clear()
    this.#duties.clear()
    await this.#lostListener()
  }

  async reportOrphans(): Promise<void> {
    if (this.#orphansListener === undefined) return
    const values = [Buffer.from('running'), Buffer.from('waiting_for_confirmation')]
    const rows = await this.#options.db.query<[string]>(orphansSql, values)
    if (rows.length === 0) return
    await this.#orphansListener(rows.map(([id]) => id))
  }

  async #release(held: readonly (readonly [conversation: string, held: Held])[]): Promise<void> {
    const { server } = this
    const ids = held.map(([id]) => id)
    this.forget(ids)
    try {
      await this.#options.db.query(releaseSql, [ids, held.map(([, { epoch }]) => epoch), server])
      for (const [id, lease] of held) if (this.#unreleased.get(id) === lease) this.#unreleased.delete(id)
    } catch (error) {
      // Another server may have them by now: they are not held, and given back again.
      for (const [id, lease] of held)
        if (!this.#held.has(id) && this.server === server) this.#unreleased.set(id, lease)
      throw error
    }
  }

  async #acquire(conversation: string): Promise<LeaseHolder> {
    const { db, registration, onAcquired } = this.#options
    if (conversation.includes('\0')) return { isOwn: true }
    if (!registration.isValid) throw new HeldElsewhereError()
    for (let isRetry = false; ; isRetry = true) {
      const { id } = registration
      const [row] = await db.query<[number, number, number | null]>(acquireSql, [conversation, id])
      if (row !== undefined) {
        const [ordinal, epoch, above] = row
        await onAcquired({ conversation, ordinal, epoch, above: above ?? undefined })
        if (!registration.isValid || registration.id !== id) throw new HeldElsewhereError()
        this.#unreleased.delete(conversation)
        this.#held.set(conversation, { epoch, usedMs: performance.now() })
        return { isOwn: true }
      }
      const [holder] = await db.query<[string | null, string | null, boolean | null]>(holderSql, [
        conversation,
      ])
      if (holder === undefined) return { isOwn: true }
      const [, url, isExpired] = holder
      if (url !== null && isExpired !== true) return { isOwn: false, url: url === '' ? undefined : url }
      if (isRetry) return { isOwn: false, url: undefined }
      await registration.removeExpired()
    }
  }
}
