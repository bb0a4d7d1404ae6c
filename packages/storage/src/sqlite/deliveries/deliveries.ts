import type { Instant } from '@slipway/protocol'
import { Bell, Sleeper } from '../../async/signal.ts'
import type { Behind, Deliveries } from '../../deliveries/deliveries.ts'
import type { Writer } from '../database/commit-queue.ts'
import type { Database } from '../database/database.ts'

type Visible = readonly [ordinal: number, head: number, updated_at: Instant]
type Cursor = readonly [ordinal: number, position: number, updated_at: Instant | null]

export const visibleSql = 'SELECT ordinal, head, updated_at FROM conversation WHERE id = ? AND is_visible = 1'
export const cursorSql =
  'SELECT ordinal, position, updated_at FROM delivery WHERE receiver = ? AND conversation = ?'
const startSql = `INSERT INTO delivery (receiver, conversation, ordinal, position, updated_at)
  VALUES (?, ?, ?, 0, NULL) ON CONFLICT DO NOTHING`
const putSql = `INSERT INTO delivery (receiver, conversation, ordinal, position, updated_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (receiver, conversation) DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at`
const forgetSql = 'DELETE FROM delivery WHERE receiver = ? AND conversation = ?'
const removedSql = `SELECT delivery.conversation FROM delivery
  LEFT JOIN conversation ON conversation.id = delivery.conversation AND is_visible = 1
  WHERE receiver = ? AND conversation.ordinal IS NOT delivery.ordinal`
const changedSql = `SELECT conversation.id FROM conversation
  LEFT JOIN delivery ON receiver = ? AND delivery.conversation = conversation.id
  WHERE is_visible = 1 AND (delivery.ordinal IS NOT conversation.ordinal
    OR delivery.position < head OR delivery.updated_at IS NOT conversation.updated_at)
  ORDER BY conversation.updated_at, conversation.ordinal`

/**
 * Deliveries on SQLite. A row is a receiver's cursor in the conversation of one ordinal, so that a later conversation of the same
 * id is another one. The tables say who is behind; memory only says where to look: it has, for each receiver that has
 * asked, the conversations that were behind at its first question and those that have changed since, in that order.
 */
export class SqliteDeliveries implements Deliveries {
  readonly #db: Database
  readonly #writer: Writer
  readonly #bell = new Bell()
  readonly #suspects = new Map<string, Set<string>>()
  readonly changes: Deliveries['changes']

  constructor(db: Database, writer: Writer) {
    this.#db = db
    this.#writer = writer
    const bell = this.#bell
    this.changes = {
      get rings() {
        return bell.rings
      },
      async since(rings, signal) {
        using sleeper = new Sleeper(signal)
        await bell.since(rings, sleeper)
      },
    }
  }

  /** Something of the conversation has changed. To be called after the commit. */
  note(conversation: string): void {
    for (const suspects of this.#suspects.values()) suspects.add(conversation)
    this.#bell.ring()
  }

  async behind(
    receiver: string,
    limit: number,
    except: ReadonlySet<string> = new Set(),
  ): Promise<readonly Behind[]> {
    const suspects = this.#suspectsOf(receiver)
    const behind: Behind[] = []
    const starts: (readonly [conversation: string, ordinal: number])[] = []
    for (const conversation of suspects) {
      if (behind.length >= limit) break
      if (except.has(conversation)) continue
      const visible = this.#db.row<Visible>(visibleSql, conversation)
      const cursor = this.#db.row<Cursor>(cursorSql, receiver, conversation)
      const lack = lackOf(conversation, visible, cursor)
      if (lack === undefined) suspects.delete(conversation)
      else behind.push(lack)
      if (cursor === undefined && visible !== undefined) starts.push([conversation, visible[0]])
    }
    if (starts.length > 0) await this.#start(receiver, starts)
    return behind
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
      done: () => this.#putLast(receiver, conversation),
    }))
  }

  async forget(receiver: string, conversation: string): Promise<void> {
    await this.#writer.write(() => ({
      apply: () => this.#db.run(forgetSql, receiver, conversation),
      done: () => this.#putLast(receiver, conversation),
    }))
  }

  /**
   * Cursors at 0 are written before anything is told: if a receiver has taken something when the process dies, the removal of
   * that conversation must reach it too.
   */
  async #start(receiver: string, starts: readonly (readonly [string, number])[]): Promise<void> {
    await this.#writer.write(() => ({
      apply: () => {
        for (const [conversation, ordinal] of starts) this.#db.run(startSql, receiver, conversation, ordinal)
      },
      done: () => {},
    }))
  }

  /** In the conversation that the receiver knows; only when it knows none in the one that is there. */
  #put(receiver: string, conversation: string, to: Parameters<Deliveries['advance']>[2]): void {
    const visible = this.#db.row<Visible>(visibleSql, conversation)
    const ordinal = this.#db.row<Cursor>(cursorSql, receiver, conversation)?.[0] ?? visible?.[0]
    if (ordinal === undefined) return
    const head = visible?.[0] === ordinal ? visible[1] : to.position
    this.#db.run(putSql, receiver, conversation, ordinal, Math.min(to.position, head), to.updated_at)
  }

  #suspectsOf(receiver: string): Set<string> {
    let suspects = this.#suspects.get(receiver)
    if (suspects === undefined) {
      const removed = this.#db.rows<[string]>(removedSql, receiver)
      const changed = this.#db.rows<[string]>(changedSql, receiver)
      suspects = new Set([...removed, ...changed].map(([conversation]) => conversation))
      this.#suspects.set(receiver, suspects)
    }
    return suspects
  }

  /** Whoever has just been told of something waits behind the others. */
  #putLast(receiver: string, conversation: string): void {
    const suspects = this.#suspects.get(receiver)
    suspects?.delete(conversation)
    suspects?.add(conversation)
  }
}

/** What a receiver lacks of a conversation; undefined when it knows all there is. */
function lackOf(
  conversation: string,
  visible: Visible | undefined,
  cursor: Cursor | undefined,
): Behind | undefined {
  if (cursor === undefined)
    return visible && { conversation, position: 0, updated_at: null, isRemoved: false }
  const [ordinal, position, updated_at] = cursor
  if (visible?.[0] !== ordinal) return { conversation, position, updated_at, isRemoved: true }
  const isBehind = position < visible[1] || updated_at !== visible[2]
  return isBehind ? { conversation, position, updated_at, isRemoved: false } : undefined
}
