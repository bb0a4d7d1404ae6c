import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { startAgentServer } from '../support/agent-server.ts'
import type { Guarantee } from './guarantee.ts'
import { MessageLedger } from './message-ledger.ts'

/** SIGSTOP and SIGCONT while messages are written; a second server tries the directory of the frozen one. */
export const freezes: Guarantee = {
  promise:
    'A server that was frozen continues where it was, and no second server opens its directory meanwhile.',
  round:
    'stops the process for up to 300 ms under load; each 20th time a second server is started on its directory',
  partRounds: 200,
  async run(rounds) {
    await using server = await OwnAgentServer.open()
    const ledger = await MessageLedger.open(server.api)
    const over = new AbortController()
    const load = ledger.write(server.api, { label: 'freezes', signal: over.signal })
    let refusedServers = 0
    for (let round = 0; round < rounds; round++) {
      await sleep(Math.random() * 100)
      process.kill(server.pid, 'SIGSTOP')
      try {
        if (round % 20 === 0) {
          await expect(startAgentServer(server.data)).rejects.toThrow(/in use by/)
          refusedServers++
        } else await sleep(Math.random() * 300)
      } finally {
        process.kill(server.pid, 'SIGCONT')
      }
    }
    await sleep(100)
    over.abort()
    await load
    await ledger.verify(server.api)
    expect(ledger.acknowledged).toBeGreaterThan(0)
    return {
      freezes: rounds,
      acknowledged: ledger.acknowledged,
      'second servers refused': refusedServers,
      lost: 0,
    }
  },
}
