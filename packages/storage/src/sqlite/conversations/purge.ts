import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import type { PlannedChange } from '../database/commit-queue.ts'
import {
  type CompactedFile,
  type CompactOptions,
  compactInSteps,
  minReclaimedPages,
  reclaimSpace,
} from '../database/reclaim-space.ts'
import { isStorageFailure } from '../database/storage-failure.ts'
import type { StorageContext } from '../event-log/event-log.ts'
import { rowBase } from '../event-log/schema.ts'

const rowsPerTurn = 500
/** Between attempts while the storage cannot be written. */
const retryMs = 250

export interface Leftover {
  readonly ordinal: number
  /** Rows after this position, the head, are deleted; undefined deletes the conversation, which is invisible. */
  readonly above: number | undefined
  /** Where the row may not be stored, and its ordinal may belong to another conversation by then. */
  readonly conversation?: string
}

/** Whether there may be more rows, or the leftover is not stored any more. */
type ChunkResult = 'more' | 'end' | 'gone'

const storedSql = `SELECT 1 FROM leftover JOIN conversation USING (ordinal)
  WHERE ordinal = ?1 AND above = coalesce(?2, 0) AND (?3 IS NULL OR id = ?3)
    AND CASE WHEN ?2 IS NULL THEN is_visible = 0 ELSE is_visible = 1 AND head = ?2 END`

/**
 * Deletes the rows of unpublished imports and removed conversations, in small transactions. Each checks that
 * the leftover is still stored: one that memory knows of may have been published by a commit that was
 * reported as failed.
 */
export class Purge {
  readonly #context: StorageContext
  readonly #closing = new AbortController()
  readonly #compacting = new Set<Promise<CompactedFile>>()
  #queue: Promise<void> = Promise.resolve()
  #scheduled = 0

  constructor(context: StorageContext) {
    this.#context = context
  }

  /** Schedules what the last process left behind. */
  resume(): void {
    const leftovers = this.#context.db.all<[number, number, string, number]>(
      `SELECT leftover.ordinal, above, CASE is_visible WHEN 1 THEN id ELSE '' END, head
       FROM leftover JOIN conversation USING (ordinal) ORDER BY is_visible DESC`,
    )
    for (const [ordinal, above, conversation, head] of leftovers) {
      if (above !== (conversation === '' ? 0 : head)) {
        const message = 'what an import left behind is not removed: its record is damaged'
        this.#context.log('error', message, { ordinal, above, head })
        continue
      }
      if (conversation !== '') this.#context.importLocks.acquire(conversation)
      const leftover = { ordinal, above: conversation === '' ? undefined : above }
      this.schedule(leftover, () => this.#context.importLocks.release(conversation))
    }
  }

  /** Runs in the background, one at a time. */
  schedule(leftover: Leftover, done: () => void = () => {}): void {
    const { log } = this.#context
    this.#scheduled += 1
    this.#queue = this.#queue
      .then(async () => {
        await this.#clearPatiently(leftover)
        done()
        if (this.#scheduled === 1) await this.#checkpoint()
      })
      .catch((error: unknown) => {
        if (!this.#closing.signal.aborted)
          log('error', 'removed events could not be purged', { error: String(error) })
      })
      .finally(() => {
        this.#scheduled -= 1
      })
  }

  /**
   * Resolves when the files have nothing of what was removed before. A reader at that moment may keep it in
   * the write-ahead logs a while longer: the checkpoint is tried again.
   */
  async overwriteRemoved(): Promise<void> {
    await this.#queue
    await this.#checkpoint()
  }

  /** Deleted rows are overwritten in the databases; the write-ahead logs have them until they begin again. */
  async #checkpoint(): Promise<void> {
    await this.#context.text.compact(0)
    await this.#context.writer.checkpoint()
  }

  /** Runs now. */
  run(leftover: Leftover): Promise<void> {
    return this.#clear(leftover, () => nextTurn())
  }

  async #clearPatiently(leftover: Leftover): Promise<void> {
    const wait = (elapsedMs: number) =>
      pause(elapsedMs, undefined, { ref: false, signal: this.#closing.signal })
    for (;;) {
      try {
        return await this.#clear(leftover, wait)
      } catch (error) {
        if (!isStorageFailure(error)) throw error
        await wait(retryMs)
      }
    }
  }

  /** Gives free space back now. Rejects when the storage closes or cannot be written. */
  async compact({ signal, maxMs }: CompactOptions): Promise<CompactedFile> {
    const { writer, db } = this.#context
    const compacting = compactInSteps(db, (apply) => writer.write(() => ({ apply })), {
      signal: AbortSignal.any([signal, this.#closing.signal]),
      maxMs,
      checkpoint: () => writer.checkpoint(),
    })
    this.#compacting.add(compacting)
    return await compacting.finally(() => this.#compacting.delete(compacting))
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#queue
    await Promise.allSettled(this.#compacting)
  }

  async #clear(leftover: Leftover, waitBetween: (elapsedMs: number) => Promise<unknown>): Promise<void> {
    const { writer, text, db } = this.#context
    const { ordinal, above } = leftover
    for (let next: ChunkResult = 'more'; next === 'more'; ) {
      const began = performance.now()
      next = await writer.write(() => this.#planChunk(leftover))
      if (next === 'gone' || this.#closing.signal.aborted) return
      await waitBetween(performance.now() - began)
    }
    if (above === undefined) await text.forget(ordinal)
    await writer.write(() => {
      if (!this.#isStored(leftover)) return {}
      return {
        apply: () => {
          db.run('DELETE FROM conversation WHERE ordinal = ? AND is_visible = 0', ordinal)
          db.run('DELETE FROM leftover WHERE ordinal = ?', ordinal)
        },
      }
    })
    await this.#reclaim(waitBetween)
  }

  /** To be called in the transaction that deletes. */
  #isStored({ ordinal, above, conversation }: Leftover): boolean {
    return this.#context.db.get(storedSql, ordinal, above ?? null, conversation ?? null) !== undefined
  }

  /** Gives the space of the deleted rows back to the file system. */
  async #reclaim(waitBetween: (elapsedMs: number) => Promise<unknown>): Promise<void> {
    const { writer, db } = this.#context
    if (db.reclaimablePages() < minReclaimedPages) return
    const write = (apply: () => void) => writer.write(() => ({ apply }))
    await reclaimSpace(db, { write, waitBetween, isStopped: () => this.#closing.signal.aborted })
    if (!this.#closing.signal.aborted) await writer.checkpoint()
  }

  #planChunk(leftover: Leftover): PlannedChange<ChunkResult> {
    if (!this.#isStored(leftover)) return { done: () => 'gone' }
    const { db } = this.#context
    const { ordinal, above = 0 } = leftover
    const from = rowBase(ordinal) + above
    const until = rowBase(ordinal) + positionsPerConversation
    const [first] =
      db.get<[number | null]>('SELECT min(row) FROM event WHERE row > ? AND row < ?', from, until) ?? []
    const low = first ?? until
    const high = Math.min(low + rowsPerTurn, until)
    return {
      apply: () => db.run('DELETE FROM event WHERE row >= ? AND row < ?', low, high),
      done: () => (high < until ? 'more' : 'end'),
    }
  }
}
