import { expect, test } from 'vitest'
import type { EventPage } from './event-log.ts'
import { PageCache } from './page-cache.ts'

const basis = { version: 1, generation: 1 }

test('a page holds while the version is the same, a settled one while the generation is', () => {
  const cache = new PageCache(10_000)
  const [open, settled] = [page(10), page(10)]
  putTwice(cache, 'open', open, false)
  putTwice(cache, 'settled', settled, true)
  expect([cache.get('open', basis), cache.get('settled', basis)]).toEqual([open, settled])
  const appended = { version: 2, generation: 1 }
  expect([cache.get('open', appended), cache.get('settled', appended)]).toEqual([undefined, settled])
  expect(cache.get('settled', { version: 3, generation: 3 })).toBeUndefined()
  expect(cache.get('settled', basis)).toBeUndefined()
})

test('the pages that were asked for last stay within the bytes, and a page too large for them is not kept', () => {
  const cache = new PageCache(10_000)
  for (const key of ['a', 'b', 'c', 'd']) {
    putTwice(cache, key, page(1_900), true)
    cache.get('a', basis)
  }
  putTwice(cache, 'e', page(1_900), true)
  putTwice(cache, 'large', page(3_000), true)
  const held = ['a', 'b', 'c', 'd', 'e', 'large'].filter((key) => cache.get(key, basis) !== undefined)
  expect(held).toEqual(['a', 'c', 'd', 'e'])
})

test('a page that is asked for once is not kept', () => {
  const cache = new PageCache(10_000)
  cache.set('a', page(10), basis, true)
  expect(cache.get('a', basis)).toBeUndefined()
  const second = page(10)
  cache.set('a', second, basis, true)
  expect(cache.get('a', basis)).toBe(second)
})

function putTwice(cache: PageCache, key: string, page: EventPage, isSettled: boolean): void {
  cache.set(key, page, basis, isSettled)
  cache.set(key, page, basis, isSettled)
}

function page(sizeBytes: number): EventPage {
  return { items: [{ position: 1, bytes: Buffer.alloc(sizeBytes) }], next_page_id: null }
}
