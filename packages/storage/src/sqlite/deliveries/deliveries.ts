import type { Instant } from '@slipway/protocol'
import { Signal } from '@slipway/shared/async'
import type { Deliveries, PendingDelivery } from '../../deliveries/deliveries.ts'
import type { CommitQueue } from '../database/commit-queue.ts'
import type { Database } from '../database/database.ts'
import { readableRows } from '../database/readable-rows.ts'

type VisibleRow = readonly [ordinal: number, head: number, updated_at: Instant]
type CursorRow = readonly [ordinal: number, position: number, updated_at: Instant | null]

export const visibleSql = 'SELECT ordinal, head, updated_at FROM conversation WHERE id = ? AND is_visible = 1'
export const cursorSql =
  'SELECT ordinal, position, updated_at FROM delivery WHERE receiver = ? AND conversation = ?'
const insertCursorSql = `INSERT INTO delivery (receiver, conversation, ordinal, position, updated_at)
  VALUES (?, ?, ?, 0, NULL) ON CONFLICT DO NOTHING`
const putSql = `INSERT INTO delivery (receiver, conversation, ordinal, position, updated_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (receiver, conversation) DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at`
const forgetSql = 'DELETE FROM delivery WHERE receiver = ? AND conversation = ?'
const removedSql = `SELECT delivery.conversation FROM delivery
  LEFT JOIN conversation ON conversation.id = delivery.conversation AND is_visible = 1
  WHERE receiver = ? AND conversation.ordinal IS NOT delivery.ordinal`
const changedSql = (condition: string) => `SELECT conversation.id FROM conversation
  LEFT JOIN delivery ON receiver = ? AND delivery.conversation = conversation.id
  WHERE is_visible = 1 AND (delivery.ordinal IS NOT conversation.ordinal
    OR delivery.position < head OR delivery.updated_at IS NOT conversation.updated_at) AND ${condition}
  ORDER BY conversation.updated_at, conversation.ordinal`

/**
 * Deliveries on SQLite. A row is a receiver's cursor in the conversation of one ordinal, which tells a
 * conversation from a later one with the same id. The tables say what is pending; memory says where to look:
 * for each receiver that has called `listPending`, the conversations that were pending at its first call and
 * those that have changed since, in that order.
 */
export class SqliteDeliveries implements Deliveries {
  readonly #db: Database
  readonly #writer: CommitQueue
  readonly #candidates = new Map<string, Set<string>>()
  readonly changeSignal = new Signal()

  constructor(db: Database, writer: CommitQueue) {
    this.#db = db
    this.#writer = writer
  }

  /** Reads what is pending from the tables again. */
  reload(): void {
    this.#candidates.clear()
    this.changeSignal.notify()
  }

  /** Call it after the commit of a change. */
  markChanged(conversation: string): void {
    for (const candidates of this.#candidates.values()) candidates.add(conversation)
    this.changeSignal.notify()
  }

  async listPending(
    receiver: string,
    limit: number,
    except: ReadonlySet<string> = new Set(),
  ): Promise<readonly PendingDelivery[]> {
    const candidates = this.#candidatesFor(receiver)
    const pending: PendingDelivery[] = []
    const newCursors: (readonly [conversation: string, ordinal: number])[] = []
    for (const conversation of candidates) {
      if (pending.length >= limit) break
      if (except.has(conversation)) continue
      const visible = this.#db.get<VisibleRow>(visibleSql, conversation)
      const cursor = this.#db.get<CursorRow>(cursorSql, receiver, conversation)
      const delivery = pendingDelivery(conversation, visible, cursor)
      if (delivery === undefined) candidates.delete(conversation)
      else pending.push(delivery)
      if (cursor === undefined && visible !== undefined) newCursors.push([conversation, visible[0]])
    }
    if (newCursors.length > 0) await this.#insertCursors(receiver, newCursors)
    return pending
  }

  async advance(
    receiver: string,
    conversation: string,
    to: { readonly position: number; readonly updated_at: Instant | null },
  ): Promise<void> {
    const { position, updated_at } = to
    if (!Number.isSafeInteger(position) || position < 0 || !Number.isSafeInteger(updated_at ?? 0))
      throw new Error('a cursor is a position and a moment')
    await this.#writer.write(() => ({
      apply: () => this.#put(receiver, conversation, to),
      done: () => this.#moveToEnd(receiver, conversation),
    }))
  }

  async forget(receiver: string, conversation: string): Promise<void> {
    await this.#writer.write(() => ({
      apply: () => this.#db.run(forgetSql, receiver, conversation),
      done: () => this.#moveToEnd(receiver, conversation),
    }))
  }

  /**
   * Cursors at 0 are written before the first delivery: when the process dies after it, the receiver must
   * still learn that the conversation was removed.
   */
  async #insertCursors(receiver: string, newCursors: readonly (readonly [string, number])[]): Promise<void> {
    await this.#writer.write(() => ({
      apply: () => {
        for (const [conversation, ordinal] of newCursors)
          this.#db.run(insertCursorSql, receiver, conversation, ordinal)
      },
    }))
  }

  /** Writes a cursor in the conversation that the receiver knows; in the present one when it knows none. */
  #put(receiver: string, conversation: string, to: Parameters<Deliveries['advance']>[2]): void {
    const visible = this.#db.get<VisibleRow>(visibleSql, conversation)
    const ordinal = this.#db.get<CursorRow>(cursorSql, receiver, conversation)?.[0] ?? visible?.[0]
    if (ordinal === undefined) return
    const head = visible?.[0] === ordinal ? visible[1] : to.position
    this.#db.run(putSql, receiver, conversation, ordinal, Math.min(to.position, head), to.updated_at)
  }

  #candidatesFor(receiver: string): Set<string> {
    let candidates = this.#candidates.get(receiver)
    if (candidates === undefined) {
      const removed = this.#db.all<[string]>(removedSql, receiver)
      const changed = readableRows<[string]>(this.#db, changedSql, receiver)
      candidates = new Set([...removed, ...changed].map(([conversation]) => conversation))
      this.#candidates.set(receiver, candidates)
    }
    return candidates
  }

  #moveToEnd(receiver: string, conversation: string): void {
    const candidates = this.#candidates.get(receiver)
    candidates?.delete(conversation)
    candidates?.add(conversation)
  }
}

/** Undefined when the receiver has everything. */
function pendingDelivery(
  conversation: string,
  visible: VisibleRow | undefined,
  cursor: CursorRow | undefined,
): PendingDelivery | undefined {
  if (cursor === undefined)
    return visible && { conversation, position: 0, updated_at: null, isRemoved: false }
  const [ordinal, position, updated_at] = cursor
  if (visible?.[0] !== ordinal) return { conversation, position, updated_at, isRemoved: true }
  const isBehind = position < visible[1] || updated_at !== visible[2]
  return isBehind ? { conversation, position, updated_at, isRemoved: false } : undefined
}
