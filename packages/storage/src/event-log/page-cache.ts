import { LruMap } from '@slipway/shared/collections'
import type { EventPage } from './event-log.ts'

/** State of the log that a page was read from (`LogHead`). */
interface PageVersion {
  readonly version: number
  readonly generation: number
}

interface CachedPage {
  readonly page: EventPage
  readonly pageVersion: PageVersion
  readonly isImmutable: boolean
}

/** Memory of a page and of an event beside their bytes. */
const overheadBytes = 256
const maxRequestedOnce = 2_000

/**
 * LRU cache of pages, bounded in bytes. A page is stored at its second request: a walk through a long log
 * would otherwise evict what is requested again and again.
 */
export class PageCache {
  readonly #pages: LruMap<string, CachedPage>
  readonly #requestedOnce = new LruMap<string, true>({ max: maxRequestedOnce })

  constructor(maxBytes: number) {
    this.#pages = new LruMap({
      maxSize: maxBytes,
      maxEntrySize: maxBytes / 4,
      sizeCalculation: ({ page }, key) =>
        page.items.reduce((sum, { bytes }) => sum + bytes.length + overheadBytes, overheadBytes + key.length),
    })
  }

  clear(): void {
    this.#pages.clear()
  }

  get(key: string, current: PageVersion): EventPage | undefined {
    const cached = this.#pages.get(key)
    if (cached === undefined) return undefined
    const { page, pageVersion, isImmutable } = cached
    const isValid =
      pageVersion.version === current.version ||
      (isImmutable && pageVersion.generation === current.generation)
    if (isValid) return page
    this.#pages.delete(key)
    this.#requestedOnce.set(key, true)
    return undefined
  }

  /** Stores the page when its key was set before. `isImmutable`: later appends cannot change it. */
  set(key: string, page: EventPage, pageVersion: PageVersion, isImmutable: boolean): void {
    if (this.#pages.has(key) || this.#requestedOnce.delete(key))
      this.#pages.set(key, { page, pageVersion, isImmutable })
    else this.#requestedOnce.set(key, true)
  }
}
