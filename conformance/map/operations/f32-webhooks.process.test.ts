import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { ApiEvent } from '../../support/agent-server-api.ts'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  finishReply,
  type Json,
  MapClient,
  OwnMapServer,
  type OwnMapServerOptions,
  openMapServer,
  openModel,
  waitFor,
} from '../map-server.ts'

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
  delayMs = 0
  readonly #server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request))
    this.deliveries.push({ path: request.url ?? '', headers: request.headers, body })
    await sleep(this.delayMs)
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
  async openServer(spec: object = {}, options: OwnMapServerOptions = {}): Promise<OwnMapServer> {
    const webhook = { base_url: this.url, flush_delay: 0.2, retry_delay: 0.05, ...spec }
    const env = { OH_WEBHOOKS: JSON.stringify([webhook]), ...options.env }
    return await OwnMapServer.open({ key, ...options, env })
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
differs(
  'F32.events-full-state',
  'a snapshot of the state is sent when a conversation is attached',
  'snapshots of the state on webhooks: receivers store what they get, so that they ask for them',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer()
    const id = await run(server)
    await waitForEvents(receiver, id, isFinished)
    const stored = new Set((await server.getEvents(id)).map((event) => event.id))
    expect(receiver.events(id).filter((event) => !stored.has(event.id))).toEqual([])
    expect(receiver.infos(id).at(-1)).toMatchObject({ id, agent: { llm: { api_key: null } } })
    await expectSnapshots()
  },
)
/** A receiver that wants snapshots gets one after a start and one after a run, and none is stored. */
async function expectSnapshots(): Promise<void> {
  await using receiver = await Receiver.open()
  await using server = await receiver.openServer({ full_state: true })
  await using model = await openModel(finishReply())
  const snapshots = (id: string) => receiver.events(id).filter(({ key }) => key === 'full_state')
  const statuses = (id: string) =>
    snapshots(id).map(({ value }) => (value as { execution_status: string }).execution_status)
  const { id } = await server.createConversation(undefined, {
    agent: { kind: 'Agent', llm: model.llm('chat', { api_key: 'map-provider-key-12' }), tools: [] },
  })
  await expect.poll(() => statuses(id)).toEqual(['idle'])
  await server.sendMessage(id, 'Go.', true)
  await server.waitForStatus(id, 'finished')
  await expect.poll(() => statuses(id).at(-1), { timeout: 5000 }).toBe('finished')
  expect(snapshots(id)[0]).toMatchObject({
    kind: 'ConversationStateUpdateEvent',
    source: 'environment',
    value: { id, agent: { llm: { api_key: '**********' } } },
  })
  expect(JSON.stringify(receiver.deliveries)).not.toContain('map-provider-key-12')
  const stored = await server.getEvents(id)
  expect(stored.filter((event) => event.key === 'full_state')).toEqual([])
  const sent = receiver.events(id).map((event) => event.id)
  for (const event of stored) expect(sent).toContain(event.id)
  const before = snapshots(id).length
  await server.restart()
  await server.sendMessage(id, 'Again.')
  await expect.poll(() => snapshots(id).length, { timeout: 5000 }).toBe(before + 1)
}
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
mapCase(
  'F32.conversation-lifecycle',
  'pause, interrupt, update and delete are posted each',
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
mapCase(
  'F32.buffer-size',
  'a full buffer is sent at once',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer({ event_buffer_size: 1, flush_delay: 3600 })
    const id = await run(server)
    await expectSoon(() => isFinished(receiver.events(id)))
  },
  own,
)
mapCase(
  'F32.buffer-stranded',
  'events that arrive during a post are sent when the buffer is full again',
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
mapCase(
  'F32.flush-on-close',
  'a delete and a stop send what is queued',
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
differs(
  'F32.backpressure',
  'limits of a request and of the queue',
  'limits of the queue of a webhook: events wait in the log, and none is dropped',
  async () => {
    await using receiver = await Receiver.open()
    receiver.statuses.push(...Array.from({ length: 4 }, () => 500))
    const limits = { max_batch_bytes: 600, max_queue_size: 1, max_queue_bytes: 600 }
    await using server = await receiver.openServer(limits)
    const id = await run(server)
    const events = await waitForEvents(receiver, id, isFinished)
    const ids = new Set(events.map((event) => event.id))
    for (const stored of await server.getEvents(id)) expect(ids).toContain(stored.id)
    for (const batch of receiver.batches(id))
      if (batch.length > 1) expect(JSON.stringify(batch).length).toBeLessThanOrEqual(600)
  },
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
mapCase(
  'F32.slow-receiver',
  'a slow receiver keeps no finished conversation from a new run',
  async () => {
    await using receiver = await Receiver.open()
    await using server = await receiver.openServer({ event_buffer_size: 1, flush_delay: 0 })
    receiver.delayMs = 3_000
    const id = await run(server)
    const startedMs = performance.now()
    expect(await server.sendMessage(id, 'Again.')).toBe(200)
    expect(await server.requestStatus('POST', `/api/conversations/${id}/run`)).toBe(200)
    expect(performance.now() - startedMs).toBeLessThan(2_000)
    receiver.delayMs = 0
  },
  own,
)
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
let sent: Promise<readonly Delivery[]> | undefined
/** What a server sends about its use though it is asked to: found once, for all cases. */
const findTelemetry = () => {
  sent ??= (async () => {
    await using receiver = await Receiver.open()
    const env = {
      OH_TELEMETRY_EXPORTER: 'http',
      OH_TELEMETRY_HTTP_ENDPOINT: receiver.url,
      OH_TELEMETRY_CONSENT: 'granted',
      OH_TELEMETRY_FLUSH_DELAY: '0.1',
    }
    await using server = await OwnMapServer.open({ key, env })
    const misc_settings_diff = { telemetry: { consent: 'granted' } }
    await server.request('PATCH', '/api/settings', { body: { misc_settings_diff } })
    await run(server)
    await server.stop()
    return receiver.deliveries
  })()
  return sent
}
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
  differs(id, promise, noTelemetry, async () => expect(await findTelemetry()).toEqual([]))
mapCase(
  'F32.deferred-init',
  'receivers that arrive with a late configuration',
  async () => {
    await using receiver = await Receiver.open()
    const env = { SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: 'init-key-of-the-pool' }
    await using server = await OwnMapServer.open({ key: undefined, env })
    expect(receiver.deliveries).toEqual([])
    const body = { webhooks: [{ base_url: receiver.url, flush_delay: 0.1 }], session_api_keys: [key] }
    const headers = { 'x-init-api-key': 'init-key-of-the-pool' }
    expect((await server.request('POST', '/api/init', { body, headers })).status).toBe(200)
    const ready = new MapClient(server.url, key)
    ready.directory = server.directory
    await using model = await openModel(finishReply())
    const { id } = await ready.createConversation(model)
    await ready.sendMessage(id, 'Go.', true)
    await waitForEvents(receiver, id, isFinished)
    expect(receiver.infos(id)[0]).toMatchObject({ id })
    for (const { headers } of receiver.deliveries) expect(headers['x-session-api-key']).toBe(key)
  },
  own,
)

endFamily('F32', 30)
