import { BarePages } from '../floors/bare-pages.ts'
import {
  type BenchContext,
  conversationId,
  getJson,
  importLog,
  startAgentServer,
  withStorage,
} from '../support/fixtures.ts'
import { generateLog, needles } from '../support/generate-log.ts'
import type { LoadRequest, LoadResult } from '../support/http-load.ts'
import { startHelper } from '../support/processes.ts'
import { atMost, information, median, percentile, type ResultRow } from '../support/result-table.ts'
import { SeededRandom } from '../support/seeded-random.ts'

const events = `/api/conversations/${conversationId}/events`
/** Beside a bare page of 100 events, p95: of requests that read a part, and of those that look at all events. */
const goals = { part: 40, whole: 100 }
/** For so long the server reads events for one request; what it takes beyond is measured. */
const sliceMs = 40

/**
 * What a page asks of a conversation of 1,000,000 events, one request at a time, p95 beside bare pages of the
 * same log. While the log is read for the first time, which takes many requests, each takes a slice of a fixed
 * time: what it takes beyond is compared.
 */
export async function consoleApi(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 20_000 : 1_000_000
  const samples = bench.isQuick ? 20 : 300
  const data = await bench.directory()
  await withStorage(
    data,
    async (storage) => void (await importLog(storage, generateLog({ count, words: 60 }))),
  )
  await using server = await startAgentServer(bench, data)
  const random = new SeededRandom(3)
  const time = async (path: string) => {
    const startedAt = performance.now()
    await getJson(server, path)
    return performance.now() - startedAt
  }
  const position = () => 1 + Math.floor(random.next() * count)
  const rows: ResultRow[] = []

  await using load = startHelper<LoadRequest, LoadResult>('./http-load.ts')
  await using bare = await BarePages.open(data, count, { load, random: new SeededRandom(8) })
  const filling: number[] = []
  const startedAt = performance.now()
  for (let covered = 0; covered < count; ) {
    const askedAt = performance.now()
    ;({ covered } = await getJson<{ covered: number }>(server, `${events}/overview?buckets=200`))
    filling.push(performance.now() - askedAt)
  }
  rows.push(
    atMost(
      `${count} events: overview while it is counted, p95 beyond its ${sliceMs} ms`,
      ...(['ms', Math.max(0, percentile(filling, 95) - sliceMs)] as const),
      await bare.measure(samples, 95),
      goals.whole,
    ),
  )
  rows.push(
    information(`${count} events: overview counted at all`, 's', (performance.now() - startedAt) / 1000),
  )

  const requests: readonly (readonly [string, () => string])[] = [
    ['overview', () => `${events}/overview?buckets=200`],
    ['range at a position', () => `${events}/range?first=${position()}&limit=100`],
    ['next of a kind', () => `${events}/find?from=${position()}&kind=ObservationEvent&limit=10`],
    ['previous failure', () => `${events}/find?from=${position()}&direction=previous&failed=true&limit=10`],
    ['tool that is nowhere', () => `${events}/find?tool=nowhere`],
    [
      'next hit of a rare text',
      () => `${events}/find?from=${position()}&body=${encodeURIComponent(needles.rare)}`,
    ],
    [
      'next hit of a common text',
      () => `${events}/find?from=${position()}&body=${encodeURIComponent(needles.common)}`,
    ],
    [
      'text of all conversations',
      () => `/api/conversations/search_text?body=${encodeURIComponent(needles.rare)}`,
    ],
  ]
  for (const [name, path] of requests) {
    const goal = name === 'overview' || name === 'tool that is nowhere' ? goals.whole : goals.part
    const times: number[] = []
    for (let i = 0; i < samples; i++) times.push(await time(path()))
    rows.push(information(`${name}: p50`, 'ms', median(times)))
    rows.push(atMost(`${name}: p95`, 'ms', percentile(times, 95), await bare.measure(samples, 95), goal))
  }
  return rows
}
