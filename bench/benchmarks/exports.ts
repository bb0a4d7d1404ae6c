import { setTimeout as sleep } from 'node:timers/promises'
import {
  type BenchContext,
  conversationId,
  getJson,
  importLog,
  startAgentServer,
  startFloor,
  withStorage,
} from '../support/fixtures.ts'
import { generateLog } from '../support/generate-log.ts'
import { type Server, startProgram } from '../support/processes.ts'
import { atMost, Floor, information, median, percentile, type ResultRow } from '../support/result-table.ts'

const readers = 4
/** Reads the exports of an address at the same time, and prints how long that took. */
const readScript = `
  const started = performance.now()
  const read = async () => { for await (const _ of (await fetch(process.argv[1])).body); }
  await Promise.all(Array.from({ length: ${readers} }, read))
  console.log(performance.now() - started)`

/**
 * `/health` while four exports of 400,000 events run, p99, beside a bare server that streams the same rows with
 * `node:sqlite`.
 */
export async function exports(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 10_000 : 400_000
  const data = await bench.directory()
  await withStorage(data, (storage) => importLog(storage, generateLog({ count, words: 60 })))
  const ours = await measureExports(
    await startAgentServer(bench, data),
    `/api/conversations/${conversationId}/export`,
  )
  const bare = await measureExports(await startFloor('export', data), '/export')
  const floor = (percent: number) => Floor.of('a bare server that streams the same rows', bare.waits, percent)
  const rate = (durationMs: number) => (readers * count) / (durationMs / 1000)
  const bareRate = Floor.of('a bare server that streams the same rows', [rate(bare.durationMs)])
  const name = `health while ${readers} exports of ${count} events run, p99`
  return [
    atMost(name, 'ms', percentile(ours.waits, 99), floor(99), 5),
    information('health during exports, p50', 'ms', median(ours.waits), floor(50)),
    information('exports', 'events/s', rate(ours.durationMs), bareRate),
  ]
}

/** The durations of requests of `/health` in ms, one after another while the exports run; stops the server. */
async function measureExports(startedServer: Server, path: string) {
  await using server = startedServer
  await getJson(server, '/health')
  const url = `http://127.0.0.1:${server.port}${path}`
  let durationMs: number | undefined
  const reading = startProgram(['--input-type=module', '-e', readScript, url]).then(async (program) => {
    durationMs = Number(program.firstLine)
    await program[Symbol.asyncDispose]()
  })
  const waits: number[] = []
  while (durationMs === undefined) {
    const started = performance.now()
    await getJson(server, '/health')
    waits.push(performance.now() - started)
    await sleep(5)
  }
  await reading
  return { waits, durationMs }
}
