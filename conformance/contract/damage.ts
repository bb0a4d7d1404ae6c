import { randomBytes, randomInt } from 'node:crypto'
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../support/agent-server-api.ts'
import type { Guarantee } from './guarantee.ts'

/** An answer that takes longer is a server that spins or hangs. */
const deadlineMs = 180_000
const eventsEach = 80
const listPath = '/api/conversations/search?limit=10&sort_order=CREATED_AT'

/** One changed bit at a random place of each file in turn, after the server was stopped or killed. */
export const damage: Guarantee = {
  promise:
    'A changed bit in any file of the data directory is noticed: no wrong event is served, and nothing hangs.',
  round:
    'changes one bit of one file, starts a server on the directory and reads every conversation in every way',
  share: 0.5,
  partRounds: 50,
  async run(rounds) {
    const base = await mkdtemp(join(tmpdir(), 'slipway-damage-'))
    try {
      const states = await prepare(base)
      const outcomes = { harmless: 0, 'reads refused': 0, 'starts refused': 0 }
      const offset = randomInt(1_000)
      for (let round = 0; round < rounds; round++) {
        const data = join(base, 'damaged')
        const state = round % 2 === 0 ? 'stopped' : 'killed'
        await cp(join(base, state), data, { recursive: true })
        const place = await changeOneBit(data, Math.floor(round / 2) + offset)
        try {
          outcomes[await readDamaged(data, states[state])]++
        } catch (error) {
          throw new Error(`bit changed in ${place}: ${String(error)}`, { cause: error })
        } finally {
          await rm(data, { recursive: true })
        }
      }
      // A directory that never opens would show nothing.
      if (rounds >= 10) expect(outcomes['starts refused']).toBeLessThan(rounds)
      return { 'changed bits': rounds, ...outcomes, 'served wrong': 0, 'spinning or hanging': 0 }
    } finally {
      await rm(base, { recursive: true })
    }
  },
}

/** What the reads of a conversation answer when nothing is damaged. */
type Reads = ReadonlyMap<string, string>

/** Makes a directory of a stopped and one of a killed server; returns the right answers of both. */
async function prepare(base: string): Promise<Record<'stopped' | 'killed', Reads>> {
  await using server = await OwnAgentServer.open()
  const ids: string[] = []
  const picture = randomBytes(20_000).toString('base64')
  for (let n = 0; n < 3; n++) {
    const lines = Array.from({ length: eventsEach }, (_, at) => {
      const timestamp = `2026-01-01T00:00:${String(at % 60).padStart(2, '0')}Z`
      return at % 4 === 3
        ? { id: `e${at}`, timestamp, source: 'agent', kind: 'PauseEvent' }
        : messageLine(
            `e${at}`,
            timestamp,
            `Text ${at} of ${n}. ${at === 20 ? picture : 'and more '.repeat(20)}`,
          )
    })
    const id = await server.api.import(toJsonLines(...lines))
    const record = { title: `Conversation ${n}`, tags: { number: String(n) } }
    expect((await server.api.sendJson('PATCH', `/api/conversations/${id}`, record)).status).toBe(200)
    ids.push(id)
  }
  await server.restart()
  await cp(server.data, join(base, 'stopped'), { recursive: true })
  const stopped = await readAll(server.api, ids)
  for (const id of ids)
    for (let at = 0; at < 10; at++)
      await server.api.sendJson('POST', `/api/conversations/${id}/events`, {
        content: [{ type: 'text', text: `later ${at}` }],
      })
  const killed = await readAll(server.api, ids)
  await server.stop('SIGKILL')
  await cp(server.data, join(base, 'killed'), { recursive: true })
  return { stopped, killed }
}

/** Every way to read a conversation, and the list of all. */
async function readAll(api: AgentServerApi, ids: readonly string[]): Promise<Reads> {
  const paths = ids.flatMap((id) =>
    [
      'export',
      'events/search?limit=100',
      'events/search?limit=100&sort_order=TIMESTAMP_DESC',
      'events/search?limit=100&kind=MessageEvent',
      'events/search?limit=100&source=agent&sort_order=TIMESTAMP_DESC',
      'events/search?limit=100&body=Text%201',
      'events/search?limit=100&timestamp__gte=2026-01-01T00:00:30',
      'events/count',
      'events/count?kind=PauseEvent',
      'events/e42',
      'events/stream?until=idle',
    ].map((path) => `/api/conversations/${id}/${path}`),
  )
  const originals = new Map<string, string>()
  for (const path of [listPath, ...paths]) {
    const answer = await read(api, path)
    if (answer === undefined) throw new Error(`${path} is refused before any damage`)
    originals.set(path, answer)
  }
  return originals
}

/** Changes the file whose turn it is, so that all of them get as many; returns the place. */
async function changeOneBit(data: string, turn: number): Promise<string> {
  const entries = await readdir(data, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const sizes = await Promise.all(files.map(async (path) => (await stat(path)).size))
  const filled = files.filter((_, at) => sizes[at] !== 0).toSorted()
  const path = filled[turn % filled.length] ?? ''
  const bytes = await readFile(path)
  const at = randomInt(bytes.length)
  bytes[at] = (bytes[at] ?? 0) ^ (1 << randomInt(8))
  await writeFile(path, bytes)
  return `byte ${at} of ${path}`
}

async function readDamaged(
  data: string,
  originals: Reads,
): Promise<'harmless' | 'reads refused' | 'starts refused'> {
  const server = await startAgentServer(data).catch(() => undefined)
  if (server === undefined) return 'starts refused'
  try {
    const api = new AgentServerApi({ url: server.url, headers: {} })
    let refused = 0
    for (const [path, original] of originals) {
      const answer = await read(api, path)
      if (answer === undefined) refused++
      else if (answer !== original) throw new Error(`${path} answered wrong: ${answer.slice(0, 2_000)}`)
    }
    expect((await api.fetch('/health', { signal: AbortSignal.timeout(deadlineMs) })).status).toBe(200)
    return refused > 0 ? 'reads refused' : 'harmless'
  } finally {
    await server.stop('SIGKILL')
  }
}

/**
 * The text of an answer; undefined when the server refuses, breaks off or says in the stream that it cannot
 * go on.
 */
async function read(api: AgentServerApi, path: string): Promise<string | undefined> {
  try {
    const response = await api.fetch(path, { signal: AbortSignal.timeout(deadlineMs) })
    const text = await response.text()
    if (!response.ok || /^event: error$/m.test(text)) {
      // What is there is never said to be absent.
      expect([500, 503, 200]).toContain(response.status)
      return undefined
    }
    return path === listPath ? recordsOf(text) : text
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') throw new Error(`${path} does not answer`)
    return undefined
  }
}

/** Times and states of a list change with a start. */
function recordsOf(list: string): string {
  const { items } = JSON.parse(list) as { items: readonly { id: string; title: string; tags: object }[] }
  return JSON.stringify(items.map(({ id, title, tags }) => ({ id, title, tags })))
}
