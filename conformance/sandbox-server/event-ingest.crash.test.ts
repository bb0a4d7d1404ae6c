import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bash, finish, scripted } from '../support/agent-driver.ts'
import { lines, message } from '../support/agent-server-api.ts'
import { FlakyWay, type Weather } from '../support/fault-proxy.ts'
import { eventually, inside } from '../support/sandbox-server/crash-rounds.ts'
import { processesOf } from '../support/sandbox-server/process-resources.ts'
import { freePort, type SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'

const limitMs = 600_000
const mebibyte = 1024 * 1024

async function post<T>(box: SandboxInfo, path: string, body: unknown): Promise<T> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await inside(box, path, init)
  const text = await response.text()
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`)
  return JSON.parse(text)
}

/** Imports a log into the agent server and answers the conversation's id. */
async function imported(box: SandboxInfo, count: number, sizeBytes: number): Promise<string> {
  const begin = Date.parse('2026-01-01T00:00:00Z')
  const events = Array.from({ length: count }, (_, at) => {
    const time = new Date(begin + at * 1_000).toISOString().replace('Z', '000Z')
    return message(randomUUID(), time, `${at} ${'ä€😀x'.repeat(sizeBytes / 10)}`)
  })
  const response = await inside(box, '/api/conversations/import', {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body: lines(...events),
  })
  const text = await response.text()
  if (response.status !== 201) throw new Error(`the import answered ${response.status}: ${text}`)
  return JSON.parse(text).conversation_id
}

/** Creates a conversation on the agent server itself; with a script it begins to play it. */
async function created(box: SandboxInfo, script?: readonly unknown[]): Promise<string> {
  const { working_dir } = box
  const request = {
    workspace: { working_dir },
    autotitle: false,
    agent: { kind: 'Agent', tools: [{ name: 'terminal' }], llm: scripted(script ?? []) },
    ...(script === undefined ? {} : { initial_message: { content: 'Begin.' } }),
  }
  return (await post<{ id: string }>(box, '/api/conversations', request)).id
}

/** Writes messages into a conversation until the work is over; answers how many. */
async function writing(box: SandboxInfo, ids: readonly string[], work: () => Promise<void>): Promise<number> {
  let isOver = false
  let count = 0
  const write = async (id: string) => {
    for (let at = 0; !isOver; at++, count++) {
      await post(box, `/api/conversations/${id}/events`, {
        content: `${at} ${'€'.repeat(at % 500)}`,
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

async function exported(box: SandboxInfo, id: string): Promise<string> {
  return await (await inside(box, `/api/conversations/${id}/export`)).text()
}

/** Waits until the logs of both sides are the same, byte for byte. */
async function areEqual(server: SandboxServer, box: SandboxInfo, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await eventually(
      server,
      async () => {
        const count = async (path: string, fetch: (path: string) => Promise<Response>) =>
          Number(await (await fetch(path)).text())
        const there = await count(`/api/conversations/${id}/events/count`, (path) => inside(box, path))
        const here = await count(`/api/v1/conversation/${id}/events/count`, (path) => server.fetch(path))
        expect(here).toBe(there)
      },
      240_000,
    )
    const { status, body } = await server.call<string>('GET', `/api/v1/conversation/${id}/events/export`)
    expect(status).toBe(200)
    const there = await exported(box, id)
    // Not `toBe`: a difference of megabytes takes minutes to be shown.
    expect(body.length).toBe(there.length)
    expect(body === there).toBe(true)
  }
}

/** Bytes of memory of the agent server of a sandbox: now, and the most that there were. */
async function memoryOf(server: SandboxServer, box: SandboxInfo): Promise<{ now: number; most: number }> {
  const found = await processesOf(join(server.data, 'sandboxes', box.id))
  const agent = found.find(({ command }) => command.startsWith(process.execPath))
  const status = await readFile(`/proc/${agent?.pid}/status`, 'utf8')
  const kibibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
  return { now: kibibytes('VmRSS') * 1024, most: kibibytes('VmHWM') * 1024 }
}

test(
  'killed, stopped and started again while events come home, the server has every log in the end',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.running()
    const runs = [
      await created(box, [...Array.from({ length: 8 }, (_, n) => bash(`sleep 0.3; echo ${n}`)), finish()]),
      await created(box),
      await created(box),
    ]
    const logs: string[] = []
    const count = await writing(box, runs.slice(1), async () => {
      logs.push(await imported(box, 3_000, 200))
      for (let round = 0; round < 4; round++) {
        await sleep(Math.random() * 800)
        await server.stop(round === 3 ? 'SIGTERM' : 'SIGKILL')
        if (round === 1) logs.push(await imported(box, 2_000, 200))
        await server.start()
      }
      await sleep(300)
      server.signal('SIGSTOP')
      logs.push(await imported(box, 1_000, 200))
      await sleep(3_000)
      server.signal('SIGCONT')
    })
    expect(count).toBeGreaterThan(50)
    await areEqual(server, box, [...runs, ...logs])
  },
  limitMs,
)

test(
  'a way home that drops, cuts, delays and refuses loses nothing and brings nothing twice',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.running()
    await server.stop()
    // It lives elsewhere from now on, and what the sandbox knows as its address is the flaky way.
    const port = await freePort()
    await using way = await FlakyWay.open(server.port, () => `http://127.0.0.1:${port}`)
    const weathers: Weather[] = [
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
    // Each comes for sure; in between it is clear half of the time.
    way.weather = () => (turn++ % 2 === 0 ? (weathers[(turn >> 1) % weathers.length] ?? 'clear') : 'clear')
    await server.moveTo(port)
    const runs = [
      await created(box, [...Array.from({ length: 6 }, (_, n) => bash(`sleep 0.2; echo ${n}`)), finish()]),
      await created(box),
    ]
    const logs: string[] = []
    await writing(box, runs.slice(1), async () => {
      logs.push(await imported(box, 2_000, 300), await imported(box, 1_500, 2_000))
      await eventually(
        server,
        () => expect([...way.seen.keys()].sort()).toEqual([...weathers, 'clear'].sort()),
        240_000,
      )
    })
    await areEqual(server, box, [...runs, ...logs])
    way.weather = () => 'clear'
  },
  limitMs,
)

test(
  'what is far behind while nobody listens does not fill the memory of the agent server',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.running()
    // Logs like those that follow, so that what they cost by themselves is not counted.
    const begun: string[] = []
    for (let count = 0; count < 2; count++) begun.push(await imported(box, 4_000, 4_000))
    await areEqual(server, box, begun)
    const before = await memoryOf(server, box)
    await server.stop('SIGKILL')
    const runs = [await created(box), await created(box)]
    const logs: string[] = []
    await writing(box, runs, async () => {
      for (let round = 0; round < 12; round++) logs.push(await imported(box, 4_000, 4_000))
      await sleep(5_000)
    })
    await server.start()
    await areEqual(server, box, [...runs, ...logs])
    const after = await memoryOf(server, box)
    // More than 190 MiB were behind; caches, and what waits for the garbage collector, may grow.
    expect(after.most - before.most).toBeLessThan(160 * mebibyte)
  },
  limitMs,
)

test(
  'a conversation that lived and ended while the server was down comes home with its owner',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.running()
    await server.stop('SIGKILL')
    const id = await created(box, [bash('echo alone'), finish('Alone.')])
    await (await inside(box, `/api/conversations/${id}/events/stream?until=idle`)).text()
    const removed = await created(box, [finish()])
    await (await inside(box, `/api/conversations/${removed}/events/stream?until=idle`)).text()
    await inside(box, `/api/conversations/${removed}`, { method: 'DELETE' })
    await server.start()
    await areEqual(server, box, [id])
    const { body } = await server.call<{ items: { id: string }[] }>('GET', '/api/v1/app-conversations/search')
    expect(body.items).toMatchObject([
      {
        id: id.replaceAll('-', ''),
        created_by_user_id: 'admin',
        sandbox_id: box.id,
        execution_status: 'finished',
      },
    ])
    // Its history stays when its sandbox goes.
    const text = await exported(box, id)
    await server.call('DELETE', `/api/v1/sandboxes/${box.id}`)
    await server.untilGone(box.id)
    expect((await server.call('GET', `/api/v1/conversation/${id}/events/export`)).body).toBe(text)
  },
  limitMs,
)

test(
  'the key of another sandbox writes nothing into a conversation, whoever owns it',
  async () => {
    await using server = await SandboxServer.open()
    const { body: user } = await server.call<{ id: string }>('POST', '/api/admin/users', { name: 'Ann' })
    const { body: made } = await server.call<{ key: string }>('POST', `/api/admin/users/${user.id}/keys`, {
      name: 'of Ann',
    })
    const box = await server.running()
    const own = await server.running()
    const asAnn = { headers: { authorization: `Bearer ${made.key}` } }
    const { body: started } = await server.call<SandboxInfo>('POST', '/api/v1/sandboxes', undefined, asAnn)
    let foreign: SandboxInfo | undefined
    await eventually(server, async () => {
      const { body } = await server.call<SandboxInfo[]>(
        'GET',
        `/api/v1/sandboxes?id=${started.id}`,
        undefined,
        asAnn,
      )
      foreign = body[0]
      expect(foreign?.status).toBe('RUNNING')
    })
    const id = await imported(box, 20, 100)
    await areEqual(server, box, [id])
    const text = await exported(box, id)
    const line = message(randomUUID(), '2026-01-02T00:00:00.000000Z', 'forged')
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
        expect((await server.call('POST', '/api/v1/webhooks/conversations', info, { headers })).status).toBe(
          401,
        )
      }
    }
    expect((await server.call('GET', `/api/v1/conversation/${id}/events/export`)).body).toBe(text)
    const { body } = await server.call<{ title: string }[]>('GET', `/api/v1/app-conversations?ids=${id}`)
    expect(body[0]?.title).not.toBe('forged')
    // Neither does one whose sandbox is gone, and nobody else sees the history.
    await server.call('DELETE', `/api/v1/sandboxes/${box.id}`)
    const late = {
      method: 'POST',
      body: `[${line}]`,
      headers: { 'x-session-api-key': String(box.session_api_key) },
    }
    expect((await server.fetch(`/api/v1/webhooks/events/${id}`, late)).status).toBe(401)
    expect(
      (await server.call('GET', `/api/v1/conversation/${id}/events/export`, undefined, asAnn)).body,
    ).toBe('')
    await server.call('DELETE', `/api/v1/sandboxes/${started.id}`, undefined, asAnn)
  },
  limitMs,
)
