import type { EventPage } from './event-log.ts'

/** What a page was made of: it holds while the version is the same, or only the generation when appends cannot touch it. */
export interface Basis {
  readonly version: number
  readonly generation: number
}

interface Entry {
  readonly page: EventPage
  readonly basis: Basis
  readonly isSettled: boolean
  readonly sizeBytes: number
}

/** What a page and an event cost beside their bytes. */
const overheadBytes = 256

/** Keys that were asked for once are remembered up to this many. */
const maxAskedOnce = 2_000

/**
 * The latest pages that were asked for twice, bounded in bytes. A page that is asked for once is not worth its memory: a
 * walk through a long log would push out what is asked for again and again.
 */
export class PageCache {
  readonly #maxBytes: number
  readonly #entries = new Map<string, Entry>()
  readonly #askedOnce = new Set<string>()
  #sizeBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get(key: string, now: Basis): EventPage | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    const { basis, isSettled } = entry
    if (basis.version === now.version || (isSettled && basis.generation === now.generation)) {
      this.#entries.delete(key)
      this.#entries.set(key, entry)
      return entry.page
    }
    this.#drop(key, entry)
    this.#remember(key)
    return undefined
  }

  /** Keeps the page if its key was put before. `isSettled`: later appends cannot change it. */
  put(key: string, page: EventPage, basis: Basis, isSettled: boolean): void {
    const old = this.#entries.get(key)
    if (old !== undefined) this.#drop(key, old)
    else if (!this.#askedOnce.delete(key)) {
      this.#remember(key)
      return
    }
    let sizeBytes = overheadBytes + key.length
    for (const event of page.items) sizeBytes += event.bytes.length + overheadBytes
    if (sizeBytes > this.#maxBytes / 4) return
    this.#entries.set(key, { page, basis, isSettled, sizeBytes })
    this.#sizeBytes += sizeBytes
    for (const [oldKey, entry] of this.#entries) {
      if (this.#sizeBytes <= this.#maxBytes) return
      this.#drop(oldKey, entry)
    }
  }

  #remember(key: string): void {
    this.#askedOnce.add(key)
    if (this.#askedOnce.size <= maxAskedOnce) return
    const [oldest] = this.#askedOnce
    if (oldest !== undefined) this.#askedOnce.delete(oldest)
  }

  #drop(key: string, entry: Entry): void {
    this.#entries.delete(key)
    this.#sizeBytes -= entry.sizeBytes
  }
}
