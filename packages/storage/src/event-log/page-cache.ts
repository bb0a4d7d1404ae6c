import type { EventPage } from './event-log.ts'

/** What a page was made of: it holds while the version is the same, or only the generation when appends cannot touch it. */
export interface PageVersion {
  readonly version: number
  readonly generation: number
}

interface CachedPage {
  readonly page: EventPage
  readonly pageVersion: PageVersion
  readonly isImmutable: boolean
  readonly sizeBytes: number
}

/** What a page and an event cost beside their bytes. */
const overheadBytes = 256

/** Keys that were asked for once are remembered up to this many. */
const maxRequestedOnce = 2_000

/**
 * The latest pages that were asked for twice, bounded in bytes. A page that is asked for once is not worth its memory: a
 * walk through a long log would push out what is asked for again and again.
 */
export class PageCache {
  readonly #maxBytes: number
  readonly #entries = new Map<string, CachedPage>()
  readonly #requestedOnce = new Set<string>()
  #sizeBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get(key: string, current: PageVersion): EventPage | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    const { pageVersion, isImmutable } = entry
    if (
      pageVersion.version === current.version ||
      (isImmutable && pageVersion.generation === current.generation)
    ) {
      this.#entries.delete(key)
      this.#entries.set(key, entry)
      return entry.page
    }
    this.#drop(key, entry)
    this.#rememberKey(key)
    return undefined
  }

  /** Keeps the page if its key was put before. `isSettled`: later appends cannot change it. */
  set(key: string, page: EventPage, pageVersion: PageVersion, isImmutable: boolean): void {
    const old = this.#entries.get(key)
    if (old !== undefined) this.#drop(key, old)
    else if (!this.#requestedOnce.delete(key)) {
      this.#rememberKey(key)
      return
    }
    let sizeBytes = overheadBytes + key.length
    for (const event of page.items) sizeBytes += event.bytes.length + overheadBytes
    if (sizeBytes > this.#maxBytes / 4) return
    this.#entries.set(key, { page, pageVersion, isImmutable, sizeBytes })
    this.#sizeBytes += sizeBytes
    for (const [oldKey, entry] of this.#entries) {
      if (this.#sizeBytes <= this.#maxBytes) return
      this.#drop(oldKey, entry)
    }
  }

  #rememberKey(key: string): void {
    this.#requestedOnce.add(key)
    if (this.#requestedOnce.size <= maxRequestedOnce) return
    const [oldest] = this.#requestedOnce
    if (oldest !== undefined) this.#requestedOnce.delete(oldest)
  }

  #drop(key: string, entry: CachedPage): void {
    this.#entries.delete(key)
    this.#sizeBytes -= entry.sizeBytes
  }
}
