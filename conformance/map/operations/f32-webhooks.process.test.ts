import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'vitest'
import type { ApiEvent } from '../../support/agent-server-api.ts'
import { endFamily, mapCase, missing, untested } from '../frame.ts'
import { finishReply, type Json, OwnMapServer, openMapServer, openModel, waitFor } from '../map-server.ts'

const own = { hasOwnServer: true }
const key = 'map-key-2'
const map = openMapServer()

interface Delivery {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: unknown
}

/** A receiver that records requests; the statuses of its first answers can be chosen. */
class Receiver implements AsyncDisposable {
  readonly deliveries: Delivery[] = []
  readonly statuses: number[] = []
  readonly #server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request))
    this.deliveries.push({ path: request.url ?? '', headers: request.headers, body })
    response.writeHead(this.statuses.shift() ?? 200).end('{}')
  })

  static async open(): Promise<Receiver> {
    const receiver = new Receiver()
    receiver.#server.listen(0, '127.0.0.1')
    await once(receiver.#server, 'listening')
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** A server that sends to this receiver. */
  async openServer(spec: object = {}, env: Readonly<Record<string, string>> = {}): Promise<OwnMapServer> {
    const webhook = { base_url: this.url, flush_delay: 0.2, retry_delay: 0.05, ...spec }
    return await OwnMapServer.open({ key, env: { OH_WEBHOOKS: JSON.stringify([webhook]), ...env } })
  }

  batches(id: string): ApiEvent[][] {
    const path = `/events/${id.replaceAll('-', '')}`
    return this.deliveries.filter((one) => one.path.endsWith(path)).map(({ body }) => body as ApiEvent[])
  }

  events(id: string): ApiEvent[] {
    return this.batches(id).flat()
  }

  infos(id: string): Json[] {
    return this.deliveries
      .filter((one) => one.path.endsWith('/conversations'))
      .map(({ body }) => body as Json)
      .filter((info) => info.id === id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }
}

const waitForEvents = (receiver: Receiver, id: string, isEnough: (events: ApiEvent[]) => boolean) =>
  waitFor(async () => receiver.events(id), isEnough)
/** For cases that are missing: they do not wait long. */
const expectSoon = (isTrue: () => boolean) => expect.poll(isTrue, { timeout: 5000 }).toBe(true)
const isFinished = (events: readonly ApiEvent[]) =>
  events.some((event) => event.key === 'execution_status' && event.value === 'finished')
/** Runs a conversation to its end; returns its id. */
async function run(server: OwnMapServer): Promise<string> {
  await using model = await openModel(finishReply())
  const { id } = await server.createConversation(model)
  await server.sendMessage(id, 'Go.', true)
  await server.waitForStatus(id, 'finished')
  return id
}

mapCase(
  'F32.events-post',
  'the events of a run arrive in arrays below the id without dashes',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer()
    const id = await run(server)
    const events = await waitForEvents(receiver, id, isFinished)
    for (const batch of receiver.batches(id)) expect(Array.isArray(batch)).toBe(true)
    const ids = events.map((event) => event.id)
    for (const stored of await server.getEvents(id)) expect(ids).toContain(stored.id)
  },
  own,
)
mapCase(
  'F32.events-session-key',
  'every request has the key of the server and is JSON',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer()
    const id = await run(server)
    await waitForEvents(receiver, id, isFinished)
    for (const { headers } of receiver.deliveries)
      expect(headers).toMatchObject({ 'x-session-api-key': key, 'content-type': 'application/json' })
  },
  own,
)
missing(
  'F32.events-full-state',
  'a snapshot of the state is sent when a conversation is attached',
  'snapshots of the state on webhooks',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer()
    const id = await run(server)
    await waitForEvents(receiver, id, isFinished)
    expect(receiver.events(id).some((event) => event.key === 'full_state')).toBe(true)
  },
  own,
)
mapCase(
  'F32.events-no-deltas',
  'no deltas are sent',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer()
    await using model = await openModel({ text: 'Word by word.' })
    const { id } = await server.createConversation(undefined, {
      agent: { kind: 'Agent', llm: model.llm('chat', { stream: true }), tools: [] },
    })
    await server.sendMessage(id, 'Go.', true)
    await waitForEvents(receiver, id, isFinished)
    expect(receiver.events(id).filter(({ kind }) => kind === 'StreamingDeltaEvent')).toEqual([])
  },
  own,
)
mapCase(
  'F32.conversation-created',
  'a new conversation is posted once',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer()
    const { id } = await server.createConversation()
    await waitFor(
      async () => receiver.infos(id),
      (infos) => infos.length > 0,
    )
    expect(receiver.infos(id)).toMatchObject([{ id, execution_status: 'idle' }])
  },
  own,
)
missing(
  'F32.conversation-lifecycle',
  'pause, interrupt, update and delete are posted each',
  'a post for each of pause, interrupt, update and delete',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer()
    const { id } = await server.createConversation()
    const next = async (count: number, shape: object) => {
      await expectSoon(() => receiver.infos(id).length >= count)
      expect(receiver.infos(id).at(-1), `post ${count}`).toMatchObject(shape)
    }
    await next(1, { execution_status: 'idle' })
    await server.post(id, 'pause')
    await next(2, { execution_status: 'paused' })
    await server.post(id, 'interrupt')
    await next(3, { execution_status: 'paused' })
    await server.requestOrThrow('PATCH', `/api/conversations/${id}`, { body: { title: 'Map title' } })
    await next(4, { title: 'Map title' })
    await server.requestOrThrow('DELETE', `/api/conversations/${id}`)
    await next(5, { execution_status: 'deleting', title: 'Map title' })
  },
  own,
)
mapCase(
  'F32.custom-headers',
  'headers and a path of the receiver count for both kinds of posts',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer({
      base_url: `${receiver.url}/prefix`,
      headers: { 'x-map': 'custom-header-value' },
    })
    const id = await run(server)
    await waitForEvents(receiver, id, isFinished)
    for (const { path, headers } of receiver.deliveries)
      expect([path, headers['x-map']]).toEqual([expect.stringMatching(/^\/prefix\//), 'custom-header-value'])
  },
  own,
)
missing(
  'F32.buffer-size',
  'a full buffer is sent at once',
  'a full buffer is sent at once, whatever the delay',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer({ event_buffer_size: 1, flush_delay: 3600 })
    const id = await run(server)
    await expectSoon(() => isFinished(receiver.events(id)))
  },
  own,
)
missing(
  'F32.buffer-stranded',
  'events that arrive during a post are sent when the buffer is full again',
  'a full buffer is sent at once, whatever the delay',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer({ event_buffer_size: 2, flush_delay: 3600 })
    const id = await run(server)
    const stored = (await server.getEvents(id)).length
    await expectSoon(() => receiver.events(id).length >= stored - 1)
  },
  own,
)
mapCase(
  'F32.flush-delay',
  'a part of a buffer is sent after the delay',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer({ event_buffer_size: 1000, flush_delay: 0.5 })
    await waitForEvents(receiver, await run(server), isFinished)
  },
  own,
)
mapCase('F32.webhook-spec-docs', 'the contract describes the members of a receiver', async () => {
  const text = JSON.stringify(await map.requestOrThrow('GET', '/openapi.json'))
  expect(text).toContain('WebhookSpec')
  expect(text).toContain('flush_delay')
})
missing(
  'F32.flush-on-close',
  'a delete and a stop send what is queued',
  'a delete sends what is queued before it answers',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer({ event_buffer_size: 1000, flush_delay: 3600 })
    const [first, second] = [await run(server), await run(server)]
    await server.requestOrThrow('DELETE', `/api/conversations/${first}`)
    expect(isFinished(receiver.events(first))).toBe(true)
    await server.stop()
    expect(isFinished(receiver.events(second))).toBe(true)
  },
  own,
)
missing(
  'F32.backpressure',
  'limits of a request and of the queue',
  'max_batch_bytes, max_queue_size, max_queue_bytes',
)
mapCase(
  'F32.retry',
  'a failing receiver is asked again',
  async () => {
    await using receiver = await Receiver.open()
    receiver.statuses.push(500, 500)
    await using server = await receiver.openServer({ num_retries: 3 })
    await waitForEvents(receiver, await run(server), isFinished)
  },
  own,
)
mapCase(
  'F32.requeue',
  'a batch that failed in all attempts is sent with the next one',
  async () => {
    await using receiver = await Receiver.open()
    receiver.statuses.push(500, 500, 500, 500)
    await using server = await receiver.openServer({ num_retries: 0, event_buffer_size: 1 })
    const id = await run(server)
    const stored = (await server.getEvents(id)).map((event) => event.id)
    await waitForEvents(receiver, id, (events) => {
      const ids = new Set(events.map((event) => event.id))
      return stored.every((one) => ids.has(one))
    })
  },
  own,
)
untested('F32.slow-receiver', 'a slow receiver keeps no finished conversation from a new run')
mapCase(
  'F32.env-config',
  'numbered variables describe a receiver',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await OwnMapServer.open({
      key,
      env: { OH_WEBHOOKS_0_BASE_URL: receiver.url, OH_WEBHOOKS_0_EVENT_BUFFER_SIZE: '1' },
    })
    await waitForEvents(receiver, await run(server), isFinished)
  },
  own,
)
const noTelemetry = 'product telemetry: the server sends nothing about its use'
mapCase(
  'F32.telemetry-off-by-default',
  'without consent nothing is sent',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await OwnMapServer.open({
      key,
      env: { OH_TELEMETRY_EXPORTER: 'http', OH_TELEMETRY_HTTP_ENDPOINT: receiver.url },
    })
    await run(server)
    await server.stop()
    expect(receiver.deliveries).toEqual([])
  },
  own,
)
for (const [id, promise] of [
  ['F32.telemetry-lifecycle', 'start and stop are events'],
  ['F32.telemetry-conversation', 'a run is events without its texts'],
  ['F32.telemetry-request-failed', 'a failed request is an event without its path'],
  ['F32.telemetry-conversation-failed', 'a failed run is an event without its texts'],
  ['F32.telemetry-usage-buckets', 'usage in buckets'],
  ['F32.telemetry-consent-settings', 'consent in the settings'],
  ['F32.telemetry-env-override', 'a variable wins over the settings'],
  ['F32.telemetry-kill-switch', 'DO_NOT_TRACK wins over all'],
  ['F32.telemetry-salt-and-kind', 'pseudonyms by a salt'],
  ['F32.telemetry-salt-docs', 'the contract describes the salt'],
  ['F32.deferred-init-flag', 'events of a late configuration say so'],
] as const)
  missing(id, promise, noTelemetry)
untested('F32.deferred-init', 'receivers that arrive with a late configuration')

endFamily('F32', 30)
