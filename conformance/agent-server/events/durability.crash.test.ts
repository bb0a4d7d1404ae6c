import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { type AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'

/** How often the server is killed while it works. */
const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 5)
const importSize = 1200

/** What was acknowledged to callers, and so must be in the log. */
interface Acknowledged {
  readonly texts: Set<string>
  readonly imports: Set<string>
}

/** Kills with one directory; then a new one, because the time to verify grows with each kill. */
const roundsPerDirectory = 20

test(`nothing acknowledged is lost, duplicated or torn over ${rounds} kills of a writing server`, {
  timeout: 60_000 + rounds * 10_000,
}, async () => {
  for (let left = rounds; left > 0; left -= roundsPerDirectory)
    await runCrashRounds(Math.min(left, roundsPerDirectory))
})

async function runCrashRounds(count: number): Promise<void> {
  await using server = await OwnAgentServer.open()
  const acknowledged: Acknowledged = { texts: new Set(), imports: new Set() }
  const conversations = await Promise.all([1, 2, 3].map(() => server.api.import('')))
  for (let round = 0; round < count; round++) {
    const attempted: string[] = []
    const load = writeUntilKilled(server.api, conversations, round, acknowledged, attempted)
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 250))
    await server.stop('SIGKILL')
    await load
    await server.start()
    await verify(server.api, conversations, acknowledged, attempted, round === count - 1)
  }
  expect(acknowledged.texts.size).toBeGreaterThan(count)
}

/** Sends messages to all conversations and imports logs, until the server is killed. */
async function writeUntilKilled(
  api: AgentServerApi,
  conversations: readonly string[],
  round: number,
  acknowledged: Acknowledged,
  attempted: string[],
): Promise<void> {
  const untilGone = async (step: (n: number) => Promise<void>) => {
    try {
      for (let n = 0; n < 10_000; n++) await step(n)
    } catch {
      // The kill cut this request; it was not acknowledged.
    }
  }
  const sendMessages = (writer: number) =>
    untilGone(async (n) => {
      const text = `round ${round} writer ${writer} message ${n}`
      const id = conversations[(n + writer) % conversations.length]
      const { status } = await api.sendJson('POST', `/api/conversations/${id}/events`, { content: text })
      if (status === 200) acknowledged.texts.add(text)
    })
  const importLogs = untilGone(async () => {
    const conversation_id = randomUUID()
    attempted.push(conversation_id)
    const events = Array.from({ length: importSize }, (_, i) =>
      messageLine(`e${i}`, '2026-01-01T00:00:00Z', `${i}`),
    )
    await api.import(toJsonLines({ conversation_id }, ...events))
    acknowledged.imports.add(conversation_id)
  })
  await Promise.all([importLogs, ...[1, 2, 3, 4, 5, 6].map(sendMessages)])
}

async function verify(
  api: AgentServerApi,
  conversations: readonly string[],
  acknowledged: Acknowledged,
  attempted: readonly string[],
  isLast: boolean,
): Promise<void> {
  const found: string[] = []
  for (const id of conversations) {
    const sent = await (await api.fetch(`/api/conversations/${id}/events/stream?until=idle`)).text()
    const positions = [...sent.matchAll(/^id: (\d+)$/gm)].map((m) => Number(m[1]))
    expect(positions).toEqual(positions.map((_, index) => index + 1))
    const events = [...sent.matchAll(/^data: (.*)$/gm)].map((m) => JSON.parse(String(m[1])))
    expect(new Set(events.map((event) => event.id)).size).toBe(positions.length)
    expect(await api.count(id)).toBe(positions.length)
    found.push(...events.map((event) => event.llm_message.content[0].text))
  }
  const storedTexts = new Set(found)
  expect(storedTexts.size).toBe(found.length)
  expect([...acknowledged.texts].filter((text) => !storedTexts.has(text))).toEqual([])
  for (const id of isLast ? new Set([...acknowledged.imports, ...attempted]) : attempted) {
    const { status, body } = await api.requestJson<number>(`/api/conversations/${id}/events/count`)
    if (acknowledged.imports.has(id) || status !== 404) expect([status, body]).toEqual([200, importSize])
  }
}
