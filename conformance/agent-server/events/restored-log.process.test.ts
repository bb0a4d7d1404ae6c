import { randomUUID } from 'node:crypto'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, follow } from '@slipway/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'

/** A server whose whole data directory was replaced by an older copy, and that has gone on since. */

const common = 120
const lost = 30
let server: OwnAgentServer
let base: string
let id: string
/** Cursors of events that the restored log has, and of events that it has not. */
const kept = { sse: '', socket: '', page: '' }
const gone = { sse: '', socket: '', page: '' }
const webhooks: { path: string; headers: IncomingHttpHeaders; body: string }[] = []
/** Positions that the receiver has. */
let received = new Map<number, string>()
const receiver = createServer(async (request, response) => {
  const body = await text(request)
  const { headers, url: path = '' } = request
  webhooks.push({ path, headers, body })
  const resync = headers['x-slipway-resync']
  if (resync !== undefined)
    received = new Map([...received].filter(([position]) => position <= Number(resync)))
  if (!path.includes('/events/')) return void response.end('{}')
  const after = Number(headers['x-slipway-after'])
  if (after !== received.size)
    return void response.writeHead(409).end(JSON.stringify({ head: received.size, cursor: lastCursor }))
  for (const [at, event] of JSON.parse(body).entries()) received.set(after + at + 1, event.id)
  response.end('{}')
})
/** What the receiver says it has. */
let lastCursor: string | undefined
/** How many requests the receiver had before the restored server started. */
let restoredAt = 0

beforeAll(async () => {
  receiver.listen(0, '127.0.0.1')
  await new Promise((done) => receiver.once('listening', done))
  const hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  base = await mkdtemp(join(tmpdir(), 'slipway-restored-'))
  server = await OwnAgentServer.open({
    env: { SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: hook, flush_delay: 0.01, retry_delay: 0.05 }]) },
  })
  id = await server.api.import(lines('common', common))
  await waitUntil(() => received.size === common)
  Object.assign(kept, await readCursors(common))
  await server.stop()
  await cp(server.data, join(base, 'backup'), { recursive: true })
  await server.start()
  await server.api.import(lines('lost', lost, id))
  await waitUntil(() => received.size === common + lost)
  Object.assign(gone, await readCursors(common + lost))
  lastCursor = gone.sse
  await server.stop()
  await rm(server.data, { recursive: true })
  await cp(join(base, 'backup'), server.data, { recursive: true })
  restoredAt = webhooks.length
  await server.start()
  await server.api.import(lines('later', lost + 10, id))
}, 120_000)

afterAll(async () => {
  receiver.closeAllConnections()
  receiver.close()
  await server[Symbol.asyncDispose]()
  await rm(base, { recursive: true })
})

/** Lines of an import, into an existing conversation where one is named. */
function lines(name: string, count: number, conversation?: string): string {
  const events = Array.from({ length: count }, (_, n) =>
    messageLine(`${name}-${n}-${randomUUID()}`, '2026-01-01T00:00:00Z', name),
  )
  return toJsonLines(...(conversation === undefined ? [] : [{ conversation_id: conversation }]), ...events)
}

async function waitUntil(check: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !check(); await sleep(20))
    if (Date.now() > deadline) throw new Error('waited for a minute')
}

async function readStream(path: string, headers: Record<string, string> = {}) {
  const response = await server.api.fetch(`/api/conversations/${id}/events/stream${path}`, { headers })
  const blocks = (await response.text()).split('\n\n').filter((block) => /^data: /m.test(block))
  return blocks.map((block) => ({
    id: /^id: (.*)$/m.exec(block)?.[1],
    name: /^event: (.*)$/m.exec(block)?.[1],
    data: JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? 'null'),
  }))
}

// biome-ignore lint/suspicious/noExplicitAny: frames of the wire
async function readFrames(after: string, count: number): Promise<any[]> {
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/sockets/events/${id}?after=${after}`)
  const frames: unknown[] = []
  const closed = new Promise((done) => socket.on('close', done))
  socket.on('error', () => {})
  socket.on('message', (data) => frames.push(JSON.parse(String(data))))
  await waitUntil(() => frames.length >= count)
  socket.terminate()
  await closed
  return frames
}

/** The cursors of a reader that has everything up to a position. */
async function readCursors(position: number): Promise<typeof kept> {
  const events = await readStream('?until=idle')
  const frames = await readFrames(String(position - 1), 1)
  const page = await server.api.search(id, { limit: '1', sort_order: 'TIMESTAMP_DESC' })
  const before = await server.api.search(id, { limit: '100', sort_order: 'TIMESTAMP' })
  return {
    sse: String(events.at(position - 1)?.id),
    socket: String(frames[0].cursor),
    page: String(position > common ? page.next_page_id : before.next_page_id),
  }
}

const head = common + lost + 10

test('readers of what the restored log has continue where they were', async () => {
  expect(kept.sse).toMatch(/^120\.[0-9a-f]{8}$/)
  expect(kept.socket).toBe(kept.sse)
  const events = await readStream('?until=idle', { 'last-event-id': kept.sse })
  expect(events.map(({ name }) => name)).not.toContain('resync')
  expect(events).toHaveLength(lost + 10)
  const [first] = await readFrames(kept.socket, 1)
  expect(first).toMatchObject({ position: common + 1 })
  expect((await server.api.search(id, { page_id: kept.page })).items[0]?.id).toMatch(/^common-100-/)
})

test('a stream from a cursor of the lost events begins with a resync, and then sends everything', async () => {
  for (const events of [
    await readStream('?until=idle', { 'last-event-id': gone.sse }),
    await readStream(`?until=idle&after=${gone.sse}`),
  ]) {
    expect(events[0]).toMatchObject({ name: 'resync', id: '0', data: { after: 0, head, cursor: gone.sse } })
    expect(events.slice(1).map(({ id }) => Number.parseInt(String(id), 10))).toEqual(
      Array.from({ length: head }, (_, at) => at + 1),
    )
  }
  // A bare position is accepted as before: it names no history.
  expect(await readStream(`?until=idle&after=${common + lost}`)).toHaveLength(10)
})

test('a socket from a cursor of the lost events begins with a resync frame, and then sends everything', async () => {
  const frames = await readFrames(gone.socket, head + 1)
  expect(frames[0]).toMatchObject({ resync: { after: 0, head, cursor: gone.socket } })
  expect(frames.slice(1).map(({ position }) => position)).toEqual(
    Array.from({ length: head }, (_, at) => at + 1),
  )
})

test('a page from a page id of a lost event is a conflict that says where to start', async () => {
  const answer = await server.api.requestJson(`/api/conversations/${id}/events/search?page_id=${gone.page}`)
  expect(answer).toMatchObject({ status: 409, body: { detail: { code: 'resync', after: 0, head } } })
})

test('the client is told, and reads the log again', async () => {
  const client = new Client({ url: server.url })
  await expect(follow(client, id, { after: gone.sse, until: 'idle' }).next()).rejects.toMatchObject({
    name: 'ResyncError',
  })
  const resyncs: number[] = []
  const onResync = ({ after }: { readonly after: number }) => void resyncs.push(after)
  const items = await Array.fromAsync(follow(client, id, { after: gone.sse, until: 'idle', onResync }))
  expect(resyncs).toEqual([0])
  expect(items.map(({ position }) => position)).toEqual(Array.from({ length: head }, (_, at) => at + 1))
})

test('a webhook receiver is told, and gets the log again', async () => {
  const stored = (await server.api.export(id)).toString().trimEnd().split('\n')
  await waitUntil(() => received.size === head)
  expect([...received.values()]).toEqual(stored.map((line) => JSON.parse(line).id))
  expect(webhooks.slice(restoredAt).some(({ headers }) => headers['x-slipway-resync'] === '0')).toBe(true)
})

test('a fork has the history of its source up to its first own event', async () => {
  const forked = await server.api.sendJson('POST', `/api/conversations/${id}/fork`, {})
  expect(forked.status).toBe(201)
  const { id: fork } = forked.body as { id: string }
  const read = async (after: string) =>
    await (
      await server.api.fetch(`/api/conversations/${fork}/events/stream?until=idle&after=${after}`)
    ).text()
  expect(await read(gone.sse)).toContain('event: resync')
  expect(await read(kept.sse)).not.toContain('event: resync')
})
