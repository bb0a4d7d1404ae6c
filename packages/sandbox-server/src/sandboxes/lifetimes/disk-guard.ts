import { statfs as systemStatfs } from 'node:fs/promises'
import { must } from '@slipway/protocol'
import type { Timer } from '@slipway/shared/time'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { Reconciler } from '../reconcile/reconciler.ts'
import type { SandboxContext } from '../state/context.ts'

/** The fastest that a sandbox is expected to write, bytes in a millisecond. */
const writeSpeed = 2 * 2 ** 20
const shortestDelayMs = 100
const longestDelayMs = 5_000
/** Of a smaller file system the reserve is this share. */
const maxReserveShare = 0.1
/** After a pause the next one comes when this share of the reserve has been used meanwhile. */
const stepShare = 1 / 8
const pauseTimeoutMs = 30_000
/** Sandboxes are measured when this much was written since the last time, */
const maxMeasuredGrowth = 64 * 2 ** 20
/** or this share of the smallest limit, */
const measuredLimitShare = 1 / 8
/** and after this time. */
const measuredMs = 60_000
/** Part of the time that measuring may take. */
const measuredShare = 1 / 10
/** When nothing keeps more than this, something else fills the disk. */
const minUsageBytes = 16 * 2 ** 20

type DiskGuardDeps = SandboxContext & { readonly reconciler: Reconciler }
type Statfs = (
  directory: string,
) => Promise<{ readonly bsize: number; readonly bavail: number; readonly blocks: number }>

/**
 * Keeps free space on the file system of the sandboxes for the server and the others: when less than the
 * reserve is left, the running sandbox with the most bytes there is paused, and the next one only when space
 * continues to shrink. A running sandbox that keeps more than its limit is paused too; resumed, it may remove
 * files, and is paused again when it keeps clearly more than then. The less is left, and the smaller the
 * smallest limit, the sooner it looks again.
 */
export class DiskGuard implements AsyncDisposable {
  readonly #deps: DiskGuardDeps
  readonly #statfs: Statfs
  /** Bytes that a sandbox of some spec may keep; infinite without limits. */
  readonly #smallestLimit: number
  readonly #measuredGrowth: number
  #timer: Timer | undefined
  #checking: Promise<void> = Promise.resolve()
  /** Free bytes below which the next sandbox is paused; undefined: below the reserve. */
  #threshold: number | undefined
  /** The last time that all sandboxes were measured. */
  #measured: { readonly free: number; readonly nextMs: number; readonly latestMs: number } | undefined
  /** Bytes of sandboxes that were paused because of their limit, by id. */
  #excess = new Map<string, number>()

  /** `statfs` is for tests of disks that fill. */
  constructor(deps: DiskGuardDeps, statfs: Statfs = systemStatfs) {
    this.#deps = deps
    this.#statfs = statfs
    const limits = deps.specs.list().map(({ id }) => this.#getLimit(id) ?? Number.POSITIVE_INFINITY)
    this.#smallestLimit = Math.min(...limits)
    this.#measuredGrowth = Math.min(maxMeasuredGrowth, this.#smallestLimit * measuredLimitShare)
  }

  start(): void {
    if (this.#deps.diskReserve !== undefined) this.#schedule(0)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#timer?.cancel()
    await this.#checking
  }

  #schedule(delayMs: number): void {
    if (this.#deps.signal.aborted) return
    const check = () => {
      this.#checking = this.#check().then(
        (next) => this.#schedule(next),
        (error: unknown) => {
          if (this.#deps.signal.aborted) return
          this.#deps.log('error', 'the space for sandboxes cannot be checked', { error: String(error) })
          this.#schedule(longestDelayMs)
        },
      )
    }
    this.#timer = this.#deps.clock.schedule(delayMs, check, { ref: false })
  }

  /** Milliseconds until the next check. */
  async #check(): Promise<number> {
    const { signal, log } = this.#deps
    const { free, reserve } = await this.#measure()
    if (free >= reserve) this.#threshold = undefined
    const spare = free - (this.#threshold ?? reserve)
    if (spare >= 0) {
      await this.#checkLimits(free)
      return Math.min(
        longestDelayMs,
        Math.max(shortestDelayMs, Math.min(spare, this.#smallestLimit) / writeSpeed),
      )
    }
    const largest = await this.#findLargest()
    if (signal.aborted) return longestDelayMs
    if (largest === undefined || largest.bytes < minUsageBytes)
      log('warn', 'the disk of the sandboxes is nearly full, and none of them fills it', { free_bytes: free })
    else await this.#pause(largest.row, 'the disk is nearly full', { bytes: largest.bytes, free_bytes: free })
    this.#threshold = (await this.#measure()).free - reserve * stepShare
    return shortestDelayMs
  }

  async #measure(): Promise<{ readonly free: number; readonly reserve: number }> {
    const { directory, bytes } = must(this.#deps.diskReserve, 'a reserve')
    const { bsize, bavail, blocks } = await this.#statfs(directory)
    return { free: bavail * bsize, reserve: Math.min(bytes, blocks * bsize * maxReserveShare) }
  }

  /** Pauses the sandboxes above their limits. `free`: bytes on their file system. */
  async #checkLimits(free: number): Promise<void> {
    const startMs = this.#deps.clock.monotonic()
    this.#measured ??= { free, nextMs: 0, latestMs: startMs + measuredMs }
    const { nextMs, latestMs, free: lastFree } = this.#measured
    if (startMs < nextMs || (startMs < latestMs && lastFree - free < this.#measuredGrowth)) return
    const excess = new Map<string, number>()
    for await (const { row, bytes } of this.#measureSandboxes(true)) {
      const limit = this.#getLimit(row.spec)
      if (limit === undefined || bytes <= limit) continue
      const known = this.#excess.get(row.id) ?? 0
      excess.set(row.id, Math.max(known, bytes))
      const slack = known === 0 ? 0 : Math.min(maxMeasuredGrowth, limit / 10)
      if (row.wanted !== 'running' || bytes <= known + slack) continue
      await this.#pause(row, 'it keeps more on disk than its limit', { bytes, limit_bytes: limit })
    }
    this.#excess = excess
    const endMs = this.#deps.clock.monotonic()
    const nextAt = endMs + (endMs - startMs) / measuredShare
    this.#measured = { free, nextMs: nextAt, latestMs: Math.max(nextAt, endMs + measuredMs) }
  }

  /** Bytes. Its spec may be gone. */
  #getLimit(spec: string): number | undefined {
    const { specs, maxDiskBytes = 0 } = this.#deps
    return specs.find(spec)?.resources.disk_bytes ?? (maxDiskBytes > 0 ? maxDiskBytes : undefined)
  }

  async #pause(row: SandboxRow, reason: string, sizes: Readonly<Record<string, number>>): Promise<void> {
    const { repository, reconciler, clock, log, signal } = this.#deps
    log('warn', `pause a sandbox: ${reason}`, { sandbox: row.id, ...sizes })
    if ((await repository.update(row, { wanted: 'paused' })) === undefined) return
    reconciler.notify(row.id)
    const hasStopped = async () =>
      (await repository.get(row.id))?.status === 'RUNNING' ? undefined : ('stopped' as const)
    const limit = AbortSignal.any([signal, clock.timeout(pauseTimeoutMs)])
    await repository.until(row.id, hasStopped, limit)
  }

  async #findLargest(): Promise<{ readonly row: SandboxRow; readonly bytes: number } | undefined> {
    let largest: { readonly row: SandboxRow; readonly bytes: number } | undefined
    for await (const measured of this.#measureSandboxes(false))
      if (measured.bytes > (largest?.bytes ?? 0)) largest = measured
    return largest
  }

  /** The running sandboxes with an owner, and those that were paused because of their limit on request. */
  async *#measureSandboxes(hasPaused: boolean) {
    const { rows, backends, signal } = this.#deps
    for await (const row of rows.iterateAll()) {
      if (signal.aborted) return
      const isRunning = row.owner !== null && row.wanted === 'running' && row.status === 'RUNNING'
      if (!isRunning && !(hasPaused && this.#excess.has(row.id))) continue
      const bytes = await backends.get(row.backend)?.diskUsage?.(row.id)
      if (bytes !== undefined) yield { row, bytes }
    }
  }
}
