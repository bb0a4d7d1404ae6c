import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { scriptedModel } from '../agent-driver.ts'
import { messageLine, toJsonLines } from '../agent-server-api.ts'
import { fetchInSandbox, retryUntil } from './crash-rounds.ts'
import type { SandboxInfo, SandboxServer } from './server.ts'

export async function postInSandbox<T>(sandbox: SandboxInfo, path: string, body: unknown): Promise<T> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetchInSandbox(sandbox, path, init)
  const text = await response.text()
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`)
  return JSON.parse(text)
}

/** Imports a log into the agent server and returns the conversation's id. */
export async function importLog(sandbox: SandboxInfo, count: number, sizeBytes: number): Promise<string> {
  const begin = Date.parse('2026-01-01T00:00:00Z')
  const events = Array.from({ length: count }, (_, at) => {
    const time = new Date(begin + at * 1_000).toISOString().replace('Z', '000Z')
    return messageLine(randomUUID(), time, `${at} ${'ä€😀x'.repeat(sizeBytes / 10)}`)
  })
  const response = await fetchInSandbox(sandbox, '/api/conversations/import', {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body: toJsonLines(...events),
  })
  const text = await response.text()
  if (response.status !== 201) throw new Error(`the import answered ${response.status}: ${text}`)
  return JSON.parse(text).conversation_id
}

/** Creates a conversation on the agent server itself; with a script it starts a run. */
export async function createConversation(sandbox: SandboxInfo, script?: readonly unknown[]): Promise<string> {
  const { working_dir } = sandbox
  const request = {
    workspace: { working_dir },
    autotitle: false,
    agent: { kind: 'Agent', tools: [{ name: 'terminal' }], llm: scriptedModel(script ?? []) },
    ...(script === undefined ? {} : { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }),
  }
  return (await postInSandbox<{ id: string }>(sandbox, '/api/conversations', request)).id
}

/** Writes messages into a conversation until the work is over; returns their number. */
export async function writeMessagesDuring(
  sandbox: SandboxInfo,
  ids: readonly string[],
  work: () => Promise<void>,
): Promise<number> {
  let isOver = false
  let count = 0
  const write = async (id: string) => {
    for (let at = 0; !isOver; at++, count++) {
      await postInSandbox(sandbox, `/api/conversations/${id}/events`, {
        content: [{ type: 'text', text: `${at} ${'€'.repeat(at % 500)}` }],
        run: false,
      })
    }
  }
  const writers = Promise.all(ids.map(write))
  await work().finally(() => {
    isOver = true
  })
  await writers
  return count
}

export async function exportFromSandbox(sandbox: SandboxInfo, id: string): Promise<string> {
  return await (await fetchInSandbox(sandbox, `/api/conversations/${id}/export`)).text()
}

/** Waits until the logs of both sides are the same, byte for byte; runs may still add to them. */
export async function waitForEqualLogs(
  server: SandboxServer,
  sandbox: SandboxInfo,
  ids: readonly string[],
): Promise<void> {
  const countIn = async (path: string, fetch: (path: string) => Promise<Response>) =>
    Number(await (await fetch(path)).text())
  for (const id of ids) {
    await retryUntil(
      server,
      async () => {
        const there = await countIn(`/api/conversations/${id}/events/count`, (path) =>
          fetchInSandbox(sandbox, path),
        )
        const here = await countIn(`/api/v1/conversation/${id}/events/count`, (path) => server.fetch(path))
        expect(here).toBe(there)
        const exported = await exportFromSandbox(sandbox, id)
        const path = `/api/v1/conversation/${id}/events/export`
        const { status, body } = await server.requestJson<string>('GET', path)
        expect(status).toBe(200)
        // Not `toBe`: it takes minutes to print a difference of megabytes.
        expect(body.length).toBe(exported.length)
        expect(body === exported).toBe(true)
      },
      240_000,
    )
  }
}
