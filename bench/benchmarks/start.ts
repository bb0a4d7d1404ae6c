import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { EventDraft, Storage } from '@slipway/storage'
import { bareStart, measureBareMemory, measureBareStart, measureStart } from '../floors/starts.ts'
import { type BenchContext, getJson, startAgentServer, withStorage } from '../support/fixtures.ts'
import { residentMb } from '../support/processes.ts'
import { atMost, median, type ResultRow } from '../support/result-table.ts'

const idleMs = 3_000

/**
 * From the start of the process to its first `/ready`, with 10,000 conversations stored and a warm compile
 * cache: at most six times that of a bare `node:http` server. Resident memory after three idle seconds: at most
 * 1.5 times that of the same bare server.
 */
export async function start(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 100 : 10_000
  const data = await bench.directory()
  await withStorage(data, (storage) => createConversations(storage, count))
  const env = { NODE_COMPILE_CACHE: await bench.directory() }
  const ours = () => startAgentServer(bench, data, env)
  await measureStart(ours)
  const oursMs: number[] = []
  const floorMs: number[] = []
  for (let round = 0; round < (bench.isQuick ? 2 : 9); round++) {
    oursMs.push(await measureStart(ours))
    floorMs.push(await measureBareStart())
  }
  await using server = await ours()
  await getJson(server, '/ready')
  await setTimeout(idleMs)
  return [
    atMost(`start with ${count} conversations`, 'ms', median(oursMs), bareStart(floorMs), 6),
    atMost('idle memory', 'MB', residentMb(server.pid), await measureBareMemory(idleMs), 1.5),
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
