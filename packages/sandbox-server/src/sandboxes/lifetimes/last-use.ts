import type { Instant, LogFunction } from '@slipway/protocol'
import type { SandboxRow, SandboxRows } from '@slipway/storage'

export interface LastUseTrackerOptions {
  readonly rows: Pick<SandboxRows, 'update'>
  readonly log: LogFunction
  /** Milliseconds. */
  readonly now: () => number
  /** Uses are written down at most this often for each sandbox; 60 s unless given. */
  readonly writeIntervalMs?: number
}

/** When sandboxes were used last. It is written down now and then only: a use is no reason to wait for a disk. */
export class LastUseTracker implements AsyncDisposable {
  readonly #options: LastUseTrackerOptions
  readonly #entries = new Map<string, { last: Instant; written: Instant }>()
  readonly #writes = new Set<Promise<void>>()

  constructor(options: LastUseTrackerOptions) {
    this.#options = options
  }

  touch(id: string): void {
    const now = this.#options.now() * 1000
    const existing = this.#entries.get(id)
    if (existing === undefined) this.#dropPersisted(now)
    const entry = existing ?? { last: now, written: 0 }
    this.#entries.set(id, entry)
    entry.last = now
    if (now - entry.written < this.#writeIntervalMicros) return
    entry.written = now
    const write = this.#write(id, now).finally(() => this.#writes.delete(write))
    this.#writes.add(write)
  }

  lastUse(row: Pick<SandboxRow, 'id' | 'used_at'>): Instant {
    return Math.max(row.used_at, this.#entries.get(row.id)?.last ?? 0)
  }

  /** Writes down what is known. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const [id, { last, written }] of this.#entries) if (last > written) await this.#write(id, last)
    this.#entries.clear()
    await Promise.all(this.#writes)
  }

  async #write(id: string, used_at: Instant): Promise<void> {
    try {
      await this.#options.rows.update(id, { used_at })
    } catch (error) {
      this.#options.log('warn', 'the use of a sandbox was not written down', {
        sandbox: id,
        error: String(error),
      })
    }
  }

  /** What was written down and not used since says nothing more than the row. */
  #dropPersisted(now: Instant): void {
    for (const [id, { last, written }] of this.#entries) {
      if (last === written && now - written > this.#writeIntervalMicros) this.#entries.delete(id)
    }
  }

  get #writeIntervalMicros(): number {
    return (this.#options.writeIntervalMs ?? 60_000) * 1000
  }
}
