import { must } from '@slipway/protocol'
import {
  type BenchContext,
  conversationId,
  startAgentServer,
  startFloor,
  withStorage,
} from '../support/fixtures.ts'
import { type HelperProcess, type Server, startHelper } from '../support/processes.ts'
import { atLeast, type MeasuredPair, type ResultRow } from '../support/result-table.ts'
import type { SubscribeRequest } from '../support/websocket-subscribers.ts'

const text = 'a line of what was seen and done '.repeat(24)

/**
 * One conversation to a thousand WebSockets, an event of about 1 kB at a time: it is posted, durable and
 * delivered to all before the next. Deliveries per CPU-second of the server, all of its work counted: at
 * least 0.6 of a bare `ws` server that receives the same bytes by POST and calls `client.send` for each
 * socket.
 */
export async function fanOut(bench: BenchContext): Promise<ResultRow[]> {
  const size = bench.isQuick
    ? { sockets: 20, events: 10, rounds: 1 }
    : { sockets: 1000, events: 200, rounds: 4 }
  const plain: MeasuredPair[] = []
  const resumable: MeasuredPair[] = []
  for (let round = 0; round < size.rounds; round++) {
    const data = await bench.directory()
    await withStorage(data, (storage) => storage.conversations.create({ id: conversationId }))
    const path = `/sockets/events/${conversationId}`
    const post = { path: `/api/conversations/${conversationId}/events`, body: message }
    const ours = await measureDeliveries(await startAgentServer(bench, data), {
      ...size,
      path,
      greeting: 1,
      post,
    })
    const after = `${path}?after=${size.events + warmUp}`
    const positioned = await measureDeliveries(await startAgentServer(bench, data), {
      ...size,
      path: after,
      greeting: 0,
      post,
    })
    const sent = await readStoredEvent(data)
    const floorPost = { path: '/', body: sent }
    const floor = await measureDeliveries(await startFloor('broadcast'), {
      ...size,
      path: '/',
      greeting: 0,
      post: floorPost,
    })
    plain.push({ ours, floor })
    resumable.push({ ours: positioned, floor })
  }
  const unit = 'deliveries per CPU-second'
  const floorName = 'a bare `ws` server that sends the same bytes'
  return [
    atLeast(`${size.sockets} sockets, events`, unit, { floorName, pairs: plain }, 0.6),
    atLeast(`${size.sockets} sockets, events with positions`, unit, { floorName, pairs: resumable }, 0.6),
  ]
}

const message = Buffer.from(JSON.stringify({ role: 'user', content: [{ type: 'text', text }], run: false }))
const warmUp = 10

interface Delivery {
  readonly sockets: number
  readonly events: number
  readonly path: string
  /** Frames that a socket receives when it opens. */
  readonly greeting: number
  readonly post: { readonly path: string; readonly body: Buffer<ArrayBuffer> }
}

/** Deliveries per CPU-second of a server; stops the server. */
async function measureDeliveries(
  startedServer: Server,
  { sockets, events, path, greeting, post }: Delivery,
): Promise<number> {
  await using server = startedServer
  await using subscribers = startHelper<SubscribeRequest, undefined>('./websocket-subscribers.ts')
  await subscribers.ask({ do: 'open', port: server.port, path, count: sockets, greeting })
  const send = (count: number) => postAndAwait(server, subscribers, post, count)
  await send(warmUp)
  const before = server.cpuSeconds()
  await send(events)
  return (sockets * events) / (server.cpuSeconds() - before)
}

async function postAndAwait(
  server: Server,
  subscribers: HelperProcess<SubscribeRequest, undefined>,
  post: Delivery['post'],
  count: number,
): Promise<void> {
  for (let i = 0; i < count; i++) {
    const response = await fetch(`http://127.0.0.1:${server.port}${post.path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: post.body,
    })
    if (response.status !== 200)
      throw new Error(`POST ${post.path}: ${response.status} ${await response.text()}`)
    await response.arrayBuffer()
    await subscribers.ask({ do: 'wait', frames: 1 })
  }
}

/** The bytes of one delivered event. */
async function readStoredEvent(data: string): Promise<Buffer<ArrayBuffer>> {
  const [event] = await withStorage(data, (storage) => storage.log.read(conversationId, 0, 1))
  return Buffer.from(must(event, 'an event').bytes)
}
