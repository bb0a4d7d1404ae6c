import { setTimeout as pause } from 'node:timers/promises'
import { isStorageFailure } from '@slipway/protocol'
import { HeldElsewhereError } from '../../conversations/leases.ts'
import type { StorageContext } from '../event-log/event-log.ts'
import type { GroupPlan } from '../group-commit/group-plan.ts'

const rowsPerTransaction = 1_000
/** Between attempts while the database is away. */
const retryMs = 250

export interface Leftover {
  readonly ordinal: number
  /** Events after this position, the head, are deleted; undefined deletes the conversation, which is invisible. */
  readonly above: number | undefined
  /** The lease of a conversation that is visible. */
  readonly epoch?: number | undefined
}

const selectSql = `SELECT leftover.ordinal, above, CASE WHEN is_visible THEN id END
  FROM leftover JOIN conversation USING (ordinal) ORDER BY is_visible DESC`
/** Where servers share the data: invisible conversations whose server is gone become those of this server. */
const adoptSql = `WITH adopted AS (
    UPDATE leftover SET server = $1 FROM conversation
    WHERE conversation.ordinal = leftover.ordinal AND NOT is_visible
      AND NOT EXISTS (SELECT 1 FROM agent_server WHERE agent_server.id = leftover.server)
    RETURNING leftover.ordinal
  ), fenced AS (
    UPDATE conversation SET epoch = epoch + 1 FROM adopted WHERE conversation.ordinal = adopted.ordinal
  )
  SELECT ordinal FROM adopted`
/** Of $1, the ordinal, $2, the position or 0, and $3, whether the conversation goes too. */
const isStored = `leftover.ordinal = $1 AND leftover.above = $2 AND conversation.ordinal = leftover.ordinal
  AND CASE WHEN $3 THEN NOT is_visible ELSE is_visible AND head = $2 END`
const deleteEventsSql = `WITH stored AS (SELECT 1 FROM leftover, conversation WHERE ${isStored} FOR UPDATE)
  DELETE FROM event WHERE EXISTS (SELECT FROM stored) AND conversation = $1 AND position > $2 AND position <= (
    SELECT max(position) FROM (
      SELECT position FROM event WHERE conversation = $1 AND position > $2 ORDER BY position LIMIT ${rowsPerTransaction}
    ) AS chunk)`
const deleteRestSql = `WITH stored AS (DELETE FROM leftover USING conversation WHERE ${isStored} RETURNING leftover.ordinal),
    messages AS (DELETE FROM message USING stored WHERE conversation = stored.ordinal AND position > $2)
  DELETE FROM conversation USING stored WHERE conversation.ordinal = stored.ordinal AND NOT is_visible`

/**
 * Deletes the events of unpublished imports and removed conversations, in small transactions. Each statement
 * checks that the leftover is still stored: one that memory knows of may have been published by a commit
 * whose answer was lost.
 */
export class Purge {
  readonly #context: StorageContext
  readonly #closing = new AbortController()
  #queue: Promise<void> = Promise.resolve()

  constructor(context: StorageContext) {
    this.#context = context
  }

  /** Schedules what the last process left behind. */
  async resume(): Promise<void> {
    const { db, importLocks, leases } = this.#context
    if (leases !== undefined) {
      for (const [ordinal] of await db.query<[number]>(adoptSql, [leases.server]))
        this.schedule({ ordinal, above: undefined })
      return
    }
    for (const [ordinal, above, conversation] of await db.query<[number, number, string | null]>(selectSql)) {
      if (conversation !== null) importLocks.acquire(conversation)
      this.schedule({ ordinal, above: conversation === null ? undefined : above }, () => {
        if (conversation !== null) importLocks.release(conversation)
      })
    }
  }

  /** Runs in the background, one at a time. */
  schedule(leftover: Leftover, done: () => void = () => {}): void {
    this.#queue = this.#queue
      .then(async () => {
        await this.#runPatiently(leftover)
        done()
      })
      .catch((error: unknown) => {
        if (!this.#closing.signal.aborted)
          this.#context.log('error', 'removed events could not be purged', { error: String(error) })
      })
  }

  /** Runs now. */
  async run({ ordinal, above, epoch }: Leftover): Promise<void> {
    const { writer } = this.#context
    const values = [ordinal, above ?? 0, above === undefined]
    const fence = (group: GroupPlan) => {
      if (epoch !== undefined) group.fence({ ordinal, epoch })
    }
    for (let isMore = true; isMore && !this.#closing.signal.aborted; )
      isMore = await writer.write({
        plan: (group) => {
          fence(group)
          const deleted = group.run(deleteEventsSql, values)
          return { done: () => deleted.rowCount >= rowsPerTransaction }
        },
      })
    if (this.#closing.signal.aborted) return
    await writer.write({
      plan: (group) => {
        fence(group)
        group.run(deleteRestSql, values)
        return {}
      },
    })
  }

  /** Resolves when what was scheduled before is deleted. */
  async settled(): Promise<void> {
    await this.#queue
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#queue
  }

  async #runPatiently(leftover: Leftover): Promise<void> {
    for (;;) {
      try {
        return await this.run(leftover)
      } catch (error) {
        // The server that has the lease removes it.
        if (error instanceof HeldElsewhereError) return
        if (!isStorageFailure(error)) throw error
        await pause(retryMs, undefined, { ref: false, signal: this.#closing.signal })
      }
    }
  }
}
