import { expect, test } from 'vitest'
import type { EventPage } from './event-log.ts'
import { PageCache } from './page-cache.ts'

const basis = { version: 1, generation: 1 }

test('a page holds while the version is the same, a settled one while the generation is', () => {
  const cache = new PageCache(10_000)
  const [open, settled] = [page(10), page(10)]
  cache.put('open', open, basis, false)
  cache.put('settled', settled, basis, true)
  expect([cache.get('open', basis), cache.get('settled', basis)]).toEqual([open, settled])
  const appended = { version: 2, generation: 1 }
  expect([cache.get('open', appended), cache.get('settled', appended)]).toEqual([undefined, settled])
  expect(cache.get('settled', { version: 3, generation: 3 })).toBeUndefined()
  expect(cache.get('settled', basis)).toBeUndefined()
})

test('the pages that were asked for last stay within the bytes, and a page too large for them is not kept', () => {
  const cache = new PageCache(10_000)
  for (const key of ['a', 'b', 'c', 'd']) {
    cache.put(key, page(1_900), basis, true)
    cache.get('a', basis)
  }
  cache.put('e', page(1_900), basis, true)
  cache.put('large', page(3_000), basis, true)
  const held = ['a', 'b', 'c', 'd', 'e', 'large'].filter((key) => cache.get(key, basis) !== undefined)
  expect(held).toEqual(['a', 'c', 'd', 'e'])
})

function page(sizeBytes: number): EventPage {
  return { items: [{ position: 1, bytes: Buffer.alloc(sizeBytes) }], next_page_id: null }
}
