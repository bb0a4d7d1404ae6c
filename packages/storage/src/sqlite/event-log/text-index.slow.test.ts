import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  conversation,
  importEvents,
  otherConversation,
  positions,
  receivedEvent,
} from '../../testing/fixtures.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { foldCase } from '../../text/case-folding.ts'
import { openStorage, type SqliteStorage } from '../storage.ts'

const ascending = { limit: 100, sort_order: 'TIMESTAMP' } as const
const message = (id: string, instant: number, text: string, source = 'user') =>
  receivedEvent(id, instant, { kind: 'MessageEvent', text, source })

const alphabet = fc.constantFrom(
  'a',
  'A',
  'b',
  'ß',
  'ς',
  'Σ',
  'é',
  'e\u0301',
  '"',
  '%',
  '_',
  '\\',
  '\0',
  '*',
  ' ',
  '😀',
  '\ud83d',
  '\udf00',
  'ﬃ',
  '漢',
)
const texts = fc.array(fc.string({ unit: alphabet, maxLength: 12 }), { minLength: 1, maxLength: 12 })

test('a search finds the messages with the needle in one of their parts, before and after indexing', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  let run = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(texts, { minLength: 1, maxLength: 6 }),
      fc.string({ unit: alphabet, minLength: 1, maxLength: 5 }),
      async (messages, needle) => {
        const id = uuid(++run)
        await importEvents(storage, messages.map(parts), id)
        const expected = messages.flatMap((texts, i) =>
          texts.some((text) => containsFolded(text, needle)) ? [i + 1] : [],
        )
        const found = async () =>
          positions((await storage.log.search(id, { ...ascending, body: needle })).items)
        expect(await found()).toEqual(expected)
        await storage.waitUntilIndexed()
        await storage.log.append(id, [receivedEvent('more', 1e9)])
        expect(await found()).toEqual(expected)
        expect(await storage.log.count(id, { body: needle })).toBe(expected.length)
      },
    ),
    { numRuns: 80 },
  )
})

test('a rare needle is found through the index, in every order and with every filter', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const total = 4_000
  const isHit = (i: number) => i % 700 === 5
  const text = (i: number) =>
    `the common words of message ${i % 7}${isHit(i) ? ' and a NEEDLE with "quotes"' : ''}`
  for (const [id, isSorted] of [
    [conversation, true],
    [otherConversation, false],
  ] as const) {
    const events = Array.from({ length: total }, (_, i) =>
      message(`e${i}`, isSorted ? i : (i * 37) % 1_000, text(i), i % 2 === 0 ? 'agent' : 'user'),
    )
    await importEvents(storage, events, id)
    await storage.waitUntilIndexed()
    const order = events
      .map(({ instant }, i) => ({ instant, i }))
      .sort((a, b) => a.instant - b.instant || a.i - b.i)
    const hits = order.filter(({ i }) => isHit(i))
    const query = { ...ascending, body: 'a needle WITH "q' }
    const search = async (more: object) =>
      positions((await storage.log.search(id, { ...query, ...more })).items)
    const expected = hits.map(({ i }) => i + 1)
    expect(await search({})).toEqual(expected)
    expect(await search({ sort_order: 'TIMESTAMP_DESC' })).toEqual(expected.toReversed())
    expect(await search({ limit: 3 })).toEqual(expected.slice(0, 3))
    expect(await search({ source: 'agent' })).toEqual(expected.filter((position) => position % 2 === 1))
    const bounds = { timestamp__gte: 100, timestamp__lt: 800 }
    const within = hits.filter(({ instant }) => instant >= 100 && instant < 800).map(({ i }) => i + 1)
    expect(await search(bounds)).toEqual(within)
    expect(await storage.log.count(id, { body: 'needle', ...bounds })).toBe(within.length)
    expect(await search({ body: 'needle with the' })).toEqual([])
  }
})

test('a missing or damaged index, or one of another log, is rebuilt', { timeout: 180_000 }, async () => {
  using directory = temporaryDirectory()
  using elsewhere = temporaryDirectory()
  const path = join(directory.path, 'index.db')
  await createFilled(elsewhere.path, 'Beta')
  await createFilled(directory.path, 'Alpha')
  const foreign = readFileSync(join(elsewhere.path, 'index.db'))
  for (const content of [undefined, foreign, Buffer.from('no database at all'), foreign.subarray(0, 9_000)]) {
    if (content !== undefined) writeFileSync(path, content)
    await using storage = await openStorage({ directory: directory.path })
    expect(await countMatches(storage, 'alpha')).toBe(300)
    await storage.waitUntilIndexed()
    expect(await countMatches(storage, 'alpha')).toBe(300)
    expect(await countMatches(storage, 'beta')).toBe(0)
  }
})

test('removing a conversation removes it from the index', async () => {
  using directory = temporaryDirectory()
  {
    await using storage = await openStorage({ directory: directory.path })
    await importEvents(
      storage,
      Array.from({ length: 1_100 }, (_, i) => message(`e${i}`, i, 'secret words')),
    )
    await storage.waitUntilIndexed()
    await storage.conversations.remove(conversation)
    await expect.poll(() => countRows(directory.path, 'log.db', 'leftover')).toBe(0)
  }
  expect(await countRows(directory.path, 'index.db', 'message')).toBe(0)
  expect(await countRows(directory.path, 'log.db', 'event')).toBe(0)
  expect(await countRows(directory.path, 'log.db', 'conversation')).toBe(0)
})

test('a storage that has released its memory answers as before, and its idle thread has ended', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const texts = Array.from({ length: 50 }, (_, i) => message(`m${i}`, 1_000 + i, `needle-${i}x`))
  await importEvents(storage, texts)
  const find = async (body: string) =>
    positions((await storage.log.search(conversation, { ...ascending, body })).items)
  const page = async () => positions((await storage.log.search(conversation, ascending)).items)
  const [found, all] = [await find('needle-7x'), await page()]
  expect(found).toEqual([8])
  // SQLite removes it with the last connection.
  const isIndexOpen = () => existsSync(join(directory.path, 'index.db-wal'))
  await storage.waitUntilIndexed()
  expect(isIndexOpen()).toBe(true)
  storage.releaseMemory()
  await expect.poll(isIndexOpen, { timeout: 10_000 }).toBe(false)
  expect(await find('needle-7x')).toEqual(found)
  expect(await page()).toEqual(all)
  // A search that has begun is not cut off.
  const searching = find('needle-9x')
  storage.releaseMemory()
  expect(await searching).toEqual([10])
  storage.releaseMemory()
  expect(await Promise.all([find('needle-1x'), find('needle-2x')])).toEqual([[2], [3]])
})

test('the index thread starts on demand', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  await importEvents(storage, [receivedEvent('a', 1)])
  await storage.log.search(conversation, { ...ascending, source: 'user' })
  expect(existsSync(join(directory.path, 'index.db'))).toBe(false)
  await storage.log.search(conversation, { ...ascending, body: 'x' })
  expect(existsSync(join(directory.path, 'index.db'))).toBe(true)
})

async function createFilled(path: string, word: string): Promise<void> {
  await using storage = await openStorage({ directory: path })
  await importEvents(
    storage,
    Array.from({ length: 300 }, (_, i) => message(`e${i}`, i, `${word} ${i}`)),
  )
  await storage.waitUntilIndexed()
  await storage.log.search(conversation, ascending)
}

async function countMatches(storage: SqliteStorage, body: string): Promise<number> {
  return await storage.log.count(conversation, { body })
}

async function countRows(path: string, file: string, table: string): Promise<number> {
  const { DatabaseSync } = await import('node:sqlite')
  const db = new DatabaseSync(join(path, file), { readOnly: true, timeout: 2000 })
  try {
    return Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n)
  } finally {
    db.close()
  }
}

function parts(texts: string[], i: number) {
  const content = texts.map((text) => ({ type: 'text', text }))
  const bytes = Buffer.from(
    JSON.stringify({ id: `e${i}`, source: 'user', llm_message: { content }, kind: 'MessageEvent' }),
  )
  return { bytes, id: `e${i}`, instant: i, kind: 'MessageEvent', source: 'user' }
}

/** Substring by code points. */
function containsFolded(text: string, needle: string): boolean {
  const [all, part] = [[...foldCase(text)], [...foldCase(needle)]]
  return all.some((_, at) => part.every((char, i) => all[at + i] === char))
}

function uuid(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}
