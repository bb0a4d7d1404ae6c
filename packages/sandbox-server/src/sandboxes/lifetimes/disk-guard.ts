import { statfs as systemStatfs } from 'node:fs/promises'
import { must } from '@slipway/protocol'
import type { Timer } from '@slipway/shared/time'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { Reconciler } from '../reconcile/reconciler.ts'
import type { SandboxContext } from '../state/context.ts'
import { DiskLimits, isUsedAndRunning, writeSpeed } from './disk-limits.ts'

const shortestDelayMs = 100
const longestDelayMs = 5_000
/** Of a smaller file system the reserve is this share. */
const maxReserveShare = 0.1
/** After a pause the next one comes when this share of the reserve has been used meanwhile. */
const stepShare = 1 / 8
const pauseTimeoutMs = 30_000
/** When nothing keeps more than this, something else fills the disk. */
const minUsageBytes = 16 * 2 ** 20

type DiskGuardDeps = SandboxContext & { readonly reconciler: Reconciler }
type Statfs = (
  directory: string,
) => Promise<{ readonly bsize: number; readonly bavail: number; readonly blocks: number }>

/**
 * Keeps free space on the file system of the sandboxes for the server and the others: when less than the
 * reserve is left, the running sandbox with the most bytes there is paused, and the next one only when space
 * continues to shrink. The less is left, the sooner it looks again. `DiskLimits` keeps each within its limit.
 */
export class DiskGuard implements AsyncDisposable {
  readonly #deps: DiskGuardDeps
  readonly #statfs: Statfs
  readonly #limits: DiskLimits
  #timer: Timer | undefined
  #checking: Promise<void> = Promise.resolve()
  /** Free bytes below which the next sandbox is paused; undefined: below the reserve. */
  #threshold: number | undefined
  /** Bytes by which the free space shrank since the start, whatever was freed meanwhile. */
  #written = 0
  #free: number | undefined
  /** Free bytes of the other file systems, by a directory of each. */
  readonly #otherFree = new Map<string, number>()
  /** A check is asked for while one runs. */
  #isNotified = false

  /** `statfs` is for tests of disks that fill. */
  constructor(deps: DiskGuardDeps, statfs: Statfs = systemStatfs) {
    this.#deps = deps
    this.#statfs = statfs
    this.#limits = new DiskLimits({
      ...deps,
      pause: (row, sizes) => this.#pause(row, 'it keeps more on disk than its limit', sizes),
      readWritten: async () => (await this.#measure()).written,
      onMeasured: () => this.#wake(),
    })
  }

  start(): void {
    if (this.#deps.diskReserve !== undefined) this.#schedule(0)
  }

  /** A sandbox has begun to run. */
  notify(): void {
    this.#limits.forgetList()
    this.#wake()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#timer?.cancel()
    await this.#checking
    await this.#limits.stop()
  }

  /** Looks again, now. */
  #wake(): void {
    if (this.#timer === undefined) this.#isNotified = true
    else this.#schedule(0)
  }

  #schedule(delayMs: number): void {
    this.#timer?.cancel()
    this.#timer = undefined
    if (this.#deps.signal.aborted) return
    const check = () => {
      this.#timer = undefined
      this.#isNotified = false
      this.#checking = this.#check().then(
        (next) => this.#schedule(this.#isNotified ? 0 : next),
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
    const { free, reserve, written } = await this.#measure()
    if (free >= reserve) this.#threshold = undefined
    const spare = free - (this.#threshold ?? reserve)
    if (spare >= 0) {
      const limitsMs = await this.#limits.check(written)
      return Math.min(longestDelayMs, limitsMs, Math.max(shortestDelayMs, spare / writeSpeed))
    }
    const largest = await this.#findLargest()
    if (signal.aborted) return longestDelayMs
    if (largest === undefined || largest.bytes < minUsageBytes)
      log('warn', 'the disk of the sandboxes is nearly full, and none of them fills it', { free_bytes: free })
    else await this.#pause(largest.row, 'the disk is nearly full', { bytes: largest.bytes, free_bytes: free })
    this.#threshold = (await this.#measure()).free - reserve * stepShare
    return shortestDelayMs
  }

  async #measure() {
    const {
      directory,
      bytes,
      otherDisks = new Map<string, string>(),
    } = must(this.#deps.diskReserve, 'a reserve')
    const { bsize, bavail, blocks } = await this.#statfs(directory)
    const free = bavail * bsize
    this.#written += Math.max(0, (this.#free ?? free) - free)
    this.#free = free
    for (const other of otherDisks.values()) {
      const found = await this.#statfs(other)
      const otherFree = found.bavail * found.bsize
      this.#written += Math.max(0, (this.#otherFree.get(other) ?? otherFree) - otherFree)
      this.#otherFree.set(other, otherFree)
    }
    return { free, reserve: Math.min(bytes, blocks * bsize * maxReserveShare), written: this.#written }
  }

  async #pause(row: SandboxRow, reason: string, sizes: Readonly<Record<string, number>>): Promise<void> {
    const { repository, reconciler, clock, log, signal } = this.#deps
    log('warn', `pause a sandbox: ${reason}`, { sandbox: row.id, ...sizes })
    // One that is frozen and is to run continues: another request has changed its row, or it cannot be
    // written.
    const changed = await repository
      .update(row, { wanted: 'paused' }, { detail: reason })
      .finally(() => reconciler.notify(row.id))
    if (changed === undefined) return
    const hasStopped = async () =>
      (await repository.get(row.id))?.status === 'RUNNING' ? undefined : ('stopped' as const)
    const limit = AbortSignal.any([signal, clock.timeout(pauseTimeoutMs)])
    await repository.until(row.id, hasStopped, limit)
  }

  async #findLargest(): Promise<{ readonly row: SandboxRow; readonly bytes: number } | undefined> {
    const { rows, backends, signal } = this.#deps
    let largest: { readonly row: SandboxRow; readonly bytes: number } | undefined
    for await (const row of rows.iterateAll()) {
      if (signal.aborted) return undefined
      if (!isUsedAndRunning(row) || this.#deps.diskReserve?.otherDisks?.has(row.backend)) continue
      const bytes = await backends.get(row.backend)?.diskUsage?.(row.id)
      if (bytes !== undefined && bytes > (largest?.bytes ?? 0)) largest = { row, bytes }
    }
    return largest
  }
}
