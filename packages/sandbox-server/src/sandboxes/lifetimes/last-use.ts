import type { Instant } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { SandboxContext } from '../state/context.ts'

/** Each sandbox is written at most this often. */
const writeIntervalMicros = 60_000_000

/** Times of the last uses of sandboxes. Written to the rows with a delay: a use does not wait for a disk. */
export class LastUseTracker implements AsyncDisposable {
  readonly #context: SandboxContext
  readonly #entries = new Map<string, { last: Instant; written: Instant }>()
  readonly #writes = new Set<Promise<void>>()

  constructor(context: SandboxContext) {
    this.#context = context
  }

  touch(id: string): void {
    const now = this.#context.clock.now() * 1000
    const existing = this.#entries.get(id)
    if (existing === undefined) this.#dropPersisted(now)
    const entry = existing ?? { last: now, written: 0 }
    this.#entries.set(id, entry)
    entry.last = now
    if (now - entry.written < writeIntervalMicros) return
    entry.written = now
    const write = this.#write(id, now).finally(() => this.#writes.delete(write))
    this.#writes.add(write)
  }

  lastUse(row: Pick<SandboxRow, 'id' | 'used_at'>): Instant {
    return Math.max(row.used_at, this.#entries.get(row.id)?.last ?? 0)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const [id, { last, written }] of this.#entries) if (last > written) await this.#write(id, last)
    this.#entries.clear()
    await Promise.all(this.#writes)
  }

  async #write(id: string, used_at: Instant): Promise<void> {
    try {
      await this.#context.rows.update(id, { used_at })
    } catch (error) {
      const members = { sandbox: id, error: String(error) }
      this.#context.log('warn', 'the last use of a sandbox was not stored', members)
    }
  }

  /** Drops entries that equal their rows. */
  #dropPersisted(now: Instant): void {
    for (const [id, { last, written }] of this.#entries) {
      if (last === written && now - written > writeIntervalMicros) this.#entries.delete(id)
    }
  }
}
