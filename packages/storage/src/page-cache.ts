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

/** The latest pages, bounded in bytes. */
export class PageCache {
  readonly #maxBytes: number
  readonly #entries = new Map<string, Entry>()
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
    return undefined
  }

  /** `isSettled`: later appends cannot change it. */
  put(key: string, page: EventPage, basis: Basis, isSettled: boolean): void {
    const old = this.#entries.get(key)
    if (old !== undefined) this.#drop(key, old)
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

  #drop(key: string, entry: Entry): void {
    this.#entries.delete(key)
    this.#sizeBytes -= entry.sizeBytes
  }
}
