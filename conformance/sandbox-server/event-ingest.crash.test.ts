import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bashStep, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { messageLine, toJsonLines } from '../support/agent-server-api.ts'
import { type Fault, FaultProxy } from '../support/fault-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { fetchInSandbox, retryUntil } from '../support/sandbox-server/crash-rounds.ts'
import { findProcesses } from '../support/sandbox-server/process-resources.ts'
import { type SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'

const limitMs = 600_000
const mebibyte = 1024 * 1024

async function postInSandbox<T>(sandbox: SandboxInfo, path: string, body: unknown): Promise<T> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetchInSandbox(sandbox, path, init)
  const text = await response.text()
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`)
  return JSON.parse(text)
}

/** Imports a log into the agent server and returns the conversation's id. */
async function importLog(sandbox: SandboxInfo, count: number, sizeBytes: number): Promise<string> {
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
async function createConversation(sandbox: SandboxInfo, script?: readonly unknown[]): Promise<string> {
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
async function writeMessagesDuring(
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

async function exportFromSandbox(sandbox: SandboxInfo, id: string): Promise<string> {
  return await (await fetchInSandbox(sandbox, `/api/conversations/${id}/export`)).text()
}

/** Waits until the logs of both sides are the same, byte for byte; runs may still add to them. */
async function waitForEqualLogs(
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

/** Memory of the agent server of a sandbox in bytes: now, and its peak. */
async function agentServerMemory(
  server: SandboxServer,
  sandbox: SandboxInfo,
): Promise<{ now: number; most: number }> {
  const processes = await findProcesses(join(server.data, 'sandboxes', sandbox.id))
  const agent = processes.find(({ command }) => command.startsWith(process.execPath))
  const status = await readFile(`/proc/${agent?.pid}/status`, 'utf8')
  const kibibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
  return { now: kibibytes('VmRSS') * 1024, most: kibibytes('VmHWM') * 1024 }
}

test(
  'after kills and restarts during event ingest the server has every log',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.direct(await server.startRunningSandbox())
    const runs = [
      await createConversation(box, [
        ...Array.from({ length: 8 }, (_, n) => bashStep(`sleep 0.3; echo ${n}`)),
        finishStep(),
      ]),
      await createConversation(box),
      await createConversation(box),
    ]
    const logs: string[] = []
    const count = await writeMessagesDuring(box, runs.slice(1), async () => {
      logs.push(await importLog(box, 3_000, 200))
      for (let round = 0; round < 4; round++) {
        await sleep(Math.random() * 800)
        await server.stop(round === 3 ? 'SIGTERM' : 'SIGKILL')
        if (round === 1) logs.push(await importLog(box, 2_000, 200))
        await server.start()
      }
      await sleep(300)
      server.signal('SIGSTOP')
      logs.push(await importLog(box, 1_000, 200))
      await sleep(3_000)
      server.signal('SIGCONT')
    })
    expect(count).toBeGreaterThan(50)
    await waitForEqualLogs(server, box, [...runs, ...logs])
  },
  limitMs,
)

test(
  'a connection that drops, cuts, delays and refuses requests loses no event and duplicates none',
  async () => {
    // On the network of the machine a sandbox reaches the server by its port.
    await using server = await SandboxServer.open({ env: { SLIPWAY_SANDBOX_NETWORK: 'shared' } })
    const box = await server.direct(await server.startRunningSandbox())
    await server.stop()
    // The server moves to another port, and the proxy that injects faults gets its address.
    const port = await freePort()
    await using way = await FaultProxy.open(server.port, () => `http://127.0.0.1:${port}`)
    const weathers: Fault[] = [
      'refuse',
      'cut-body',
      'lose-answer',
      'cut-answer',
      'error',
      'busy',
      'moved',
      'slow',
    ]
    let turn = 0
    // Each fault occurs; half of the requests in between have none.
    way.nextFault = () => (turn++ % 2 === 0 ? (weathers[(turn >> 1) % weathers.length] ?? 'clear') : 'clear')
    await server.moveTo(port)
    const runs = [
      await createConversation(box, [
        ...Array.from({ length: 6 }, (_, n) => bashStep(`sleep 0.2; echo ${n}`)),
        finishStep(),
      ]),
      await createConversation(box),
    ]
    const logs: string[] = []
    await writeMessagesDuring(box, runs.slice(1), async () => {
      logs.push(await importLog(box, 2_000, 300), await importLog(box, 1_500, 2_000))
      await retryUntil(
        server,
        () => expect([...way.faultCounts.keys()].sort()).toEqual([...weathers, 'clear'].sort()),
        240_000,
      )
    })
    await waitForEqualLogs(server, box, [...runs, ...logs])
    way.nextFault = () => 'clear'
  },
  limitMs,
)

test(
  'a long backlog without a receiver does not fill the memory of the agent server',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.direct(await server.startRunningSandbox())
    // Logs like the following ones, so that their own cost is not counted.
    const begun: string[] = []
    for (let count = 0; count < 2; count++) begun.push(await importLog(box, 4_000, 4_000))
    await waitForEqualLogs(server, box, begun)
    const before = await agentServerMemory(server, box)
    await server.stop('SIGKILL')
    const runs = [await createConversation(box), await createConversation(box)]
    const logs: string[] = []
    await writeMessagesDuring(box, runs, async () => {
      for (let round = 0; round < 12; round++) logs.push(await importLog(box, 4_000, 4_000))
      await sleep(5_000)
    })
    await server.start()
    await waitForEqualLogs(server, box, [...runs, ...logs])
    const after = await agentServerMemory(server, box)
    // The backlog is more than 190 MiB; caches and garbage may grow.
    expect(after.most - before.most).toBeLessThan(160 * mebibyte)
  },
  limitMs,
)

test(
  'a conversation that started and ended while the server was down is ingested with its owner',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.direct(await server.startRunningSandbox())
    await server.stop('SIGKILL')
    const id = await createConversation(box, [bashStep('echo alone'), finishStep('Alone.')])
    await (await fetchInSandbox(box, `/api/conversations/${id}/events/stream?until=idle`)).text()
    const removed = await createConversation(box, [finishStep()])
    await (await fetchInSandbox(box, `/api/conversations/${removed}/events/stream?until=idle`)).text()
    await fetchInSandbox(box, `/api/conversations/${removed}`, { method: 'DELETE' })
    await server.start()
    await waitForEqualLogs(server, box, [id])
    const { body } = await server.requestJson<{ items: { id: string }[] }>(
      'GET',
      '/api/v1/app-conversations/search',
    )
    expect(body.items).toMatchObject([
      {
        id: id.replaceAll('-', ''),
        created_by_user_id: 'admin',
        sandbox_id: box.id,
        execution_status: 'finished',
      },
    ])
    // Its history outlives its sandbox.
    const text = await exportFromSandbox(box, id)
    await server.requestJson('DELETE', `/api/v1/sandboxes/${box.id}`)
    await server.waitUntilGone(box.id)
    expect((await server.requestJson('GET', `/api/v1/conversation/${id}/events/export`)).body).toBe(text)
  },
  limitMs,
)

test(
  'the key of another sandbox cannot write into a conversation, also of the same owner',
  async () => {
    await using server = await SandboxServer.open()
    const { body: user } = await server.requestJson<{ id: string }>('POST', '/api/admin/users', {
      name: 'Ann',
    })
    const { body: made } = await server.requestJson<{ key: string }>(
      'POST',
      `/api/admin/users/${user.id}/keys`,
      {
        name: 'of Ann',
      },
    )
    const box = await server.startRunningSandbox()
    const own = await server.startRunningSandbox()
    const asAnn = { headers: { authorization: `Bearer ${made.key}` } }
    const { body: started } = await server.requestJson<SandboxInfo>(
      'POST',
      '/api/v1/sandboxes',
      undefined,
      asAnn,
    )
    let foreign: SandboxInfo | undefined
    await retryUntil(server, async () => {
      const { body } = await server.requestJson<SandboxInfo[]>(
        'GET',
        `/api/v1/sandboxes?id=${started.id}`,
        undefined,
        asAnn,
      )
      foreign = body[0]
      expect(foreign?.status).toBe('RUNNING')
    })
    const id = await importLog(box, 20, 100)
    await waitForEqualLogs(server, box, [id])
    const text = await exportFromSandbox(box, id)
    const line = messageLine(randomUUID(), '2026-01-02T00:00:00.000000Z', 'forged')
    for (const key of [
      own.session_api_key,
      foreign?.session_api_key,
      made.key,
      server.key,
      'sk-nobody',
      '',
    ]) {
      const headers = { 'x-session-api-key': String(key) }
      for (const after of [{}, { 'x-slipway-after': '20' }, { 'x-slipway-after': '0' }]) {
        const events = {
          method: 'POST',
          body: `[${line}]`,
          headers: { ...headers, ...after, 'content-type': 'application/json' },
        }
        expect((await server.fetch(`/api/v1/webhooks/events/${id}`, events)).status).toBe(401)
      }
      for (const info of [
        { id, title: 'forged' },
        { id, execution_status: 'deleting' },
      ]) {
        expect(
          (await server.requestJson('POST', '/api/v1/webhooks/conversations', info, { headers })).status,
        ).toBe(401)
      }
    }
    expect((await server.requestJson('GET', `/api/v1/conversation/${id}/events/export`)).body).toBe(text)
    const { body } = await server.requestJson<{ title: string }[]>(
      'GET',
      `/api/v1/app-conversations?ids=${id}`,
    )
    expect(body[0]?.title).not.toBe('forged')
    // A deleted sandbox cannot write either, and no other user reads the history.
    await server.requestJson('DELETE', `/api/v1/sandboxes/${box.id}`)
    const late = {
      method: 'POST',
      body: `[${line}]`,
      headers: { 'x-session-api-key': String(box.session_api_key) },
    }
    expect((await server.fetch(`/api/v1/webhooks/events/${id}`, late)).status).toBe(401)
    expect(
      (await server.requestJson('GET', `/api/v1/conversation/${id}/events/export`, undefined, asAnn)).body,
    ).toBe('')
    await server.requestJson('DELETE', `/api/v1/sandboxes/${started.id}`, undefined, asAnn)
  },
  limitMs,
)
