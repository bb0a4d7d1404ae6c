import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { emptyExtent } from '../../event-log/append-planner.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { createNeedle } from '../../text/needle.ts'
import { openStorage } from '../storage.ts'
import { TextStore } from './text-store.ts'

vi.setConfig({ testTimeout: 120_000 })

const messages = 8_000
const batch = 1_000
const hits = [1, messages / 2, messages]
const filler =
  'Some text of a usual length that has many different words, as messages of people and agents have. '

function message(n: number, length = 8) {
  const text = `${hits.includes(n) ? 'needle ' : ''}${n} ${filler.repeat(length)}`
  return {
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: 'user', content: [{ type: 'text', text }] },
  }
}

test('a client that searches all the time holds the index up by no more than twice its time, and misses nothing', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const write = async (id: string) => {
    await storage.conversations.create({ id })
    for (let from = 1; from <= messages; from += batch)
      await storage.log.append(
        id,
        Array.from({ length: batch }, (_, at) => message(from + at)),
      )
  }
  const index = async () => {
    const before = performance.now()
    await storage.waitUntilIndexed()
    return performance.now() - before
  }
  await write('alone')
  const aloneMs = await index()

  await write('searched')
  let isIndexed = false
  const indexing = index().finally(() => {
    isIndexed = true
  })
  let searches = 0
  const clients = (['TIMESTAMP', 'TIMESTAMP_DESC'] as const).map(async (sort_order) => {
    while (!isIndexed) {
      const { items } = await storage.log.search('searched', {
        limit: 10 + (searches % 90),
        sort_order,
        body: 'needle',
      })
      expect(items.map(({ position }) => position)).toEqual(
        sort_order === 'TIMESTAMP' ? hits : hits.toReversed(),
      )
      searches += 1
      // A page from the cache takes no turn of the event loop.
      await nextTurn()
    }
  })
  const searchedMs = await indexing
  await Promise.all(clients)
  expect(searches).toBeGreaterThan(1)
  expect(searchedMs / aloneMs).toBeLessThan(3)
})

test('a search through the index ends its slices, and misses nothing', async () => {
  using directory = temporaryDirectory()
  {
    await using storage = await openStorage({ directory: directory.path })
    await storage.conversations.create({ id: 'a' })
    for (let from = 1; from <= messages; from += batch)
      await storage.log.append(
        'a',
        Array.from({ length: batch }, (_, at) => message(from + at, 1)),
      )
    await storage.waitUntilIndexed()
  }
  const [logPath, indexPath] = ['log.db', 'index.db'].map((name) => join(directory.path, name))
  const store = new TextStore(String(logPath), String(indexPath))
  const extent = { ...emptyExtent, head: messages }
  for (const isDescending of [false, true])
    for (const text of ['needle', 'ne', 'no such text', 'qz']) {
      const selection = { ordinal: 1, extent, isDescending, bounds: {}, limit: 10 }
      const found: number[] = []
      let slices = 1
      const search = store.search(selection, createNeedle(text), 0)
      for (let step = search.next(); ; step = search.next()) {
        if (step.done) {
          found.push(...step.value.map((row) => row % 2 ** 28))
          break
        }
        slices += 1
      }
      const expected = text.startsWith('ne') ? (isDescending ? hits.toReversed() : hits) : []
      expect(found, text).toEqual(expected)
      if (text.length === 2) expect(slices, text).toBeGreaterThan(1)
      expect([...store.countMatches(selection, createNeedle(text), 0)].length + 1, text).toBe(slices)
    }
  store.close()
})

test('a search in one long message takes no longer than in as many bytes of short ones', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const search = async (id: string, drafts: readonly ReturnType<typeof message>[]) => {
    await storage.conversations.create({ id })
    await storage.log.append(id, drafts)
    const before = performance.now()
    expect(await storage.log.count(id, { body: 'no such text' })).toBe(0)
    await storage.waitUntilIndexed()
    return performance.now() - before
  }
  const short = Array.from({ length: batch * 5 }, (_, n) => message(n, 8))
  await search('first', short.slice(0, 10))
  const shortMs = await search('short', short)
  const longMs = await search('long', [message(0, short.length * 8)])
  expect(longMs / shortMs).toBeLessThan(3)
})
