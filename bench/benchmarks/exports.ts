import { setTimeout as sleep } from 'node:timers/promises'
import {
  type BenchContext,
  conversationId,
  getJson,
  importLog,
  startAgentServer,
  withStorage,
} from '../support/fixtures.ts'
import { generateLog } from '../support/generate-log.ts'
import { startProgram } from '../support/processes.ts'
import { atMost, information, median, percentile, type ResultRow } from '../support/result-table.ts'

const readers = 4
/** Reads the exports of an address at the same time, and prints how long that took. */
const readScript = `
  const started = performance.now()
  const read = async () => { for await (const _ of (await fetch(process.argv[1])).body); }
  await Promise.all(Array.from({ length: ${readers} }, read))
  console.log(performance.now() - started)`

/** `/health` while four exports of 400,000 events run: p99 at most 50 ms. */
export async function exports(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 10_000 : 400_000
  const data = await bench.directory()
  await withStorage(data, (storage) => importLog(storage, generateLog({ count, words: 60 })))
  await using server = await startAgentServer(bench, data)
  await getJson(server, '/health')
  const url = `http://127.0.0.1:${server.port}/api/conversations/${conversationId}/export`
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
  return [
    atMost(`health while ${readers} exports of ${count} events run, p99`, 'ms', percentile(waits, 99), 50),
    information('health during exports, p50', 'ms', median(waits)),
    information('exports', 'events/s', (readers * count) / (durationMs / 1000)),
  ]
}
