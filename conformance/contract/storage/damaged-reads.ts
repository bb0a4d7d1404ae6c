import { randomBytes } from 'node:crypto'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { startAgentServer } from '../../support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'

/** An answer that takes longer is a server that spins or hangs. */
const deadlineMs = 180_000
const eventsEach = 80
const listPath = '/api/conversations/search?limit=10&sort_order=CREATED_AT'

/** What the reads of a conversation answer when nothing is damaged. */
export type Reads = ReadonlyMap<string, string>

/** Makes a directory of a stopped and one of a killed server; returns the right answers of both. */
export async function prepareData(base: string): Promise<Record<'stopped' | 'killed', Reads>> {
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

export interface DamagedReads {
  readonly outcome: 'harmless' | 'reads refused' | 'starts refused'
  /** Of a refused start. */
  readonly reason?: string
  /** Messages that were stored all the same, and those that were refused. */
  readonly appended: number
  readonly refused: number
}

/**
 * Starts a server on a damaged directory, and reads it in every way; rejects when an answer is wrong. With
 * `isWritten` it also sends a message to each conversation, kills the server and looks for what it has
 * acknowledged.
 */
export async function readDamaged(
  data: string,
  originals: Reads,
  { isWritten = false }: { readonly isWritten?: boolean } = {},
): Promise<DamagedReads> {
  const counts = { appended: 0, refused: 0 }
  const server = await startAgentServer(data).catch((error: unknown) => String(error))
  if (typeof server === 'string') return { outcome: 'starts refused', reason: server, ...counts }
  const acknowledged: string[] = []
  let refusedReads = 0
  try {
    const api = new AgentServerApi({ url: server.url, headers: {} })
    for (const [path, original] of originals) {
      const answer = await read(api, path)
      const isRight = path === listPath ? isPartOfList : (one: string, other: string) => one === other
      if (answer === undefined) refusedReads++
      else if (!(await isRight(answer, original, api)))
        throw new Error(`${path} answered wrong: ${answer.slice(0, 2_000)}`)
    }
    expect((await api.fetch('/health', { signal: AbortSignal.timeout(deadlineMs) })).status).toBe(200)
    if (isWritten) acknowledged.push(...(await sendToEach(api, originals)))
    counts.appended = acknowledged.length
    counts.refused = isWritten ? idsOf(originals).length - acknowledged.length : 0
  } finally {
    await server.stop('SIGKILL')
  }
  if (acknowledged.length > 0) await expectStored(data, acknowledged)
  return { outcome: refusedReads > 0 ? 'reads refused' : 'harmless', ...counts }
}

const laterText = 'sent to the damaged log'

/** The conversations that have taken a message; others refuse it. */
async function sendToEach(api: AgentServerApi, originals: Reads): Promise<string[]> {
  const acknowledged: string[] = []
  for (const id of idsOf(originals)) {
    const content = [{ type: 'text', text: laterText }]
    const { status } = await api.sendJson('POST', `/api/conversations/${id}/events`, { content })
    if (status === 200) acknowledged.push(id)
    else expect([500, 503]).toContain(status)
  }
  return acknowledged
}

/** After a kill. An export that cannot be read is refused. */
async function expectStored(data: string, ids: readonly string[]): Promise<void> {
  const server = await startAgentServer(data)
  try {
    const api = new AgentServerApi({ url: server.url, headers: {} })
    for (const id of ids) {
      const text = await read(api, `/api/conversations/${id}/export`)
      if (text !== undefined) expect(text.split(laterText).length, `${id} after a kill`).toBe(2)
    }
  } finally {
    await server.stop('SIGKILL')
  }
}

function idsOf(originals: Reads): readonly string[] {
  const paths = [...originals.keys()].filter((path) => path.endsWith('/export'))
  return paths.map((path) => path.split('/')[3] ?? '')
}

/**
 * The text of an answer; undefined when the server refuses, breaks off or says in the stream that it cannot
 * continue.
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
    return text
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') throw new Error(`${path} does not answer`)
    return undefined
  }
}

/** A list leaves out a conversation that cannot be read, which is not said to be absent. */
async function isPartOfList(answer: string, original: string, api: AgentServerApi): Promise<boolean> {
  const listed = new Set(recordsOf(answer))
  const all = recordsOf(original)
  if (listed.difference(new Set(all)).size > 0) return false
  for (const record of all.filter((one) => !listed.has(one))) {
    const { status } = await api.requestJson(`/api/conversations/${JSON.parse(record).id}`)
    if (![500, 503].includes(status)) return false
  }
  return true
}

/** Times and states of a list change with a start. */
function recordsOf(list: string): readonly string[] {
  const { items } = JSON.parse(list) as { items: readonly { id: string; title: string; tags: object }[] }
  return items.map(({ id, title, tags }) => JSON.stringify({ id, title, tags }))
}
