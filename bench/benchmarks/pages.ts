import { setTimeout } from 'node:timers/promises'
import type { Storage } from '@slipway/storage'
import {
  type BenchContext,
  conversationId,
  importLog,
  searchPath,
  startAgentServer,
  startFloor,
  withStorage,
} from '../support/fixtures.ts'
import { generateLog } from '../support/generate-log.ts'
import type { LoadRequest, LoadResult } from '../support/http-load.ts'
import { type HelperProcess, type Server, startHelper } from '../support/processes.ts'
import { atLeast, information, type MeasuredPair, type ResultRow } from '../support/result-table.ts'

/**
 * Pages of 100 events, about 150 kB, per CPU-second of the server. Requested before: at least 0.8 of a bare
 * `node:http` server that sends the same bytes. Not requested before: at least 0.7 of a bare loop that reads
 * the same rows with `node:sqlite` and sends them.
 */
export async function pages(bench: BenchContext): Promise<ResultRow[]> {
  const { isQuick } = bench
  const data = await bench.directory()
  const pageCount = isQuick ? 60 : 2400
  const pageIds = await withStorage(data, async (storage) => {
    await importLog(storage, generateLog({ count: pageCount * 100, words: 165 }))
    return await collectPageIds(storage)
  })
  await using load = startHelper<LoadRequest, LoadResult>('./http-load.ts')
  const repeated: MeasuredPair[] = []
  const fresh: MeasuredPair[] = []
  let pageBytes = 0
  for (let round = 0; round < (isQuick ? 1 : 5); round++) {
    const oursPaths = pageIds.map(
      (id) => `${searchPath}?limit=100${id === null ? '' : `&page_id=${encodeURIComponent(id)}`}`,
    )
    const ours = await measure(await startAgentServer(bench, data), load, oursPaths, isQuick)
    const floorPaths = pageIds.map((_, i) => `/${i * 100}`)
    const floor = await measure(await startFloor('pages', data), load, floorPaths, isQuick, '/again')
    repeated.push({ ours: ours.again, floor: floor.again })
    fresh.push({ ours: ours.fresh, floor: floor.fresh })
    if (Math.abs(ours.pageBytes - floor.pageBytes) > 100)
      throw new Error('ours and the floor send different pages')
    pageBytes = ours.pageBytes
  }
  return [
    atLeast(
      ...(['page asked before', 'requests per CPU-second'] as const),
      { floorName: 'the same bytes by a bare `node:http` server', pairs: repeated },
      0.8,
    ),
    atLeast(
      ...(['page never asked before', 'requests per CPU-second'] as const),
      { floorName: 'the same rows by bare `node:sqlite` and `node:http`', pairs: fresh },
      0.7,
    ),
    information('size of a page', 'bytes', pageBytes),
  ]
}

/** The page id of each page: null, then every `next_page_id`. Page ids stay valid when the process ends. */
async function collectPageIds(storage: Storage): Promise<(string | null)[]> {
  const ids: (string | null)[] = [null]
  for (;;) {
    const at = ids.at(-1) ?? undefined
    const page = await storage.log.search(conversationId, {
      limit: 100,
      sort_order: 'TIMESTAMP',
      page_id: at,
    })
    if (page.next_page_id === null) return ids
    ids.push(page.next_page_id)
  }
}

/**
 * Measures a process that was started three seconds ago: a quarter of the pages to warm up, the others once
 * each, then one page many times, half of them to warm up: the compiler of a server has more to do than that
 * of a floor, and its threads count.
 */
async function measure(
  startedServer: Server,
  load: HelperProcess<LoadRequest, LoadResult>,
  paths: readonly string[],
  isQuick: boolean,
  againPath = paths[0] ?? '',
) {
  await using server = startedServer
  await setTimeout(3_000)
  const perCpuSecond = async (requestPaths: readonly string[], count: number) => {
    const before = server.cpuSeconds()
    const { bytes } = await load.ask({ port: server.port, paths: requestPaths, count, connections: 4 })
    return { rate: count / (server.cpuSeconds() - before), bytes: bytes / count }
  }
  const warm = paths.slice(0, Math.ceil(paths.length / 4))
  const cold = paths.slice(warm.length)
  await perCpuSecond(warm, warm.length)
  const fresh = await perCpuSecond(cold, cold.length)
  const times = isQuick ? 500 : 40_000
  await perCpuSecond([againPath], times)
  const again = await perCpuSecond([againPath], times)
  return { fresh: fresh.rate, again: again.rate, pageBytes: fresh.bytes }
}
