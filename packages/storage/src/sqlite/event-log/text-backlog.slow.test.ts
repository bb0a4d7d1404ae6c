import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openStorage } from '../storage.ts'

vi.setConfig({ testTimeout: 120_000 })

const messages = 8_000
const batch = 1_000
const hits = [1, messages / 2, messages]
const filler =
  'Some text of a usual length that has many different words, as messages of people and agents have. '

function message(n: number) {
  const text = `${hits.includes(n) ? 'needle ' : ''}${n} ${filler.repeat(8)}`
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
