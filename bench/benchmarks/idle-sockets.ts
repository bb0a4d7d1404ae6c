import { setTimeout as sleep } from 'node:timers/promises'
import { type BenchContext, startAgentServer, startFloor, withStorage } from '../support/fixtures.ts'
import { type Server, startHelper } from '../support/processes.ts'
import { Floor, information, type ResultRow } from '../support/result-table.ts'
import type { IdleRequest } from '../support/websocket-idlers.ts'

/** Of the bare server, and what the server has unless its settings say otherwise. */
const pingSeconds = 5
/** What the server had before, and what most servers have. */
const slowSeconds = [7, 20]
const pathsPerServer = 10

/**
 * The processor time of sockets on which nothing happens but pings: percent of a core, beside a bare `ws`
 * server that pings as many as often.
 */
export async function idleSockets(bench: BenchContext): Promise<ResultRow[]> {
  const size = bench.isQuick ? { sockets: 100, seconds: 6 } : { sockets: 10_000, seconds: 60 }
  const conversations = Array.from(
    { length: pathsPerServer },
    (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
  )
  const ours = async (seconds: number) => {
    const data = await bench.directory()
    await withStorage(data, async (storage) => {
      for (const id of conversations) await storage.conversations.create({ id })
    })
    const server = await startAgentServer(bench, data, { SLIPWAY_HEARTBEAT_SECONDS: String(seconds) })
    return await measure(
      server,
      conversations.map((id) => `/sockets/events/${id}`),
      size,
    )
  }
  const bare = await measure(await startFloor('broadcast', String(pingSeconds)), ['/'], size)
  const floor = Floor.of('a bare `ws` server that pings every 5 s', [bare])
  const rows: ResultRow[] = []
  for (const seconds of [pingSeconds, ...slowSeconds])
    rows.push(
      information(
        `${size.sockets} idle sockets, pings every ${seconds} s`,
        '% of a core',
        await ours(seconds),
        floor,
      ),
    )
  return rows
}

/** Percent of a core; stops the server. */
async function measure(
  startedServer: Server,
  paths: readonly string[],
  { sockets, seconds }: { readonly sockets: number; readonly seconds: number },
): Promise<number> {
  await using server = startedServer
  await using idlers = startHelper<IdleRequest, undefined>('./websocket-idlers.ts')
  await idlers.ask({ port: server.port, paths, count: sockets })
  await sleep(2 * pingSeconds * 1000)
  const before = server.cpuSeconds()
  await sleep(seconds * 1000)
  return (100 * (server.cpuSeconds() - before)) / seconds
}
