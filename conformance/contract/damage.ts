import { randomInt } from 'node:crypto'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../support/agent-server-api.ts'
import type { Guarantee } from './guarantee.ts'

/** An answer that takes longer is a server that spins or hangs. */
const deadlineMs = 60_000
const eventsEach = 80

/**
 * One changed bit at a random place of a random file of a data directory whose server was stopped or killed.
 */
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
      const originals = await prepare(base)
      const outcomes = { harmless: 0, 'reads refused': 0, 'starts refused': 0 }
      for (let round = 0; round < rounds; round++) {
        const data = join(base, 'damaged')
        await cp(join(base, round % 2 === 0 ? 'stopped' : 'killed'), data, { recursive: true })
        const place = await changeOneBit(data)
        try {
          outcomes[await readDamaged(data, originals)]++
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

/** Makes a directory of a stopped and one of a killed server; returns the right answers by path. */
async function prepare(base: string): Promise<Reads> {
  await using server = await OwnAgentServer.open()
  const ids: string[] = []
  for (let n = 0; n < 3; n++) {
    const lines = Array.from({ length: eventsEach }, (_, at) =>
      messageLine(
        `e${at}`,
        `2026-01-01T00:00:${String(at % 60).padStart(2, '0')}Z`,
        `Text ${at} of ${n}. `.repeat(20),
      ),
    )
    ids.push(await server.api.import(toJsonLines(...lines)))
  }
  await server.restart()
  await cp(server.data, join(base, 'stopped'), { recursive: true })
  for (const id of ids)
    for (let at = 0; at < 10; at++)
      await server.api.sendJson('POST', `/api/conversations/${id}/events`, { content: `later ${at}` })
  const paths = ids.flatMap((id) => [
    `/api/conversations/${id}/export`,
    `/api/conversations/${id}/events/search?limit=100`,
    `/api/conversations/${id}/events/search?limit=100&sort_order=TIMESTAMP_DESC`,
    `/api/conversations/${id}/events/stream?until=idle`,
  ])
  const originals = new Map<string, string>()
  for (const path of paths) originals.set(path, await (await server.api.fetch(path)).text())
  await server.stop('SIGKILL')
  await cp(server.data, join(base, 'killed'), { recursive: true })
  return originals
}

/** Returns the place. */
async function changeOneBit(data: string): Promise<string> {
  const entries = await readdir(data, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  for (;;) {
    const path = files[randomInt(files.length)] ?? ''
    const bytes = await readFile(path)
    if (bytes.length === 0) continue
    const at = randomInt(bytes.length)
    bytes[at] = (bytes[at] ?? 0) ^ (1 << randomInt(8))
    await writeFile(path, bytes)
    return `byte ${at} of ${path}`
  }
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
      else if (!isRight(answer, original))
        throw new Error(`${path} answered wrong: ${answer.slice(0, 2_000)}`)
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
    return response.ok && !/^event: error$/m.test(text) ? text : undefined
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') throw new Error(`${path} does not answer`)
    return undefined
  }
}

/**
 * In the directory of the stopped server the later messages do not exist: a page or a stream is a part of the
 * other.
 */
function isRight(answer: string, original: string): boolean {
  if (answer === original) return true
  const events = eventsOf(answer)
  const all = eventsOf(original)
  return events.length === eventsEach && events.every((event) => all.includes(event))
}

const eventsOf = (text: string): readonly string[] =>
  text.startsWith('{"items"')
    ? (JSON.parse(text).items as object[]).map((event) => JSON.stringify(event))
    : [...text.matchAll(/^(?:data: )?(\{"id".*\})$/gm)].map(([, event]) =>
        JSON.stringify(JSON.parse(String(event))),
      )
