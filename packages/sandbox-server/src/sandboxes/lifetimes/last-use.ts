import type { Instant, Log } from '@slipway/protocol'
import type { SandboxRow, SandboxRows } from '@slipway/storage'

export interface UsesOptions {
  readonly rows: Pick<SandboxRows, 'change'>
  readonly log: Log
  /** Milliseconds. */
  readonly now: () => number
  /** Uses are written down at most this often for each sandbox; 60 s unless given. */
  readonly everyMs?: number
}

/** When sandboxes were used last. It is written down now and then only: a use is no reason to wait for a disk. */
export class Uses implements AsyncDisposable {
  readonly #options: UsesOptions
  readonly #known = new Map<string, { last: Instant; written: Instant }>()
  readonly #writing = new Set<Promise<void>>()

  constructor(options: UsesOptions) {
    this.#options = options
  }

  touch(id: string): void {
    const now = this.#options.now() * 1000
    const known = this.#known.get(id)
    if (known === undefined) this.#forgetOld(now)
    const use = known ?? { last: now, written: 0 }
    this.#known.set(id, use)
    use.last = now
    if (now - use.written < this.#everyMicros) return
    use.written = now
    const writing = this.#write(id, now).finally(() => this.#writing.delete(writing))
    this.#writing.add(writing)
  }

  last(row: Pick<SandboxRow, 'id' | 'used_at'>): Instant {
    return Math.max(row.used_at, this.#known.get(row.id)?.last ?? 0)
  }

  /** Writes down what is known. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const [id, { last, written }] of this.#known) if (last > written) await this.#write(id, last)
    this.#known.clear()
    await Promise.all(this.#writing)
  }

  async #write(id: string, used_at: Instant): Promise<void> {
    try {
      await this.#options.rows.change(id, { used_at })
    } catch (error) {
      this.#options.log('warn', 'the use of a sandbox was not written down', {
        sandbox: id,
        error: String(error),
      })
    }
  }

  /** What was written down and not used since says nothing more than the row. */
  #forgetOld(now: Instant): void {
    for (const [id, { last, written }] of this.#known) {
      if (last === written && now - written > this.#everyMicros) this.#known.delete(id)
    }
  }

  get #everyMicros(): number {
    return (this.#options.everyMs ?? 60_000) * 1000
  }
}
