import { type BenchContext, searchPath, startFloor } from '../support/fixtures.ts'
import type { LoadRequest, LoadResult } from '../support/http-load.ts'
import { type HelperProcess, startHelper } from '../support/processes.ts'
import { Floor, information, type MeasuredPair, median, type ResultRow } from '../support/result-table.ts'

/**
 * Requests of a fixed buffer per CPU-second of the server; the floor is a bare `node:http` server that sends
 * the same bytes.
 */
export async function httpCore({ isQuick }: BenchContext): Promise<ResultRow[]> {
  await using load = startHelper<LoadRequest, LoadResult>('./http-load.ts')
  const rows: ResultRow[] = []
  for (const [bytes, count] of [
    [300, 60_000],
    [150_000, 16_000],
  ] as const) {
    const pairs: MeasuredPair[] = []
    for (let round = 0; round < (isQuick ? 1 : 5); round++) {
      const requests = isQuick ? 500 : count
      const ours = await measure(load, requests, [`${bytes}`, 'app'])
      pairs.push({ ours, floor: await measure(load, requests, [`${bytes}`]) })
    }
    const ours = median(pairs.map((pair) => pair.ours))
    const floor = Floor.of(
      'a bare `node:http` server',
      pairs.map((pair) => pair.floor),
    )
    rows.push(information(`ready buffer of ${bytes} bytes`, 'requests per CPU-second', ours, floor))
  }
  return rows
}

async function measure(
  load: HelperProcess<LoadRequest, LoadResult>,
  count: number,
  args: readonly string[],
): Promise<number> {
  await using server = await startFloor('http-core', ...args)
  const request = (times: number) =>
    load.ask({ port: server.port, paths: [searchPath], count: times, connections: 4 })
  await request(count / 4)
  const before = server.cpuSeconds()
  await request(count)
  return count / (server.cpuSeconds() - before)
}
