import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startServer } from '../../support/agent-server.ts'
import { Api, lines, message } from '../../support/agent-server-api.ts'

/** How often the server is killed in the middle of its work. */
const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 5)
const importSize = 1200

/** What callers were told, and what the log must therefore hold. */
interface Told {
  readonly texts: Set<string>
  readonly imports: Set<string>
}

/** Kills of one directory; then a new one begins, because what has to be read again grows with each. */
const roundsOfDirectory = 20

test(`nothing acknowledged is lost, doubled or torn over ${rounds} kills of a writing server`, {
  timeout: 60_000 + rounds * 10_000,
}, async () => {
  for (let left = rounds; left > 0; left -= roundsOfDirectory) await killed(Math.min(left, roundsOfDirectory))
})

async function killed(times: number): Promise<void> {
  const data = await mkdtemp(join(tmpdir(), 'slipway-crash-'))
  const told: Told = { texts: new Set(), imports: new Set() }
  let server = await startServer(data)
  try {
    const conversations = await Promise.all([1, 2, 3].map(() => api(server.url).import('')))
    for (let round = 0; round < times; round++) {
      const attempted: string[] = []
      const load = writers(server.url, conversations, round, told, attempted)
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 250))
      await server.stop('SIGKILL')
      await load
      server = await startServer(data)
      await verify(server.url, conversations, told, attempted, round === times - 1)
    }
    expect(told.texts.size).toBeGreaterThan(times)
  } finally {
    await server.stop('SIGKILL')
    await rm(data, { recursive: true })
  }
}

function api(url: string): Api {
  return new Api({ url, headers: {}, [Symbol.asyncDispose]: async () => {} })
}

/** Messages to all conversations and imports beside them, until the server is gone. */
async function writers(
  url: string,
  conversations: readonly string[],
  round: number,
  told: Told,
  attempted: string[],
): Promise<void> {
  const untilGone = async (step: (n: number) => Promise<void>) => {
    try {
      for (let n = 0; n < 10_000; n++) await step(n)
    } catch {
      // The kill cut this request; it was not acknowledged.
    }
  }
  const say = (writer: number) =>
    untilGone(async (n) => {
      const text = `round ${round} writer ${writer} message ${n}`
      const id = conversations[(n + writer) % conversations.length]
      const { status } = await api(url).send('POST', `/api/conversations/${id}/events`, { content: text })
      if (status === 200) told.texts.add(text)
    })
  const bring = untilGone(async () => {
    const conversation_id = randomUUID()
    attempted.push(conversation_id)
    const events = Array.from({ length: importSize }, (_, i) =>
      message(`e${i}`, '2026-01-01T00:00:00Z', `${i}`),
    )
    await api(url).import(lines({ conversation_id }, ...events))
    told.imports.add(conversation_id)
  })
  await Promise.all([bring, ...[1, 2, 3, 4, 5, 6].map(say)])
}

async function verify(
  url: string,
  conversations: readonly string[],
  told: Told,
  attempted: readonly string[],
  isLast: boolean,
): Promise<void> {
  const found: string[] = []
  for (const id of conversations) {
    const sent = await (await api(url).fetch(`/api/conversations/${id}/events/stream?until=idle`)).text()
    const positions = [...sent.matchAll(/^id: (\d+)$/gm)].map((m) => Number(m[1]))
    expect(positions).toEqual(positions.map((_, index) => index + 1))
    const events = [...sent.matchAll(/^data: (.*)$/gm)].map((m) => JSON.parse(String(m[1])))
    expect(new Set(events.map((event) => event.id)).size).toBe(positions.length)
    expect(await api(url).count(id)).toBe(positions.length)
    found.push(...events.map((event) => event.llm_message.content[0].text))
  }
  const there = new Set(found)
  expect(there.size).toBe(found.length)
  expect([...told.texts].filter((text) => !there.has(text))).toEqual([])
  for (const id of isLast ? new Set([...told.imports, ...attempted]) : attempted) {
    const { status, body } = await api(url).json<number>(`/api/conversations/${id}/events/count`)
    if (told.imports.has(id) || status !== 404) expect([status, body]).toEqual([200, importSize])
  }
}
