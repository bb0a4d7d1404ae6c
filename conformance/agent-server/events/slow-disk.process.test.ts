import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { noSystemFaults, SystemFaults } from '../../../packages/storage/src/testing/faults/system-faults.ts'
import { startAgentServer } from '../../support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const syncMs = 2_000
/** A request has certainly reached its append then. */
const appendingMs = 500
/**
 * Below one sync: none is waited for. How long answers take beside the other work of a machine is printed.
 */
const maxMs = 0.75 * syncMs
/** Of half of the answers. */
const usualMs = 100
/** After that many syncs those of a disk of this machine are made on the event loop, if it is fast. */
const fastAppends = 40
/** 60 pages of the write-ahead log; a burst has more than are moved into the database together. */
const largeText = 'a long text '.repeat(20_000)
const burst = 40
/** Between its requests, so that reading them is not what others wait for. */
const burstPauseMs = 25

if (noSystemFaults !== undefined)
  console.warn(`SKIPPED: ${noSystemFaults}, so the answers beside a slow disk were not timed`)

test.skipIf(noSystemFaults !== undefined)(
  'while every sync takes seconds other requests are answered, and nothing is seen before it is durable',
  { timeout: 180_000 },
  async () => {
    using faults = new SystemFaults()
    const base = mkdtempSync(join(tmpdir(), 'slow-'))
    const server = await startAgentServer(join(base, 'data'), faults.env)
    const api = new AgentServerApi({ url: server.url, headers: {} })
    try {
      const [written, read] = [await importMessages(api, 1), await importMessages(api, 100)]
      const search = (id: string) => `/api/conversations/${id}/events/search?limit=50`
      const others = ['/health', '/ready', '/metrics', search(read), search(written)]
      for (const path of others) await timeRequest(api, path)
      for (let n = 0; n < fastAppends; n++)
        await append(api, written, 'the first one loads what is loaded once')
      faults.set([{ operation: 'sync', pattern: '*', delayMs: syncMs }])
      // The disk becomes slow: the event loop may wait for one sync.
      await timeAppend(api, written, 'short')
      const ended = new AbortController()
      const rounds: Round[] = []
      const watching = watch(api, others, { rounds, signal: ended.signal })
      for (const texts of [['short'], Array(burst).fill(largeText), ['short']]) {
        const startMs = performance.now()
        await appendDurably(api, written, texts)
        const endMs = performance.now()
        const beside = rounds.filter((round) => round.startMs > startMs + appendingMs && round.endMs < endMs)
        expect(beside).not.toEqual([])
      }
      ended.abort()
      const times = [...(await watching)].map(([path, all]) => ({ path, ...summarize(all) }))
      console.log('answers beside a slow disk, in ms:', times)
      for (const { path, usual, slowest } of times) {
        expect(usual, path).toBeLessThan(usualMs)
        expect(slowest, path).toBeLessThan(maxMs)
      }
      faults.set([])
      expect(await api.count(written)).toBe(2 + fastAppends + 2 + burst)
    } finally {
      faults.set([])
      await server.stop()
      rmSync(base, { recursive: true })
    }
  },
)

async function importMessages(api: AgentServerApi, events: number): Promise<string> {
  const line = (_: unknown, n: number) => messageLine(`e${n}`, '2026-01-01T00:00:00.000000Z', `text ${n}`)
  return await api.import(toJsonLines(...Array.from({ length: events }, line)))
}

async function append(api: AgentServerApi, id: string, text: string): Promise<void> {
  const message = { role: 'user', content: [{ type: 'text', text }] }
  const { status } = await api.sendJson('POST', `/api/conversations/${id}/events`, message)
  expect(status).toBe(200)
}

/** No event is acknowledged, and none is seen, before a sync may have ended. */
async function appendDurably(api: AgentServerApi, id: string, texts: readonly string[]): Promise<void> {
  const before = await api.count(id)
  const startMs = performance.now()
  const appended: Promise<void>[] = []
  let isOver = false
  const counting = (async () => {
    while (!isOver) {
      if ((await api.count(id)) > before) expect(performance.now() - startMs).toBeGreaterThan(syncMs - 10)
      await pause(20)
    }
  })()
  for (const text of texts) {
    appended.push(timeAppend(api, id, text))
    await pause(burstPauseMs)
  }
  await Promise.all(appended).finally(() => {
    isOver = true
  })
  await counting
  expect(await api.count(id)).toBe(before + texts.length)
}

async function timeAppend(api: AgentServerApi, id: string, text: string): Promise<void> {
  const startMs = performance.now()
  await append(api, id, text)
  expect(performance.now() - startMs).toBeGreaterThan(syncMs - 10)
}

async function timeRequest(api: AgentServerApi, path: string): Promise<number> {
  const startMs = performance.now()
  const response = await api.fetch(path)
  await response.arrayBuffer()
  expect(response.status, path).toBe(200)
  return performance.now() - startMs
}

/** All of the others were answered between the two. */
interface Round {
  readonly startMs: number
  readonly endMs: number
}

/** Asks for each by turns until the signal; resolves with the times of all answers of each. */
async function watch(
  api: AgentServerApi,
  paths: readonly string[],
  { rounds, signal }: { readonly rounds: Round[]; readonly signal: AbortSignal },
): Promise<ReadonlyMap<string, readonly number[]>> {
  const times = new Map<string, readonly number[]>()
  while (!signal.aborted) {
    const startMs = performance.now()
    for (const path of paths) {
      const ms = Math.round(await timeRequest(api, path))
      times.set(path, [...(times.get(path) ?? []), ms])
      await pause(5)
    }
    rounds.push({ startMs, endMs: performance.now() })
  }
  return times
}

function summarize(times: readonly number[]): { readonly usual: number; readonly slowest: number } {
  const sorted = times.toSorted((a, b) => a - b)
  return { usual: sorted[sorted.length >> 1] ?? 0, slowest: sorted.at(-1) ?? 0 }
}
