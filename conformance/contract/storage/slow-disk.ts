import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { noSystemFaults, SystemFaults } from '../../../packages/storage/src/testing/faults/system-faults.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import type { AgentServerApi } from '../../support/agent-server-api.ts'
import { type Guarantee, percentile } from '../guarantee.ts'
import { MessageLedger } from '../message-ledger.ts'

const syncMs = 2_000
/** Between two requests of others. */
const pauseMs = 10
const floorRequests = 100
/** Above the time of an answer beside a fast disk. */
const usualMsAbove = 100
/** Below one sync: none is waited for. */
const slowestMs = 0.75 * syncMs

/** A server whose syncs of files take seconds, by a library that is loaded before its own. */
export const slowDisk: Guarantee = {
  promise:
    'While every sync takes two seconds nothing is acknowledged before one has ended, and other requests wait for none.',
  round: 'two seconds in which four writers send messages, and `/health`, a page and a count are asked for',
  share: 0.25,
  roundSeconds: syncMs / 1000,
  whyUnavailable: () => noSystemFaults || undefined,
  async run(rounds) {
    using faults = new SystemFaults()
    await using server = await OwnAgentServer.open({ env: faults.env })
    const ledger = await MessageLedger.open(server.api)
    const [id = ''] = ledger.conversations
    const paths = ['/health', `/api/conversations/${id}/events/search?limit=50`]
    paths.push(`/api/conversations/${id}/events/count`)
    const floor = percentile(await askFor(server.api, paths, (asked) => asked < floorRequests), 0.5)
    faults.set([{ operation: 'sync', pattern: '*', delayMs: syncMs }])
    // The disk becomes slow: the event loop may wait for one sync.
    const slow = { content: [{ type: 'text', text: 'the first one beside a slow disk' }] }
    expect((await server.api.sendJson('POST', `/api/conversations/${id}/events`, slow)).status).toBe(200)
    let shortest = Number.POSITIVE_INFINITY
    const sendJson: AgentServerApi['sendJson'] = async (...request) => {
      const startMs = performance.now()
      const answer = await server.api.sendJson(...request)
      shortest = Math.min(shortest, performance.now() - startMs)
      return answer
    }
    const over = new AbortController()
    const load = ledger.write({ sendJson }, { label: 'slow disk', signal: over.signal, writers: 4 })
    const endMs = performance.now() + Math.max(rounds, 3) * syncMs
    const times = await askFor(server.api, paths, () => performance.now() < endMs)
    const [usual, slowest] = [percentile(times, 0.5), Math.max(...times)]
    // In the middle of a sync.
    await server.stop('SIGKILL')
    over.abort()
    await load
    faults.set([])
    await server.start()
    await ledger.verify(server.api)
    expect(ledger.acknowledged).toBeGreaterThan(0)
    expect(shortest).toBeGreaterThan(syncMs - 10)
    expect(usual).toBeLessThan(floor + usualMsAbove)
    expect(slowest).toBeLessThan(slowestMs)
    return {
      acknowledged: ledger.acknowledged,
      'shortest acknowledgement ms': Math.round(shortest),
      'other requests': times.length,
      'their median on a fast disk ms': Math.round(floor),
      'their median ms': Math.round(usual),
      'their slowest ms': Math.round(slowest),
      lost: 0,
    }
  },
}

/** Asks for each by turns, and resolves with the times of all answers in ms. */
async function askFor(
  api: AgentServerApi,
  paths: readonly string[],
  goesOn: (asked: number) => boolean,
): Promise<number[]> {
  const times: number[] = []
  while (goesOn(times.length)) {
    const startMs = performance.now()
    const response = await api.fetch(paths[times.length % paths.length] ?? '')
    await response.arrayBuffer()
    expect(response.status).toBe(200)
    times.push(performance.now() - startMs)
    await sleep(pauseMs)
  }
  return times
}
