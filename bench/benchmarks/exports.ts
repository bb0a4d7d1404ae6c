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
/** Reads the exports of an address at the same time, and prints how long that took, and their lines. */
const readScript = `
  const started = performance.now()
  let lines = 0
  const read = async () => {
    for await (const bytes of (await fetch(process.argv[1])).body)
      for (let at = -1; (at = bytes.indexOf(10, at + 1)) !== -1; ) lines++
  }
  await Promise.all(Array.from({ length: ${readers} }, read))
  console.log(JSON.stringify({ ms: performance.now() - started, lines }))`

/**
 * `/health` while four exports of 400,000 events run, p99, beside a bare server that streams the same rows with
 * `node:sqlite`.
 */
export async function exports(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 10_000 : 400_000
  const data = await bench.directory()
  await withStorage(data, (storage) => importLog(storage, generateLog({ count, words: 60 })))
  const path = `/api/conversations/${conversationId}/export`
  const ours = await measureExports(await startAgentServer(bench, data), path, count)
  const bare = await measureExports(await startFloor('export', data), '/export', count)
  const floor = (percent: number) => Floor.of('a bare server that streams the same rows', bare.waits, percent)
  const rate = (durationMs: number) => (readers * count) / (durationMs / 1000)
  const bareRate = Floor.of('a bare server that streams the same rows', [rate(bare.durationMs)])
  const name = `health while ${readers} exports of ${count} events run, p99`
  return [
    atMost(name, 'ms', percentile(ours.waits, 99), floor(99), 8),
    information('health during exports, p50', 'ms', median(ours.waits), floor(50)),
    information('exports', 'events/s', rate(ours.durationMs), bareRate),
  ]
}

/** The durations of requests of `/health` in ms, one after another while the exports run; stops the server. */
async function measureExports(startedServer: Server, path: string, count: number) {
  await using server = startedServer
  await getJson(server, '/health')
  const url = `http://127.0.0.1:${server.port}${path}`
  let durationMs: number | undefined
  const reading = startProgram(['--input-type=module', '-e', readScript, url]).then(async (program) => {
    const { ms, lines } = JSON.parse(program.firstLine) as { ms: number; lines: number }
    if (lines !== readers * count) throw new Error(`${lines} lines instead of ${readers * count}`)
    durationMs = ms
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
