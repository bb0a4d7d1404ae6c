import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { type AgentServerApi, messageLine, toJsonLines } from '../support/agent-server-api.ts'
import { type Guarantee, percentile } from './guarantee.ts'
import { MessageLedger } from './message-ledger.ts'

/** Kills with one directory; then a new one, because the time to verify grows with each kill. */
const roundsPerDirectory = 20
const importSize = 1200

/** SIGKILL while messages and imports are written. */
export const kills: Guarantee = {
  promise:
    'Nothing acknowledged is lost, doubled or reordered when the agent server is killed, and an import is whole or absent.',
  round: 'kills a server that six writers and an import use, starts it again, and reads everything',
  partRounds: roundsPerDirectory,
  async run(rounds) {
    const totals = { kills: rounds, acknowledged: 0, imports: 0 }
    const startsMs: number[] = []
    for (let left = rounds; left > 0; left -= roundsPerDirectory) {
      await using server = await OwnAgentServer.open()
      const ledger = await MessageLedger.open(server.api)
      const imports = new ImportLedger()
      for (let round = 0; round < Math.min(left, roundsPerDirectory); round++) {
        const load = Promise.all([
          ledger.write(server.api, { label: `round ${round}` }),
          imports.writeUntilKilled(server.api),
        ])
        await sleep(Math.random() * 250)
        // The first kill of a directory, which may be the only one, is after an acknowledgement.
        while (ledger.acknowledged === 0) await sleep(5)
        await server.stop('SIGKILL')
        await load
        const startedAt = performance.now()
        await server.start()
        startsMs.push(performance.now() - startedAt)
        await ledger.verify(server.api)
        await imports.verify(server.api)
      }
      expect(ledger.acknowledged).toBeGreaterThan(0)
      totals.acknowledged += ledger.acknowledged
      totals.imports += imports.acknowledged.size
    }
    return {
      ...totals,
      'lost, doubled, reordered': 0,
      'start p50 ms': Math.round(percentile(startsMs, 0.5)),
      'start p95 ms': Math.round(percentile(startsMs, 0.95)),
    }
  },
}

/** Imports that a kill cuts: each is whole or absent. */
class ImportLedger {
  readonly attempted: string[] = []
  readonly acknowledged = new Set<string>()

  async writeUntilKilled(api: AgentServerApi): Promise<void> {
    const events = Array.from({ length: importSize }, (_, i) =>
      messageLine(`e${i}`, '2026-01-01T00:00:00Z', `${i}`),
    )
    for (;;) {
      const conversation_id = randomUUID()
      this.attempted.push(conversation_id)
      try {
        await api.import(toJsonLines({ conversation_id }, ...events))
      } catch (error) {
        if (error instanceof TypeError) return
        throw error
      }
      this.acknowledged.add(conversation_id)
    }
  }

  async verify(api: AgentServerApi): Promise<void> {
    for (const id of this.attempted) {
      const { status, body } = await api.requestJson<number>(`/api/conversations/${id}/events/count`)
      if (this.acknowledged.has(id) || status !== 404) expect([status, body]).toEqual([200, importSize])
    }
  }
}
