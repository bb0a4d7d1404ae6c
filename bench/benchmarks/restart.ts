import { statSync } from 'node:fs'
import { copyFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { measureStart } from '../floors/starts.ts'
import {
  type BenchContext,
  conversationId,
  getJson,
  importLog,
  postJson,
  startAgentServer,
  startFloor,
  withStorage,
} from '../support/fixtures.ts'
import { generateLog } from '../support/generate-log.ts'
import { atMost, Floor, information, median, percentile, type ResultRow } from '../support/result-table.ts'

const writers = 8

/**
 * From the start of the process to its first `/ready` after a kill under load, with a log of 100,000 events,
 * p95, beside the start of a bare server that opens a copy of the same files with `node:sqlite`, its
 * write-ahead log too, and sends its first page.
 */
export async function restart(bench: BenchContext): Promise<ResultRow[]> {
  const [count, rounds, messages] = bench.isQuick ? [2_000, 2, 20] : [100_000, 20, 400]
  const data = await bench.directory()
  const env = { NODE_COMPILE_CACHE: await bench.directory() }
  await withStorage(data, (storage) => importLog(storage, generateLog({ count, words: 60 })))
  const startsMs: number[] = []
  const bareMs: number[] = []
  const walBytes: number[] = []
  for (let round = 0; round <= rounds; round++) {
    const startedAt = performance.now()
    await using server = await startAgentServer(bench, data, env)
    await getJson(server, '/ready')
    // The first start fills the compile cache.
    if (round > 0) startsMs.push(performance.now() - startedAt)
    const text = 'a message of some length '.repeat(100)
    const body = { role: 'user', content: [{ type: 'text', text }] }
    const write = async () => {
      for (let i = 0; i < messages; i++)
        await postJson(server, `/api/conversations/${conversationId}/events`, body)
    }
    await Promise.all(Array.from({ length: writers }, write))
    process.kill(server.pid, 'SIGKILL')
    walBytes.push(statSync(join(data, 'log.db-wal')).size)
    bareMs.push(await measureBareRestart(data, await bench.directory()))
  }
  const bare = (percent: number) => Floor.of('a bare server on the same files', bareMs, percent)
  return [
    atMost('start after a kill, p95', 'ms', percentile(startsMs, 95), bare(95), 10),
    information('start after a kill, p50', 'ms', median(startsMs), bare(50)),
    information('write-ahead log at the kill, p95', 'MB', percentile(walBytes, 95) / 1e6),
  ]
}

/** The files are copied, so that the bare server recovers the write-ahead log as ours does. */
async function measureBareRestart(data: string, directory: string): Promise<number> {
  for (const file of ['log.db', 'log.db-wal']) await copyFile(join(data, file), join(directory, file))
  const ms = await measureStart(() => startFloor('pages', directory), '/0')
  await rm(directory, { recursive: true })
  return ms
}
