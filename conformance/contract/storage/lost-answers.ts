import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { type AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import type { Guarantee } from '../guarantee.ts'
import { readStream } from '../message-ledger.ts'
import { loseCommit, losingServerEnv } from './lose-commits.ts'

/** Rounds with one server; then a new one, because the time to verify grows with each round. */
const roundsPerServer = 20
const writers = 4
const importedEvents = 20
const messagesEach = 2

/** Commits that are stored and reported as failed, while conversations are imported and appended to. */
export const lostAnswers: Guarantee = {
  promise: 'A commit that is stored and reported as failed costs nothing that is acknowledged later.',
  round:
    'loses the answer of a commit while four writers import, repeat what was refused, and send messages to what they imported',
  partRounds: roundsPerServer,
  async run(rounds) {
    const totals = { acknowledged: 0, imports: 0, refused: 0 }
    for (let left = rounds; left > 0; left -= roundsPerServer) {
      await using server = await OwnAgentServer.open({ env: losingServerEnv })
      const ledger = new ImportLedger()
      const over = new AbortController()
      const load = Promise.all(
        Array.from({ length: writers }, () => ledger.write(() => server.api, over.signal)),
      )
      try {
        for (let round = 0; round < Math.min(left, roundsPerServer); round++) {
          await sleep(Math.random() * 100)
          const { refused, imports } = ledger
          await loseCommit(server)
          await waitFor(() => ledger.refused > refused && ledger.imports > imports)
        }
      } finally {
        over.abort()
        await load
      }
      await ledger.verify(server.api)
      await server.restart('SIGKILL')
      await ledger.verify(server.api)
      totals.acknowledged += ledger.acknowledged
      totals.imports += ledger.imports
      totals.refused += ledger.refused
    }
    return { 'lost answers': rounds, ...totals, 'lost, doubled, reordered': 0 }
  },
}

/** Imports that are repeated until they are acknowledged, and messages to each of them. */
class ImportLedger {
  /** By conversation: the acknowledged texts, in order. */
  readonly #texts = new Map<string, readonly string[]>()
  imports = 0
  refused = 0

  get acknowledged(): number {
    return [...this.#texts.values()].reduce((sum, texts) => sum + texts.length, 0)
  }

  async write(api: () => AgentServerApi, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const id = randomUUID()
      const imported = Array.from({ length: importedEvents }, (_, n) => `imported ${n}`)
      const lines = imported.map((text, n) => messageLine(`e${n}`, '2026-01-01T00:00:00Z', text))
      await this.#untilAcknowledged(() => sendImport(api(), toJsonLines({ conversation_id: id }, ...lines)))
      this.imports++
      this.#texts.set(id, imported)
      for (let n = 0; n < messagesEach; n++) {
        const text = `message ${n}`
        const content = [{ type: 'text', text }]
        const { status } = await api().sendJson('POST', `/api/conversations/${id}/events`, { content })
        if (status === 200) this.#texts.set(id, [...(this.#texts.get(id) ?? []), text])
        else await this.#refuse(status)
      }
    }
  }

  /** Every acknowledged text is stored once, in order; what was refused may be there. */
  async verify(api: AgentServerApi): Promise<void> {
    for (const [id, texts] of this.#texts) {
      const { positions, events } = await readStream(api, id)
      expect(positions).toEqual(positions.map((_, index) => index + 1))
      const stored = events.flatMap((event) => event.llm_message?.content[0].text ?? [])
      expect(stored.filter((text) => texts.includes(text))).toEqual(texts)
      expect(new Set(stored).size).toBe(stored.length)
    }
  }

  async #untilAcknowledged(send: () => Promise<number>): Promise<void> {
    for (let status = await send(); status !== 201; status = await send()) await this.#refuse(status)
  }

  async #refuse(status: number): Promise<void> {
    expect([503, 507]).toContain(status)
    this.refused++
    await sleep(5)
  }
}

async function sendImport(api: AgentServerApi, body: string): Promise<number> {
  const headers = { 'content-type': 'application/x-ndjson' }
  const { status } = await api.requestJson('/api/conversations/import', { method: 'POST', headers, body })
  return status
}

async function waitFor(check: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !check(); await sleep(5))
    if (Date.now() > deadline) throw new Error('the server did not continue within 60 s')
}
