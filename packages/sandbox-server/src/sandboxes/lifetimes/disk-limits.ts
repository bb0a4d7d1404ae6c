import { Semaphore } from '@slipway/shared/async'
import { errorText } from '@slipway/shared/text'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { SandboxContext } from '../state/context.ts'

/**
 * Keeps running sandboxes that share a file system within their limits of disk.
 *
 * Nothing refuses their writes, so a sandbox exceeds its limit until it is measured. Measuring one reads the
 * sizes of all its files, which takes longer than a fast writer needs for a small limit; the free space of a
 * file system is known in a tenth of a millisecond and does not say who wrote. Both are used:
 *
 * - `written` adds up by how much the free space shrank. No sandbox has written more than that since it was
 *   measured: its size then and what was written since are a bound of what it keeps.
 * - A sandbox is measured when its bound is halfway to the limit, and halfway again. Near the limit it is
 *   frozen before: what it keeps is exact then, and it stays paused when that is more than the limit. One that
 *   writes fast is frozen a little earlier, since that takes some milliseconds, and continues once more.
 * - The next look comes when the fastest writer that is expected may have reached a bound.
 * - When one sandbox writes, the bounds of all grow. One that grew little is measured again after ten times as
 *   long as it took, so that it is rarely frozen for the work of others.
 * - Space that something frees at the same time hides what is written, so each is measured every minute.
 *
 * A limit is exceeded by more than a tenth by a faster writer, by one system call that writes much (a frozen
 * process ends it first), on a machine too busy to answer in time, and where a tenth of the limit is less than
 * what is written in `shortestDelayMs`.
 *
 * A sandbox that was paused here may be resumed to remove files, and is paused again when it keeps clearly
 * more than then.
 */

/** The fastest that sandboxes are expected to write, bytes in a millisecond. */
export const writeSpeed = 2 * 2 ** 20
const shortestDelayMs = 5
/** Until a sandbox is measured that began to run. */
const listingDelayMs = 100
/** A sandbox is frozen to be measured when it kept this share of the limit, */
const nearShare = 3 / 4
/** again when it may have written this share more, */
const stepShare = 1 / 32
/** and so long before it may reach the limit; longer where measuring took long, as on a busy machine. */
const leadMs = 40
const maxLeadMs = 240
const measuredMs = 60_000
/** Part of the time that measuring may take where it finds no writer. */
const measuredShare = 1 / 10
/** After a failure. */
const retryMs = 5_000
const maxExcessStep = 64 * 2 ** 20

export type DiskLimitsDeps = SandboxContext & {
  /** Pauses a sandbox that was frozen, or continues it when another request has changed its row. */
  readonly pause: (
    row: SandboxRow,
    sizes: { readonly bytes: number; readonly limit_bytes: number },
  ) => Promise<void>
  /** Bytes by which the free space of the file system shrank since the start. */
  readonly readWritten: () => Promise<number>
  /** Called when a sandbox has been measured: `check` may have something to do. */
  readonly onMeasured: () => void
}

/** A sandbox as it was measured last. */
interface Measured {
  readonly row: SandboxRow
  readonly limit: number
  readonly bytes: number
  /** By all sandboxes, when the measuring began. */
  readonly written: number
  readonly atMs: number
  readonly tookMs: number
  /** Its part of what was written before, 0 to 1. */
  readonly share: number
  /** Not measured again before, unless it is expected to have written a step. */
  readonly nextMs: number
}

export class DiskLimits {
  readonly #deps: DiskLimitsDeps
  /** At most, since the running sandboxes were listed: each server hears of those that it starts. */
  readonly #unlistedBytes: number
  readonly #unhurried = new Semaphore(2)
  readonly #measuring = new Map<string, Promise<void>>()
  readonly #freezing = new Map<string, Promise<void>>()
  /** Running sandboxes with a limit, by id. */
  #known = new Map<string, Measured>()
  /** Bytes in a millisecond, by all sandboxes, of late. */
  #speed = 0
  #last: { readonly written: number; readonly atMs: number } | undefined
  #listed: { readonly written: number; readonly nextMs: number } | undefined
  /** Bytes of sandboxes that were paused because of their limit, by id. */
  readonly #excess = new Map<string, number>()

  constructor(deps: DiskLimitsDeps) {
    this.#deps = deps
    const limits = deps.specs.list().map(({ id }) => this.#getLimit(id) ?? Number.POSITIVE_INFINITY)
    this.#unlistedBytes = Math.min(...limits) / 4
  }

  /** The next check finds sandboxes that have begun to run. */
  forgetList(): void {
    this.#listed = undefined
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#measuring.values(), ...this.#freezing.values()])
  }

  /** Begins to measure what may be too large by now. Milliseconds until something else may be. */
  async check(written: number): Promise<number> {
    const { clock } = this.#deps
    if (this.#unlistedBytes === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY
    const isUnlisted = this.#listed === undefined || written - this.#listed.written >= this.#unlistedBytes
    if (isUnlisted && clock.monotonic() >= (this.#listed?.nextMs ?? 0)) await this.#list(written)
    const nowMs = clock.monotonic()
    const { written: before, atMs } = this.#last ?? { written, atMs: nowMs }
    this.#speed = Math.max(this.#speed * 0.8, (written - before) / Math.max(1, nowMs - atMs))
    this.#last = { written, atMs: nowMs }
    const tookMs = [...this.#known.values()].reduce((sum, each) => sum + each.tookMs, 0)
    const periodMs = Math.max(measuredMs, tookMs / measuredShare)
    let delayMs = Math.max(
      listingDelayMs,
      (this.#unlistedBytes - written + (this.#listed?.written ?? 0)) / writeSpeed,
    )
    for (const [id, each] of this.#known) {
      if (this.#freezing.has(id)) continue
      const isMeasuring = this.#measuring.has(id)
      const grown = written - each.written
      const isNear = each.bytes + each.share * grown >= each.limit * nearShare
      const leftMs = (this.#nextBound(each, isNear) - each.bytes - grown) / writeSpeed
      const restMs = each.share * grown >= each.limit * stepShare ? 0 : each.nextMs
      const dueMs = Math.min(Math.max(restMs, nowMs + leftMs), isMeasuring ? Infinity : each.atMs + periodMs)
      if (dueMs > nowMs) delayMs = Math.min(delayMs, Math.max(shortestDelayMs, dueMs - nowMs))
      else if (isNear && leftMs <= 0) this.#begin(each, this.#freezing)
      else if (!isMeasuring) this.#begin(each, this.#measuring)
    }
    return delayMs
  }

  /** Finds the running sandboxes with a limit; new ones are measured. */
  async #list(written: number): Promise<void> {
    const { clock, rows, signal } = this.#deps
    const startMs = clock.monotonic()
    const known = new Map<string, Measured>()
    const ids = new Set<string>()
    for await (const row of rows.iterateAll()) {
      if (signal.aborted) return
      ids.add(row.id)
      const limit = this.#getLimit(row.spec)
      if (limit === undefined || !isUsedAndRunning(row)) continue
      const allowed = this.#allowed(row.id, limit)
      const none = {
        bytes: 0,
        written,
        atMs: Number.NEGATIVE_INFINITY,
        tookMs: 0,
        share: 1,
        nextMs: 0,
      }
      known.set(row.id, { ...(this.#known.get(row.id) ?? none), row, limit: allowed })
    }
    this.#known = known
    for (const id of this.#excess.keys()) if (!ids.has(id)) this.#excess.delete(id)
    const endMs = clock.monotonic()
    this.#listed = { written, nextMs: endMs + (endMs - startMs) / measuredShare }
  }

  #begin(each: Measured, running: Map<string, Promise<void>>): void {
    const { signal, log, clock, onMeasured } = this.#deps
    const { id } = each.row
    const isFrozen = running === this.#freezing
    const work = () => this.#measure(each, isFrozen)
    const measuring = (isFrozen ? work() : this.#unhurried.run(work))
      .catch((error: unknown) => {
        if (!signal.aborted)
          log('error', 'the disk of a sandbox cannot be measured', { sandbox: id, error: errorText(error) })
        const atMs = clock.monotonic()
        this.#known.set(id, { ...each, atMs, nextMs: atMs + retryMs })
      })
      .finally(() => {
        running.delete(id)
        if (!signal.aborted) onMeasured()
      })
    running.set(id, measuring)
  }

  async #measure(each: Measured, isFrozen: boolean): Promise<void> {
    const { backends, clock, readWritten, pause } = this.#deps
    const { row, limit } = each
    const backend = backends.get(row.backend)
    const startMs = clock.monotonic()
    const written = await readWritten()
    const bytes = isFrozen ? await backend?.pauseAbove?.(row.id, limit) : await backend?.diskUsage?.(row.id)
    // Whatever is known of it by now: nothing else continues or pauses it.
    if (isFrozen && bytes !== undefined && bytes > limit) {
      this.#known.delete(row.id)
      this.#excess.set(row.id, bytes)
      return await pause(row, { bytes, limit_bytes: limit })
    }
    const known = this.#known.get(row.id)
    // Another measuring began later, or it is known that it does not run.
    if (known === undefined || known.written > written) return
    if (bytes === undefined) return void this.#known.delete(row.id)
    if (bytes <= (this.#getLimit(row.spec) ?? 0)) this.#excess.delete(row.id)
    const atMs = clock.monotonic()
    const tookMs = atMs - startMs
    const isFirst = each.atMs === Number.NEGATIVE_INFINITY
    const share = isFirst ? 1 : Math.min(1, Math.max(0, bytes - each.bytes) / (written - each.written || 1))
    const nextMs = atMs + tookMs / measuredShare
    this.#known.set(row.id, { row, limit, bytes, written, atMs, tookMs, share, nextMs })
  }

  /** What it is measured at. */
  #nextBound({ bytes, limit, tookMs, share }: Measured, isNear: boolean): number {
    if (bytes > limit) return limit
    if (!isNear) return (bytes + limit) / 2
    const lead = share * this.#speed * Math.min(leadMs + tookMs, maxLeadMs)
    return Math.max(limit - lead, bytes + limit * stepShare)
  }

  /** Of one that was paused because of its limit, what it kept and some more. */
  #allowed(id: string, limit: number): number {
    const excess = this.#excess.get(id)
    return excess === undefined ? limit : excess + Math.min(maxExcessStep, limit / 10)
  }

  /** Bytes. Its spec may be gone. */
  #getLimit(spec: string): number | undefined {
    const { specs, maxDiskBytes = 0 } = this.#deps
    return specs.find(spec)?.resources.disk_bytes ?? (maxDiskBytes > 0 ? maxDiskBytes : undefined)
  }
}

export function isUsedAndRunning({ owner, wanted, status }: SandboxRow): boolean {
  return owner !== null && wanted === 'running' && status === 'RUNNING'
}
