import { Problem } from '@slipway/protocol'
import type { Extent } from '../../event-log/append-planner.ts'
import type { Database } from '../database/database.ts'
import { readableRows, sumRows } from '../database/readable-rows.ts'

/** Bytes of stored events; infinite where there is no limit. */
export interface StorageLimits {
  readonly totalBytes: number
  readonly conversationBytes: number
}

/** How long a sum over all conversations is used. */
const maxSumAgeMs = 1_000
const mib = 1024 ** 2
const sumSql = (condition: string) => `SELECT coalesce(sum(bytes), 0) FROM conversation WHERE ${condition}`

/**
 * Refuses events that would exceed a limit. Events of the environment are always stored, so a run that is
 * refused can record its results and its end.
 */
export class LimitGuard {
  readonly #db: Database
  readonly #limits: StorageLimits
  #sum = 0
  #summedAtMs = Number.NEGATIVE_INFINITY

  constructor(db: Database, limits: StorageLimits) {
    this.#db = db
    this.#limits = limits
  }

  /** Throws a Problem `storage_full`. */
  assertRoom(before: Extent, after: Extent, newEvents: readonly { readonly source: string }[]): void {
    const { totalBytes, conversationBytes } = this.#limits
    if (newEvents.every(({ source }) => source === 'environment')) return
    if (after.bytes > conversationBytes)
      throw new Problem(
        'storage_full',
        `A conversation may store ${Math.floor(conversationBytes / mib)} MiB of events: continue in another one`,
      )
    if (totalBytes === Number.POSITIVE_INFINITY) return
    if (this.#readSum() + after.bytes - before.bytes > totalBytes)
      throw new Problem(
        'storage_full',
        `The server may store ${Math.floor(totalBytes / mib)} MiB of events: delete conversations`,
      )
  }

  /** Counts bytes until the sum is read again. */
  add(bytes: number): void {
    this.#sum += bytes
  }

  #readSum(): number {
    const nowMs = performance.now()
    if (nowMs - this.#summedAtMs > maxSumAgeMs) {
      this.#summedAtMs = nowMs
      this.#sum = sumRows(readableRows(this.#db, sumSql))
    }
    return this.#sum
  }
}
