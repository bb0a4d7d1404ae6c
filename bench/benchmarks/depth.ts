import { formatInstant, type Instant, must } from '@slipway/protocol'
import type { Storage } from '@slipway/storage'
import { BarePages, bestOfTwo } from '../floors/bare-pages.ts'
import { measureStart } from '../floors/starts.ts'
import {
  type BenchContext,
  conversationId,
  importLog,
  searchPath,
  startAgentServer,
  startFloor,
  withStorage,
} from '../support/fixtures.ts'
import { firstInstant, generateLog, needles } from '../support/generate-log.ts'
import type { LoadRequest, LoadResult } from '../support/http-load.ts'
import { type HelperProcess, type Server, startHelper } from '../support/processes.ts'
import { atMost, Floor, information, median, percentile, type ResultRow } from '../support/result-table.ts'
import { SeededRandom } from '../support/seeded-random.ts'

/** A page with any filter, beside a bare page without one. */
const pageGoal = 20

const searchQueries: readonly (readonly [name: string, query: Readonly<Record<string, string>>])[] = [
  ['no filter', {}],
  ['moment', {}],
  ['newest first', { sort_order: 'TIMESTAMP_DESC' }],
  ['kind', { kind: 'ActionEvent' }],
  ['source', { source: 'agent' }],
  ['kind and source', { kind: 'MessageEvent', source: 'user' }],
  ['kind, newest first', { kind: 'ObservationEvent', sort_order: 'TIMESTAMP_DESC' }],
  ...Object.entries(needles).map(([name, body]) => [`${name} text`, { body }] as const),
  ['common text and source', { body: needles.common, source: 'user' }],
  ['common text, newest first', { body: needles.common, sort_order: 'TIMESTAMP_DESC' }],
]

/**
 * Pages at random places of a conversation of 1,000,000 events over HTTP, one at a time, the better of two
 * times. With each filter p99 is compared with that of bare pages by row ids, and is at most three times the p99
 * of the first page of the same filter. Text searches also run in a conversation of 100,000 events, where a scan
 * with LIKE is measured too. Also measured: the time to build the log, and to open it again, from the start of
 * the process to its first page, beside a bare server of the same file.
 */
export async function depth(bench: BenchContext): Promise<ResultRow[]> {
  const [large, small] = bench.isQuick ? [20_000, 5_000] : [1_000_000, 100_000]
  return [...(await measureAtDepth(bench, large)), ...(await measureBesideScan(bench, small))]
}

async function measureAtDepth(bench: BenchContext, count: number): Promise<ResultRow[]> {
  const data = await bench.directory()
  const { importMs, indexMs, pageIds, lastInstant } = await buildLog(
    data,
    count,
    searchQueries.map(([, query]) => query),
  )
  const bareStarts: number[] = []
  for (let round = 0; round < 3; round++)
    bareStarts.push(await measureStart(() => startFloor('pages', data), '/0'))
  const startedAt = performance.now()
  await using server = await startAgentServer(bench, data)
  await using load = startHelper<LoadRequest, LoadResult>('./http-load.ts')
  await measureLatencies(server, load, [`${searchPath}?limit=100`])
  const openedMs = performance.now() - startedAt
  const rows = [
    atMost(
      ...([`${count} events: start of the process to its first page`, 'ms', openedMs] as const),
      Floor.of('the same of a bare server of the file', bareStarts),
      12,
    ),
    information(`${count} events: import`, 'events/s', count / (importMs / 1000)),
    information(`${count} events: text index after the import`, 's', indexMs / 1000),
  ]
  const random = new SeededRandom(2)
  await using bare = await BarePages.open(data, count, { load, random: new SeededRandom(6) })
  for (const [i, [name, query]] of searchQueries.entries()) {
    const samples = bench.isQuick ? 20 : 400
    const places = name === 'moment' ? [] : (pageIds[i] ?? [])
    const paths = buildPaths(query, places, { samples, lastInstant, random })
    await measureLatencies(server, load, paths.warm)
    const alternating = paths.first.flatMap((path, n) => [path, paths.deep[n] ?? path])
    const both = await bestOfTwo(load, server, alternating)
    const first = both.filter((_, n) => n % 2 === 0)
    const deep = both.filter((_, n) => n % 2 === 1)
    const p99 = percentile(deep, 99)
    const firstPage = (percent: number) => Floor.of('the first page', first, percent)
    rows.push(information(`${name}: p50 at depth`, 'ms', median(deep), firstPage(50)))
    rows.push(atMost(`${name}: p99 at depth`, 'ms', p99, await bare.measure(samples, 99), pageGoal))
    rows.push(atMost(`${name}: p99 at depth beside the first page`, 'ms', p99, firstPage(99), 3))
  }
  return rows
}

/** Imports the log and walks each search to its end, to collect its page ids. */
async function buildLog(data: string, count: number, queries: readonly Readonly<Record<string, string>>[]) {
  return await withStorage(data, async (storage) => {
    const times = await importLog(storage, generateLog({ count, words: 8 }))
    const [last] = await storage.log.read(conversationId, count - 1, 1)
    const pageIds: string[][] = []
    for (const query of queries) pageIds.push(await collectPageIds(storage, query))
    return { ...times, pageIds, lastInstant: must(last, 'the last event').instant }
  })
}

async function collectPageIds(
  storage: Storage,
  { sort_order, ...filter }: Readonly<Record<string, string>>,
): Promise<string[]> {
  const ids: string[] = []
  const order = sort_order === 'TIMESTAMP_DESC' ? sort_order : 'TIMESTAMP'
  for (;;) {
    const page = await storage.log.search(conversationId, {
      ...filter,
      sort_order: order,
      limit: 100,
      page_id: ids.at(-1),
    })
    if (page.next_page_id === null) return ids
    ids.push(page.next_page_id)
  }
}

/**
 * First pages, each with its own time bound before or after the whole log, so that none was requested
 * before; and pages at depth: at random page ids and at random instants alternately, only instants where
 * there are few pages.
 */
function buildPaths(
  query: Readonly<Record<string, string>>,
  pageIds: readonly string[],
  options: { readonly samples: number; readonly lastInstant: Instant; readonly random: SeededRandom },
) {
  const { samples, lastInstant, random } = options
  const isDescending = query.sort_order === 'TIMESTAMP_DESC'
  const path = (more: Record<string, string>) =>
    `${searchPath}?${new URLSearchParams({ limit: '100', ...query, ...more })}`
  const from = (instant: Instant) =>
    path({ [isDescending ? 'timestamp__lt' : 'timestamp__gte']: formatInstant(instant) })
  const first = (i: number) => from(isDescending ? lastInstant + 1 + i : firstInstant - i)
  const unused = shuffle(pageIds, random)
  const deep = Array.from({ length: samples }, (_, i) => {
    const page_id = i % 2 === 0 ? unused.pop() : undefined
    return page_id === undefined
      ? from(firstInstant + random.below(lastInstant - firstInstant))
      : path({ page_id })
  })
  return {
    warm: Array.from({ length: 20 }, (_, i) => first(samples + i)),
    first: Array.from({ length: samples }, (_, i) => first(i)),
    deep,
  }
}

function shuffle<T>(values: readonly T[], random: SeededRandom): T[] {
  return values
    .map((value) => ({ value, at: random.next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value)
}

async function measureLatencies(
  server: Server,
  load: HelperProcess<LoadRequest, LoadResult>,
  paths: readonly string[],
): Promise<number[]> {
  const { latenciesMs } = await load.ask({ port: server.port, paths, count: paths.length, connections: 1 })
  return [...latenciesMs]
}

/**
 * First pages of each text, each requested only once before to warm up, beside bare pages and a bare server that
 * scans with LIKE.
 */
async function measureBesideScan(bench: BenchContext, count: number): Promise<ResultRow[]> {
  const data = await bench.directory()
  await withStorage(data, (storage) => importLog(storage, generateLog({ count, words: 8 })))
  await using ours = await startAgentServer(bench, data)
  await using scanner = await startFloor('scan', data)
  await using load = startHelper<LoadRequest, LoadResult>('./http-load.ts')
  await using bare = await BarePages.open(data, count, { load, random: new SeededRandom(7) })
  const rows: ResultRow[] = []
  const samples = bench.isQuick ? 10 : 100
  for (const [name, body] of Object.entries(needles)) {
    const paths = buildPaths({ body }, [], {
      samples,
      lastInstant: firstInstant + 1,
      random: new SeededRandom(3),
    })
    await measureLatencies(ours, load, paths.warm)
    const scanPath = `/?body=${encodeURIComponent(body)}`
    const scanned = await measureLatencies(
      scanner,
      load,
      Array.from({ length: bench.isQuick ? 2 : 7 }, () => scanPath),
    )
    const found = await bestOfTwo(load, ours, paths.first)
    const floor = await bare.measure(samples, 99)
    rows.push(atMost(`${name} text in ${count} events: p99`, 'ms', percentile(found, 99), floor, pageGoal))
    const scan = Floor.of('a scan with LIKE', scanned)
    rows.push(information(`${name} text in ${count} events: p50 beside a scan`, 'ms', median(found), scan))
  }
  return rows
}
