import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { EventDraft, Storage } from '@slipway/storage'
import { type BenchContext, getJson, startAgentServer, startFloor, withStorage } from '../support/fixtures.ts'
import { residentMb, type Server } from '../support/processes.ts'
import { atMost, information, median, type ResultRow } from '../support/result-table.ts'

/**
 * From the start of the process to its first `/ready`, with 10,000 conversations stored and a warm compile
 * cache: at most 400 ms. Resident memory after three idle seconds: at most 120 MB.
 */
export async function start(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 100 : 10_000
  const data = await bench.directory()
  await withStorage(data, (storage) => createConversations(storage, count))
  const env = { NODE_COMPILE_CACHE: await bench.directory() }
  const ours = () => startAgentServer(bench, data, env)
  const floor = () => startFloor('hello')
  await measureStart(ours)
  const oursMs: number[] = []
  const floorMs: number[] = []
  for (let round = 0; round < (bench.isQuick ? 2 : 9); round++) {
    oursMs.push(await measureStart(ours))
    floorMs.push(await measureStart(floor))
  }
  await using server = await ours()
  await getJson(server, '/ready')
  await setTimeout(3000)
  return [
    atMost(`start with ${count} conversations`, 'ms', median(oursMs), 400),
    information('start beside a bare node:http server', 'ms', median(oursMs), median(floorMs)),
    atMost('idle memory', 'MB', residentMb(server.pid), 120),
  ]
}

/** Conversations with three events each. */
async function createConversations({ conversations, log }: Storage, count: number): Promise<void> {
  const drafts: EventDraft[] = ['running', 'idle', 'finished'].map((value) => {
    return { kind: 'ConversationStateUpdateEvent', source: 'environment', key: 'execution_status', value }
  })
  for (let i = 0; i < count; i += 500) {
    const ids = Array.from({ length: Math.min(500, count - i) }, () => randomUUID())
    await Promise.all(ids.map((id) => conversations.create({ id })))
    await Promise.all(ids.map((id) => log.append(id, drafts)))
  }
}

async function measureStart(open: () => Promise<Server>): Promise<number> {
  const startedAt = performance.now()
  await using server = await open()
  await getJson(server, '/ready')
  return performance.now() - startedAt
}
