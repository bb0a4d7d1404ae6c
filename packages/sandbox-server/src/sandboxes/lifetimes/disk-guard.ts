import { statfs } from 'node:fs/promises'
import { must } from '@slipway/protocol'
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
/** When nothing keeps more than this, something else fills the disk. */
const minUsageBytes = 16 * 2 ** 20

type DiskGuardDeps = SandboxContext & { readonly reconciler: Reconciler }

/**
 * Keeps free space on the file system of the sandboxes for the server and the others: when less than the
 * reserve is left, the running sandbox with the most bytes there is paused, and the next one only when space
 * goes on to shrink. The less is left, the sooner it looks again.
 */
export class DiskGuard implements AsyncDisposable {
  readonly #deps: DiskGuardDeps
  #timer: NodeJS.Timeout | undefined
  #checking: Promise<void> = Promise.resolve()
  /** Free bytes below which the next sandbox is paused; undefined: below the reserve. */
  #threshold: number | undefined

  constructor(deps: DiskGuardDeps) {
    this.#deps = deps
  }

  start(): void {
    if (this.#deps.diskReserve !== undefined && this.#deps.diskReserve.bytes > 0) this.#schedule(0)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer)
    await this.#checking
  }

  #schedule(delayMs: number): void {
    if (this.#deps.signal.aborted) return
    this.#timer = setTimeout(() => {
      this.#checking = this.#check().then(
        (next) => this.#schedule(next),
        (error: unknown) => {
          if (this.#deps.signal.aborted) return
          this.#deps.log('error', 'the space for sandboxes cannot be checked', { error: String(error) })
          this.#schedule(longestDelayMs)
        },
      )
    }, delayMs).unref()
  }

  /** Milliseconds until the next check. */
  async #check(): Promise<number> {
    const { signal, log } = this.#deps
    const { free, reserve } = await this.#measure()
    if (free >= reserve) this.#threshold = undefined
    const spare = free - (this.#threshold ?? reserve)
    if (spare >= 0) return Math.min(longestDelayMs, Math.max(shortestDelayMs, spare / writeSpeed))
    const largest = await this.#findLargest()
    if (signal.aborted) return longestDelayMs
    if (largest === undefined || largest.bytes < minUsageBytes)
      log('warn', 'the disk of the sandboxes is nearly full, and none of them fills it', { free_bytes: free })
    else await this.#pause(largest.row, { bytes: largest.bytes, free_bytes: free })
    this.#threshold = (await this.#measure()).free - reserve * stepShare
    return shortestDelayMs
  }

  async #measure(): Promise<{ readonly free: number; readonly reserve: number }> {
    const { directory, bytes } = must(this.#deps.diskReserve, 'a reserve')
    const { bsize, bavail, blocks } = await statfs(directory)
    return { free: bavail * bsize, reserve: Math.min(bytes, blocks * bsize * maxReserveShare) }
  }

  async #pause(row: SandboxRow, sizes: Readonly<Record<string, number>>): Promise<void> {
    const { repository, reconciler, log, signal } = this.#deps
    log('warn', 'pause a sandbox: the disk is nearly full', { sandbox: row.id, ...sizes })
    if ((await repository.update(row, { wanted: 'paused' })) === undefined) return
    reconciler.notify(row.id)
    const hasStopped = async () =>
      (await repository.get(row.id))?.status === 'RUNNING' ? undefined : ('stopped' as const)
    const limit = AbortSignal.any([signal, AbortSignal.timeout(pauseTimeoutMs)])
    await repository.changes.until(row.id, hasStopped, limit)
  }

  async #findLargest(): Promise<{ readonly row: SandboxRow; readonly bytes: number } | undefined> {
    const { rows, backends } = this.#deps
    let largest: { readonly row: SandboxRow; readonly bytes: number } | undefined
    for await (const row of rows.iterateAll()) {
      if (row.owner === null || row.wanted !== 'running' || row.status !== 'RUNNING') continue
      const bytes = await backends.get(row.backend)?.diskUsage?.(row.id)
      if (bytes !== undefined && bytes > (largest?.bytes ?? 0)) largest = { row, bytes }
    }
    return largest
  }
}
