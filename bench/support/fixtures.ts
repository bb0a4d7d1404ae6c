import { mkdtempSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openStorage, type ReceivedEvent, type Storage } from '@slipway/storage'
import { startReaper } from '../../scripts/test/reaper.ts'
import { type Server, startServer } from './processes.ts'

export const conversationId = '6f9619ff-8b86-4011-b42d-00c04fc964ff'
export const searchPath = `/api/conversations/${conversationId}/events/search`

/** What a benchmark runs with. */
export interface BenchContext {
  /** Small sizes: checks that the benchmark works, measures nothing. */
  readonly isQuick: boolean
  /** Where the measured servers write a CPU profile; undefined: no profile. */
  readonly profileDirectory: string | undefined
  /** A new directory, removed at the end of the run. */
  directory(): Promise<string>
}

/**
 * Creates directories. When this process ends, however, they are removed with all processes that use them.
 */
export function createDirectoryFactory(): () => Promise<string> {
  const root = mkdtempSync(join(tmpdir(), 'slipway-bench-'))
  startReaper(root)
  return () => mkdtemp(join(root, 'd-'))
}

/** Imports events into a conversation and waits for the text index; returns the duration of each. */
export async function importLog(
  storage: Storage,
  events: Iterable<ReceivedEvent>,
  id = conversationId,
): Promise<{ readonly importMs: number; readonly indexMs: number }> {
  const startedAt = performance.now()
  const session = await storage.startImport(id)
  let batch: ReceivedEvent[] = []
  for (const event of events) {
    batch.push(event)
    if (batch.length < 1000) continue
    await session.add(batch)
    batch = []
  }
  await session.add(batch)
  await session.publish({ status: 'idle' })
  const importedAt = performance.now()
  await storage.waitUntilIndexed()
  return { importMs: importedAt - startedAt, indexMs: performance.now() - importedAt }
}

/** Opens the storage of a directory for the duration of a function. */
export async function withStorage<T>(directory: string, work: (storage: Storage) => Promise<T>): Promise<T> {
  await using storage = await openStorage({ directory })
  return await work(storage)
}

/** Starts the agent server on a data directory, with its main.js. */
export function startAgentServer(
  bench: BenchContext,
  data: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Server> {
  const main = fileURLToPath(new URL('../../packages/agent-server/src/main.js', import.meta.url))
  const profile =
    bench.profileDirectory === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${bench.profileDirectory}`]
  return startServer([...profile, main, '--port', '0', '--data', data], { SLIPWAY_NO_KEY: '1', ...env })
}

/** Starts a program of the folder `floors`. */
export function startFloor(name: string, ...args: string[]): Promise<Server> {
  return startServer([fileURLToPath(new URL(`../floors/${name}.ts`, import.meta.url)), ...args])
}

/** GETs JSON; throws unless the request succeeds. The caller knows the shape. */
export async function getJson<T>(server: Server, path: string): Promise<T> {
  return await readJson<T>(path, await fetch(`http://127.0.0.1:${server.port}${path}`))
}

/** POSTs JSON, likewise. */
export async function postJson<T>(server: Server, path: string, body: unknown): Promise<T> {
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return await readJson<T>(path, response)
}

async function readJson<T>(path: string, response: Response): Promise<T> {
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as T // of the server under measurement
}
