import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bashStep, finishStep } from '../support/agent-driver.ts'
import { messageLine } from '../support/agent-server-api.ts'
import { type Fault, FaultProxy } from '../support/fault-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { fetchInSandbox, retryUntil } from '../support/sandbox-server/crash-rounds.ts'
import {
  createConversation,
  exportFromSandbox,
  importLog,
  waitForEqualLogs,
  writeMessagesDuring,
} from '../support/sandbox-server/event-logs.ts'
import { type SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'

const limitMs = 600_000

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
