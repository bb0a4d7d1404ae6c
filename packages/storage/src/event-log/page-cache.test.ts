import { expect, test } from 'vitest'
import type { EventPage } from './event-log.ts'
import { PageCache } from './page-cache.ts'

const initial = { version: 1, generation: 1 }

test('a page is valid for its version, an immutable one for its generation', () => {
  const cache = new PageCache(10_000)
  const [open, immutable] = [page(10), page(10)]
  setTwice(cache, 'open', open, false)
  setTwice(cache, 'immutable', immutable, true)
  expect([cache.get('open', initial), cache.get('immutable', initial)]).toEqual([open, immutable])
  const appended = { version: 2, generation: 1 }
  expect([cache.get('open', appended), cache.get('immutable', appended)]).toEqual([undefined, immutable])
  expect(cache.get('immutable', { version: 3, generation: 3 })).toBeUndefined()
  expect(cache.get('immutable', initial)).toBeUndefined()
})

test('least recently used pages are evicted at the limit, and a page above a quarter of it is not stored', () => {
  const cache = new PageCache(10_000)
  for (const key of ['a', 'b', 'c', 'd']) {
    setTwice(cache, key, page(1_900), true)
    cache.get('a', initial)
  }
  setTwice(cache, 'e', page(1_900), true)
  setTwice(cache, 'large', page(3_000), true)
  const stored = ['a', 'b', 'c', 'd', 'e', 'large'].filter((key) => cache.get(key, initial) !== undefined)
  expect(stored).toEqual(['a', 'c', 'd', 'e'])
})

test('a page is stored at its second request', () => {
  const cache = new PageCache(10_000)
  cache.set('a', page(10), initial, true)
  expect(cache.get('a', initial)).toBeUndefined()
  const second = page(10)
  cache.set('a', second, initial, true)
  expect(cache.get('a', initial)).toBe(second)
})

function setTwice(cache: PageCache, key: string, page: EventPage, isImmutable: boolean): void {
  cache.set(key, page, initial, isImmutable)
  cache.set(key, page, initial, isImmutable)
}

function page(sizeBytes: number): EventPage {
  return { items: [{ position: 1, bytes: Buffer.alloc(sizeBytes) }], next_page_id: null }
}
