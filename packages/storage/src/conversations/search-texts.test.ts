import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { openStorage } from '../sqlite/storage.ts'
import { receivedEvent } from '../testing/fixtures.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { foldCase } from '../text/case-folding.ts'
import { searchTexts, snippet } from './search-texts.ts'

const start = Date.UTC(2026, 0, 1) * 1000

async function openConversations(texts: readonly (readonly string[])[]) {
  const directory = temporaryDirectory()
  const storage = await openStorage({ directory: directory.path })
  onTestFinished(async () => {
    await storage[Symbol.asyncDispose]()
    directory[Symbol.dispose]()
  })
  const ids = texts.map(() => randomUUID())
  // One after the other would be a transaction each; ids of one transaction keep their order.
  await Promise.all(ids.map((id) => storage.conversations.create({ id, title: `Title of ${id}` })))
  const appends = ids.map((id, index) =>
    storage.log.append(
      id,
      (texts[index] ?? []).map((text, i) =>
        receivedEvent(`e${i}`, start + i, { kind: 'MessageEvent', text }),
      ),
    ),
  )
  await Promise.all(appends)
  const list = (page: { readonly page_id: string | undefined; readonly limit: number }) =>
    storage.conversations.search({ ...page, sort_order: 'CREATED_AT' })
  return { storage, ids, list }
}

test('every conversation with a hit is found once, however little time a page has', async () => {
  const texts = Array.from({ length: 45 }, (_, i) => [
    i % 3 === 0 ? `The NEEDLE of ${i}` : `Hay ${i}`,
    'More hay',
  ])
  const { storage, ids, list } = await openConversations(texts)
  for (const budgetMs of [0, 60_000]) {
    const found: string[] = []
    let page_id: string | undefined
    do {
      const page = await searchTexts(storage.log, list, { body: 'needle', limit: 7, page_id }, { budgetMs })
      expect(page.items.length).toBeLessThanOrEqual(7)
      found.push(...page.items.map(({ conversation_id }) => conversation_id))
      page_id = page.next_page_id ?? undefined
    } while (page_id !== undefined)
    expect(found).toEqual(ids.filter((_, i) => i % 3 === 0))
  }
})

test('the newest three hits are shown, in a time range when one is given', async () => {
  const { storage, list, ids } = await openConversations([['a1', 'b', 'a2', 'a3', 'a4']])
  const all = await searchTexts(storage.log, list, { body: 'A', limit: 20 })
  expect(all.items).toMatchObject([{ conversation_id: ids[0], title: `Title of ${ids[0]}` }])
  expect(all.items[0]?.hits.map(({ position }) => position)).toEqual([5, 4, 3])
  expect(all.items[0]?.hits[0]).toMatchObject({ event_id: 'e4', source: 'user', text: 'a4', match: [0, 1] })
  const early = await searchTexts(storage.log, list, { body: 'a', timestamp__lt: start + 3, limit: 20 })
  expect(early.items[0]?.hits.map(({ position }) => position)).toEqual([3, 1])
  expect(await searchTexts(storage.log, list, { body: 'z', limit: 20 })).toEqual({
    items: [],
    next_page_id: null,
  })
})

test('a conversation that is removed during the search is passed over', async () => {
  const { storage, list } = await openConversations([['needle'], ['needle']])
  const removing = async (query: Parameters<typeof list>[0]) => {
    const page = await list(query)
    await storage.conversations.remove(page.items[0]?.id ?? '')
    return page
  }
  expect((await searchTexts(storage.log, removing, { body: 'needle', limit: 20 })).items).toHaveLength(1)
})

test('a snippet has the first hit at its place, in any script', () => {
  const chars = fc.constantFrom('a', 'B', 'ß', 'Σ', 'ς', '𐐀', 'K', '😀', ' ', '\ud800')
  const property = fc.property(
    fc.array(chars, { maxLength: 400 }),
    fc.array(chars, { minLength: 1, maxLength: 3 }),
    (a, b) => {
      const [text, needle] = [a.join(''), b.join('')]
      const found = snippet(text, needle)
      expect(found !== undefined).toBe(foldCase(text).includes(foldCase(needle)))
      if (found === undefined) return
      expect(foldCase(found.text.slice(...found.match))).toBe(foldCase(needle))
      expect(found.text.length).toBeLessThanOrEqual(160 + 2 * needle.length)
      expect(text).toContain(found.text)
    },
  )
  fc.assert(property, { numRuns: 300 })
})
