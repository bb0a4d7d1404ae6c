import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BashSearchQuery } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BashEventStore, type BashEventStoreOptions } from './event-store.ts'

interface Item {
  readonly id: string
  readonly kind: string
  readonly timestamp: string
  readonly command_id?: string
  readonly order?: number
  readonly exit_code?: number | null
  readonly stderr?: string | null
}

/** An event store in its own directory, with a manual clock (microseconds). */
function openStore(
  options: Partial<BashEventStoreOptions> = {},
  path = mkdtempSync(join(tmpdir(), 'slipway-bash-')),
) {
  const clock = { now: Date.parse('2026-03-01T10:00:00Z') * 1000 }
  const events = new BashEventStore({
    directory: path,
    log: () => {},
    now: () => clock.now,
    retentionMs: undefined,
    ...options,
  })
  const page = async (query: Partial<BashSearchQuery> = {}) => {
    const defaults = { sort_order: 'TIMESTAMP', limit: 100, page_id: undefined } as const
    const { items, next_page_id }: { items: Item[]; next_page_id: string | null } = JSON.parse(
      (await events.search({ ...defaults, ...query })).toString(),
    )
    return { items, next_page_id, ids: items.map(({ id }) => id) }
  }
  const walk = async (query: Partial<BashSearchQuery> = {}) => {
    const ids: string[] = []
    for (let page_id: string | null | undefined; page_id !== null; ) {
      const result = await page({ ...query, page_id })
      ids.push(...result.ids)
      page_id = result.next_page_id
    }
    return ids
  }
  const begin = async (command = 'true') => (await events.addCommand({ command, cwd: null, timeout: 300 })).id
  const print = (id: string, order: number, stdout: string) =>
    events.addOutput({ commandId: id, conversationId: null }, order, {
      exit_code: null,
      stdout,
      stderr: null,
    })
  const end = (id: string, order: number) =>
    events.addOutput({ commandId: id, conversationId: null }, order, {
      exit_code: 0,
      stdout: null,
      stderr: null,
    })
  return {
    events,
    path,
    clock,
    page,
    walk,
    begin,
    print,
    end,
    async [Symbol.asyncDispose]() {
      await events[Symbol.asyncDispose]()
      rmSync(path, { recursive: true, force: true })
    },
  }
}

test('events have unique instants in order, even when the clock stands still or goes back', async () => {
  await using it = openStore()
  const id = await it.begin()
  it.clock.now -= 5_000_000
  for (let order = 0; order < 5; order++) await it.print(id, order, `${order}`)
  const { items } = await it.page()
  expect(items.map(({ order }) => order)).toEqual([undefined, 0, 1, 2, 3, 4])
  expect(new Set(items.map(({ timestamp }) => timestamp)).size).toBe(6)
  const down = await it.page({ sort_order: 'TIMESTAMP_DESC' })
  expect(down.items).toEqual(items.toReversed())
})

test('filters select events', async () => {
  await using it = openStore()
  const [a, b] = [await it.begin('a'), await it.begin('b')]
  for (let order = 0; order < 3; order++) await it.print(a, order, 'x')
  await it.end(b, 0)
  const count = async (query: Partial<BashSearchQuery>) => (await it.page(query)).items.length
  expect(await count({ kind__eq: 'BashCommand' })).toBe(2)
  expect(await count({ command_id__eq: a })).toBe(4)
  expect(await count({ command_id__eq: a, kind__eq: 'BashOutput', order__gt: 0 })).toBe(2)
  expect(await count({ command_id__eq: a, kind__eq: 'BashOutput', order__gt: -1 })).toBe(3)
  expect(await count({ command_id__eq: '0'.repeat(32) })).toBe(0)
  const from = it.clock.now
  expect(await count({ timestamp__gte: from + 2, timestamp__lt: from + 4 })).toBe(2)
})

test('pages of any size, order and filter add up to all events, also after a restart', async () => {
  await using it = openStore()
  for (let n = 0; n < 6; n++) {
    const id = await it.begin()
    for (let order = 0; order < n; order++) await it.print(id, order, 'x'.repeat(n))
    await it.end(id, n)
  }
  await using again = openStore({ maxPageBytes: 900 }, it.path)
  const all = (await it.page()).items
  await fc.assert(
    fc.asyncProperty(
      fc.record(
        {
          limit: fc.integer({ min: 1, max: 9 }),
          sort_order: fc.constantFrom('TIMESTAMP' as const, 'TIMESTAMP_DESC' as const),
          kind__eq: fc.constantFrom('BashCommand' as const, 'BashOutput' as const),
          order__gt: fc.integer({ min: -1, max: 4 }),
          timestamp__gte: fc.nat(20).map((n) => it.clock.now + n),
          timestamp__lt: fc.nat(30).map((n) => it.clock.now + n),
        },
        { requiredKeys: ['limit'] },
      ),
      async (query) => {
        const instant = ({ timestamp }: Item) => it.clock.now + Number(timestamp.slice(20, 26))
        const wanted = all
          .filter((item) => query.kind__eq === undefined || item.kind === query.kind__eq)
          .filter(
            ({ order }) => query.order__gt === undefined || order === undefined || order > query.order__gt,
          )
          .filter((item) => query.timestamp__gte === undefined || instant(item) >= query.timestamp__gte)
          .filter((item) => query.timestamp__lt === undefined || instant(item) < query.timestamp__lt)
          .map(({ id }) => id)
        const ids = query.sort_order === 'TIMESTAMP_DESC' ? wanted.toReversed() : wanted
        expect(await it.walk(query)).toEqual(ids)
        expect(await again.walk(query)).toEqual(ids)
      },
    ),
    { numRuns: 60 },
  )
})

test('a page id that a client made from an event continues after that event', async () => {
  await using it = openStore()
  const id = await it.begin()
  for (let order = 0; order < 4; order++) await it.print(id, order, 'x')
  const { items, ids } = await it.page()
  const seen = items[2]
  const seconds = '20260301100000'
  const page_id = `${seconds}_BashOutput_${id}_${seen?.id}`
  expect((await it.page({ page_id })).ids).toEqual(ids.slice(3))
  expect((await it.page({ page_id: page_id.toUpperCase() }).catch((error) => error)).ids).toEqual(
    ids.slice(3),
  )
  expect((await it.page({ page_id, sort_order: 'TIMESTAMP_DESC' })).ids).toEqual(ids.slice(0, 2).toReversed())
  const command = `${seconds}_BashCommand_${id}`
  expect((await it.page({ page_id: command })).ids).toEqual(ids.slice(1))
  const gone = `${seconds}_BashOutput_${id}_${'f'.repeat(32)}`
  expect((await it.page({ page_id: gone })).ids).toEqual(ids)
  const later = `20260301100001_BashOutput_${id}_${'f'.repeat(32)}`
  expect((await it.page({ page_id: later })).ids).toEqual([])
  for (const bad of [
    'x',
    '20260301100000',
    `20261301100000_BashOutput_${id}_${id}`,
    `${seconds}_BashError_${id}_${id}`,
  ])
    await expect(it.page({ page_id: bad })).rejects.toMatchObject({ code: 'invalid' })
})

test('a command that ran when the process ended is over after a restart', async () => {
  await using it = openStore()
  const id = await it.begin('sleep 9')
  await it.print(id, 0, 'so far')
  const ended = await it.begin()
  await it.end(ended, 0)
  await using again = openStore({}, it.path)
  const { items } = await again.page({ command_id__eq: id })
  expect(items).toHaveLength(3)
  expect(items[2]).toMatchObject({ order: 1, exit_code: -1, stderr: expect.stringContaining('ended') })
  expect((await again.page({ command_id__eq: ended })).items).toHaveLength(2)
  await using third = openStore({}, it.path)
  expect((await third.page()).items).toHaveLength(5)
})

test('the oldest finished commands are removed first, as a whole, and never a running one', async () => {
  await using it = openStore({ maxEvents: 10 })
  const running = await it.begin('runs')
  const ids: string[] = []
  for (let n = 0; n < 8; n++) {
    const id = await it.begin()
    ids.push(id)
    await it.end(id, 0)
  }
  const remaining = (await it.page({ kind__eq: 'BashCommand' })).ids
  expect(remaining[0]).toBe(running)
  expect(remaining.slice(1)).toEqual(ids.slice(-(remaining.length - 1)))
  expect((await it.page()).items.length).toBeLessThanOrEqual(10)
  for (const id of remaining.slice(1)) expect((await it.page({ command_id__eq: id })).items).toHaveLength(2)
  await it.end(running, 0)
})

test('bytes are limited too', async () => {
  await using it = openStore({ maxBytes: 100_000 })
  for (let n = 0; n < 30; n++) {
    const id = await it.begin()
    await it.print(id, 0, 'x'.repeat(10_000))
    await it.end(id, 1)
  }
  const { ids } = await it.page({ kind__eq: 'BashCommand' })
  expect(ids.length).toBeLessThan(11)
  expect(ids.length).toBeGreaterThan(5)
})

test('commands are removed at the end of their retention time', async () => {
  await using it = openStore({ retentionMs: 60_000 })
  const [a, b] = [await it.begin(), await it.begin()]
  await it.end(a, 0)
  it.clock.now += 59_000_000
  expect((await it.page()).items).toHaveLength(3)
  it.clock.now += 2_000_000
  expect((await it.page()).ids).toEqual([b])
  await it.end(b, 0)
})

test('clear removes finished commands and answers how many events', async () => {
  await using it = openStore()
  const [a, b] = [await it.begin(), await it.begin()]
  await it.print(a, 0, 'x')
  await it.end(a, 1)
  expect(await it.events.clear()).toBe(3)
  expect(await it.events.clear()).toBe(0)
  expect((await it.page()).ids).toEqual([b])
  expect(await it.events.get([a, b])).toEqual([undefined, expect.any(Buffer)])
  await it.end(b, 0)
  expect(await it.events.clear()).toBe(2)
  expect((await it.page()).ids).toEqual([])
})

test('a tail yields each event once and in order, from the beginning or from now on, while many commands write', async () => {
  await using it = openStore()
  const first = await it.begin('before')
  const stop = new AbortController()
  const collect = async (all: boolean) => {
    const ids: string[] = []
    for await (const lines of it.events.tail({ all, signal: stop.signal })) {
      const events = lines.map((line) => JSON.parse(line.toString()))
      ids.push(...events.map(({ id }) => id))
      if (events.at(-1)?.command === 'last') return ids
    }
    return ids
  }
  const tails = [collect(true), collect(false)]
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      const id = await it.begin()
      for (let order = 0; order < 20; order++) await it.print(id, order, 'x')
      await it.end(id, 20)
    }),
  )
  await it.begin('last')
  const all = await it.walk()
  expect(await tails[0]).toEqual(all)
  expect([first, ...((await tails[1]) ?? [])]).toEqual(all)
  stop.abort()
})

test('a file that cannot be opened is tried again after some seconds, not at each request', async () => {
  const logged: string[] = []
  await using it = openStore({ log: (_, message) => void logged.push(message) })
  const file = join(it.path, 'bash.db')
  writeFileSync(file, 'not a database')
  for (let n = 0; n < 3; n++) await expect(it.begin()).rejects.toMatchObject({ code: 'unavailable' })
  expect(logged).toEqual(['commands cannot be stored'])
  it.clock.now += 5_000_000
  await expect(it.begin()).rejects.toMatchObject({ code: 'unavailable' })
  expect(logged).toHaveLength(2)
  rmSync(file)
  it.clock.now += 5_000_000
  await it.begin()
})
