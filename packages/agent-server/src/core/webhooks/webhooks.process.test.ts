import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { unixFetch } from '@slipway/http'
import { type LogFunction, type WebhookSpec, webhookSpec } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { type Clock, systemClock } from '@slipway/shared/time'
import { FakeClock } from '@slipway/shared/time/testing'
import { exportEvents, openStorage, type SqliteStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ConversationInfoReader } from '../conversations/conversation-info.ts'
import { Webhooks } from './webhooks.ts'

interface ReceivedRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** True: accepted. False: the plan has answered. */
type Plan = (received: ReceivedRequest, response: ServerResponse) => boolean | Promise<boolean>

/**
 * A receiver of webhooks on loopback that keeps what it takes: events by position, and what it heard of
 * conversations.
 */
class TestReceiver implements AsyncDisposable {
  readonly requests: ReceivedRequest[] = []
  readonly infos: Record<string, unknown>[] = []
  readonly logs = new Map<string, Map<number, string>>()
  plan: Plan = () => true
  maxConcurrent = 0
  #openRequests = 0
  #server: Server

  constructor() {
    this.#server = this.#createServer()
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hooks`
  }

  async listen(at: number | string = 0): Promise<this> {
    this.#server = this.#createServer()
    if (typeof at === 'string') this.#server.listen(at)
    else this.#server.listen(at, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  /**
   * What it has of a conversation, as an export would print it; undefined while something is missing before
   * the end.
   */
  lines(conversation: string): string {
    const log = this.logs.get(conversation.replaceAll('-', '')) ?? new Map()
    return [...log]
      .sort(([a], [b]) => a - b)
      .map(([, line]) => `${line}\n`)
      .join('')
  }

  /** Takes events as one that knows positions: what it has already must be the same. */
  storeEvents({ path, headers, body }: ReceivedRequest): void {
    const id = /^\/hooks\/events\/([0-9a-f]{32})$/.exec(path)?.[1]
    if (id === undefined) return void this.infos.push(JSON.parse(body))
    const log = this.logs.get(id) ?? new Map<number, string>()
    this.logs.set(id, log)
    let position = Number(headers['x-slipway-after'])
    expect(position, 'no gap').toBeLessThanOrEqual(log.size)
    for (const item of splitItems(body)) {
      position += 1
      expect(log.get(position) ?? item).toBe(item)
      log.set(position, item)
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    if (this.#server.listening) await new Promise((done) => this.#server.close(done))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #createServer(): Server {
    return createServer(async (request, response) => {
      this.maxConcurrent = Math.max(this.maxConcurrent, ++this.#openRequests)
      const body = await text(request).catch(() => '')
      const received = { path: request.url ?? '', headers: request.headers, body }
      this.requests.push(received)
      const isAccepted = await this.plan(received, response)
      if (isAccepted) {
        this.storeEvents(received)
        response.end('{"success":true}')
      }
      this.#openRequests -= 1
    })
  }
}

/** A plan that has answered itself. */
const answered = (_done: unknown) => false

/** The texts of the items of a JSON array, byte for byte. */
function splitItems(body: string): string[] {
  const items: string[] = []
  let [depth, start, isText] = [0, 1, false]
  for (let at = 0; at < body.length; at++) {
    const char = body[at]
    if (isText) {
      if (char === '\\') at += 1
      else if (char === '"') isText = false
    } else if (char === '"') isText = true
    else if (char === '[' || char === '{') depth += 1
    else if (char === ']' || char === '}') depth -= 1
    if (!isText && ((depth === 1 && char === ',') || depth === 0)) {
      items.push(body.slice(start, at))
      start = at + 1
    }
  }
  expect(items.map((item) => JSON.parse(item))).toEqual(JSON.parse(body))
  return items
}

/** A storage, and webhooks that can be stopped and started over it. */
async function createSender(clock: Clock = systemClock) {
  const directory = temporaryDirectory()
  const lines: unknown[] = []
  const log: LogFunction = (...line) => void lines.push(line)
  let storage: SqliteStorage = await openStorage({ directory: join(directory.path, 'data') })
  let running: Webhooks[] = []
  return {
    lines,
    get storage() {
      return storage
    },
    start(...receivers: (Partial<WebhookSpec> & { base_url: string })[]) {
      const conversations = new ConversationInfoReader(storage, directory.path)
      const webhooks = new Webhooks({
        storage,
        receivers: receivers.map((one) =>
          webhookSpec.parse({ retry_delay: 0.001, flush_delay: 0.01, ...one }),
        ),
        readInfo: (record) => conversations.readInfo(record),
        readSnapshot: async ({ id, status }) => ({ key: 'full_state', value: { id, status } }),
        sessionKey: new Secret('first-session-key'),
        fetch: unixFetch,
        clock,
        log,
      })
      webhooks.start()
      running.push(webhooks)
    },
    async stop() {
      await Promise.all(running.map((one) => one[Symbol.asyncDispose]()))
      running = []
    },
    async reopen() {
      await this.stop()
      await storage[Symbol.asyncDispose]()
      storage = await openStorage({ directory: join(directory.path, 'data') })
    },
    async create(id = randomUUID() as string) {
      await storage.conversations.create({ id })
      return id
    },
    async append(id: string, count: number, content = 'ä "quoted", [brackets] \\ {…}') {
      const drafts = Array.from({ length: count }, (_, index) => ({
        kind: 'MessageEvent',
        source: 'user',
        llm_message: { role: 'user', content: [{ type: 'text', text: `${content} ${index}` }] },
      }))
      await storage.log.append(id, drafts)
    },
    async exported(id: string) {
      const [record] = await storage.conversations.get([id])
      const chunks: Buffer[] = []
      if (record !== undefined)
        for await (const chunk of exportEvents(storage.log, record, { meta: false })) chunks.push(chunk)
      return Buffer.concat(chunks).toString()
    },
    async [Symbol.asyncDispose]() {
      await this.stop()
      await storage[Symbol.asyncDispose]()
      directory[Symbol.dispose]()
    },
  }
}

const waitUntil = (check: () => Promise<void> | void) =>
  expect
    .poll(
      async () => {
        try {
          await check()
          return ''
        } catch (error) {
          return String(error)
        }
      },
      { timeout: 60_000, interval: 20 },
    )
    .toBe('')

test('a receiver hears of a conversation first and then gets its stored bytes, in order, a hundred at a time', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  from.start({ base_url: `${far.url}/` })
  const id = await from.create()
  await from.append(id, 250)
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  const [first, ...others] = far.requests
  expect(first).toMatchObject({
    path: '/hooks/conversations',
    headers: { 'content-type': 'application/json' },
  })
  expect(JSON.parse(first?.body ?? '')).toMatchObject({
    id,
    execution_status: 'idle',
    agent: { kind: 'Agent' },
  })
  const events = others.filter(({ path }) => path === `/hooks/events/${id.replaceAll('-', '')}`)
  expect(events.map(({ headers }) => headers['x-slipway-after'])).toEqual(['0', '100', '200'])
  for (const { headers } of far.requests) expect(headers['x-session-api-key']).toBe('first-session-key')
})

test('what is acknowledged is not sent again, not by the next process either', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  from.start({ base_url: far.url })
  const id = await from.create()
  await from.append(id, 3)
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  await from.reopen()
  from.start({ base_url: far.url })
  await from.append(id, 2)
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  const after = far.requests
    .map(({ headers }) => headers['x-slipway-after'])
    .filter((one) => one !== undefined)
  expect(after).toEqual(['0', '3'])
})

test('a receiver that is away gets everything when it comes, and is not asked all the time until then', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  const { url } = far
  await far.close()
  const ids = await Promise.all([1, 2, 3, 4, 5, 6].map(() => from.create()))
  from.start({ base_url: url })
  for (const id of ids) await from.append(id, 120)
  await waitUntil(() => expect(JSON.stringify(from.lines)).toContain('ECONNREFUSED'))
  await far.listen(Number(new URL(url).port))
  for (const id of ids) await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  expect(from.lines.filter((line) => JSON.stringify(line).includes('"warn"'))).toHaveLength(1)
  expect(JSON.stringify(from.lines)).not.toContain('first-session-key')
})

test('whatever a receiver does, in the end it has the log, byte for byte', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  let turn = 0
  far.plan = async (received, response) => {
    turn += 1
    if (turn > 200) return true
    switch ((turn * 7 + received.body.length) % 13) {
      case 0:
        return answered(response.writeHead(500).end('oh'))
      case 1:
        far.storeEvents(received)
        return answered(response.writeHead(500).end())
      case 2:
        far.storeEvents(received)
        return answered(response.destroy())
      case 3:
        return answered(response.destroy())
      case 4:
        return answered(response.writeHead(404).end())
      case 5:
        return answered(response.writeHead(429, { 'retry-after': '0' }).end())
      case 6:
        await sleep(20)
        return true
      default:
        return true
    }
  }
  const ids = await Promise.all([1, 2, 3, 4, 5].map(() => from.create()))
  from.start({ base_url: far.url, event_buffer_size: 7 })
  for (let round = 0; round < 20; round++) {
    for (const id of ids) await from.append(id, 1 + (round % 5))
    if (round === 10) {
      await from.reopen()
      from.start({ base_url: far.url, event_buffer_size: 7 })
    }
    await sleep(5)
  }
  for (const id of ids) await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  expect(turn).toBeGreaterThan(40)
}, 120_000)

test('a refused conversation or a dead receiver does not delay others', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  const poisoned = await Promise.all([1, 2, 3, 4, 5].map(() => from.create()))
  far.plan = ({ path, body }, response) => {
    const isPoisoned = poisoned.some((id) => path.includes(id.replaceAll('-', '')) || body.includes(id))
    return isPoisoned ? answered(response.writeHead(422).end()) : true
  }
  from.start({ base_url: 'http://127.0.0.1:9/dead' }, { base_url: far.url })
  for (const id of poisoned) await from.append(id, 2)
  await waitUntil(() => expect(far.requests.length).toBeGreaterThan(8))
  const healthy = await Promise.all([1, 2, 3].map(() => from.create()))
  for (const id of healthy) await from.append(id, 3)
  for (const id of healthy) await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  for (const id of healthy) await from.append(id, 3)
  for (const id of healthy) await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  for (const id of poisoned) expect(far.lines(id)).toBe('')
})

test('a receiver that says what it has is sent what comes after that', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  from.start({ base_url: far.url })
  const id = await from.create()
  await from.append(id, 130)
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  // It was restored from an older copy.
  const log = far.logs.get(id.replaceAll('-', ''))
  for (const position of [...(log?.keys() ?? [])]) if (position > 60) log?.delete(position)
  far.plan = ({ path, headers }, response) => {
    if (!path.includes('/events/') || Number(headers['x-slipway-after']) === log?.size) return true
    response.writeHead(409).end(JSON.stringify({ detail: 'Something is missing', head: log?.size }))
    return false
  }
  await from.append(id, 10)
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  const [again] = far.requests.filter(({ headers }) => headers['x-slipway-after'] === '60')
  expect(again).toBeDefined()
})

test('a receiver that has more than it is offered, because its answer was lost, is not sent it again', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  const id = await from.create()
  await from.append(id, 150)
  const exported = (await from.exported(id)).split('\n')
  far.logs.set(id.replaceAll('-', ''), new Map(exported.slice(0, 120).map((line, at) => [at + 1, line])))
  far.plan = ({ path, headers }, response) => {
    const head = far.logs.get(id.replaceAll('-', ''))?.size
    if (!path.includes('/events/') || Number(headers['x-slipway-after']) === head) return true
    response.writeHead(409).end(JSON.stringify({ head }))
    return false
  }
  from.start({ base_url: far.url })
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  const after = far.requests
    .map(({ headers }) => headers['x-slipway-after'])
    .filter((one) => one !== undefined)
  expect(after).toEqual(['0', '120'])
})

test.each([
  ['names its cursor', true],
  ['has more than the log', false],
])(
  'a receiver of another history that %s is told so, and gets everything from the beginning',
  async (_, isNamed) => {
    await using from = await createSender()
    await using far = await new TestReceiver().listen()
    const id = await from.create()
    const hex = id.replaceAll('-', '')
    await from.append(id, 30)
    // What it received before the log was restored from an older copy.
    const others = Array.from({ length: isNamed ? 20 : 50 }, (_, n) => `{"id":"other ${n}"}`)
    far.logs.set(hex, new Map(others.map((line, at) => [at + 1, line])))
    const cursor = isNamed ? { cursor: '20.9f3c01ab' } : {}
    far.plan = ({ path, headers }, response) => {
      if (headers['x-slipway-resync'] !== undefined) {
        const after = Number(headers['x-slipway-resync'])
        const log = far.logs.get(hex)
        // The first announcement, before the receiver has said what it has.
        if (far.requests.length > 1)
          for (const at of [...(log?.keys() ?? [])]) if (at > after) log?.delete(at)
        return true
      }
      const head = far.logs.get(hex)?.size ?? 0
      if (!path.includes('/events/') || Number(headers['x-slipway-after']) === head) return true
      response.writeHead(409).end(JSON.stringify({ head, ...cursor }))
      return false
    }
    from.start({ base_url: far.url })
    await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
    const resyncs = far.requests
      .map(({ headers }) => headers['x-slipway-resync'])
      .filter((one) => one !== undefined)
    expect(resyncs).toEqual(['0', '0'])
    expect(JSON.stringify(from.lines)).toContain('another history of a conversation')
  },
)

test('batches name the event before them', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  const id = await from.create()
  await from.append(id, 110)
  from.start({ base_url: far.url })
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  const cursors = far.requests
    .map(({ headers }) => headers['x-slipway-cursor'])
    .filter((one) => one !== undefined)
  expect(cursors).toEqual(['0', expect.stringMatching(/^100\.[0-9a-f]{8}$/)])
})

test('a receiver that leads around in circles, or says conflict without more, is asked again later and not in a loop', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  let count = 0
  far.plan = ({ path, headers }, response) => {
    if (!path.includes('/events/')) return true
    count += 1
    const head = far.logs.get(id.replaceAll('-', ''))?.size ?? 0
    if (count > 12 && Number(headers['x-slipway-after']) === head) return true
    const circling = [{ head: count % 3 }, { head: -1 }, { head: 'x' }, 'no', null][count % 5]
    response.writeHead(409).end(JSON.stringify(count > 12 ? { head } : circling))
    return false
  }
  const id = await from.create()
  await from.append(id, 5)
  from.start({ base_url: far.url })
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  expect(from.lines.length).toBeGreaterThan(3)
})

test('title, tags and status are told of once for many changes, and a removal too', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  from.start({ base_url: far.url, flush_delay: 0.2 })
  const id = await from.create()
  await waitUntil(() => expect(far.infos).toHaveLength(1))
  for (let count = 1; count <= 20; count++) {
    await from.storage.conversations.patch(id, { title: `Title ${count}` })
  }
  await waitUntil(() => expect(far.infos.at(-1)).toMatchObject({ id, title: 'Title 20' }))
  expect(far.infos.length).toBeLessThan(10)
  await from.storage.log.append(id, [], { record: { status: 'running' } })
  await waitUntil(() => expect(far.infos.at(-1)).toMatchObject({ id, execution_status: 'running' }))
  const heard = far.infos.length
  await from.append(id, 3)
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  expect(far.infos).toHaveLength(heard)
  await from.storage.conversations.remove(id)
  await waitUntil(() => expect(far.infos.at(-1)).toEqual({ id, execution_status: 'deleting' }))
})

test('what happened while nothing was sent is reported after the next start: removals, and another conversation of the same id', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  from.start({ base_url: far.url })
  const [gone, again] = [await from.create(), await from.create()]
  for (const id of [gone, again]) await from.append(id, 4)
  for (const id of [gone, again])
    await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  await from.stop()
  for (const id of [gone, again]) await from.storage.conversations.remove(id)
  await from.create(again)
  await from.append(again, 2, 'another')
  await from.reopen()
  const heard = far.infos.length
  far.plan = ({ body }) => {
    if (body.includes('"deleting"')) far.logs.delete(JSON.parse(body).id.replaceAll('-', ''))
    return true
  }
  from.start({ base_url: far.url })
  await waitUntil(async () => expect(far.lines(again)).toBe(await from.exported(again)))
  await waitUntil(() => {
    const later = far.infos.slice(heard).map((info) => [info.id, info.execution_status])
    expect(later).toEqual(
      expect.arrayContaining([
        [gone, 'deleting'],
        [again, 'deleting'],
        [again, 'idle'],
      ]),
    )
  })
})

test('an event above the limit of a request goes alone, and a receiver that takes less gets less', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  far.plan = ({ body }, response) => {
    const isTooLarge = body.length > 3000 && splitItems(body).length > 1 && body.length < 1_000_000
    return isTooLarge ? answered(response.writeHead(413).end()) : true
  }
  const id = await from.create()
  await from.append(id, 40)
  await from.append(id, 1, 'x'.repeat(6 * 1024 * 1024))
  await from.append(id, 40)
  from.start({ base_url: far.url })
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  const large = far.requests.filter(({ body }) => body.length > 5 * 1024 * 1024)
  expect(large).toHaveLength(1)
  expect(splitItems(large[0]?.body ?? '')).toHaveLength(1)
})

test('a redirect is not followed, and no key is in any line of the log', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  await using other = await new TestReceiver().listen()
  far.plan = (_, response) =>
    answered(response.writeHead(307, { location: `${other.url}/x?k=first-session-key` }).end())
  const id = await from.create()
  await from.append(id, 1)
  const base_url = far.url.replace('//', '//user:pass-word@')
  from.start({ base_url, headers: { Authorization: 'Bearer secret-of-receiver' } })
  await waitUntil(() => expect(far.requests.length).toBeGreaterThan(2))
  expect(other.requests).toHaveLength(0)
  await from.stop()
  expect(JSON.stringify(from.lines)).not.toMatch(/first-session-key|secret-of-receiver|pass-word/)
})

test('a receiver on a Unix socket is reached', async () => {
  await using from = await createSender()
  using directory = temporaryDirectory()
  const path = join(directory.path, 'host.sock')
  await using far = await new TestReceiver().listen(path)
  const id = await from.create()
  await from.append(id, 3)
  from.start({ base_url: `http+unix://${encodeURIComponent(path)}/hooks` })
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
})

test('a stop sends what is there, and does not wait for a receiver that hangs', async () => {
  const clock = new FakeClock()
  await using from = await createSender(clock)
  await using far = await new TestReceiver().listen()
  await using hanging = await new TestReceiver().listen()
  hanging.plan = () => false
  from.start({ base_url: far.url, flush_delay: 3600 }, { base_url: hanging.url })
  const id = await from.create()
  await from.append(id, 5)
  const exported = await from.exported(id)
  const stopped = from.stop()
  await waitUntil(() => expect([far.lines(id), hanging.requests.length > 0]).toEqual([exported, true]))
  await clock.advance(3_000)
  await stopped
})

test('however much is behind, little of it is in memory', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  const id = await from.create()
  for (let round = 0; round < 100; round++) await from.append(id, 1_000, 'much')
  const { read } = from.storage.log
  let most = 0
  from.storage.log.read = async (...args) => {
    const events = await read.apply(from.storage.log, args)
    most = Math.max(most, events.length)
    return events
  }
  let sum = 0
  far.plan = ({ path, headers, body }, response) => {
    if (path.includes('/events/')) {
      expect(Number(headers['x-slipway-after'])).toBe(sum)
      sum += JSON.parse(body).length
    }
    return answered(response.end())
  }
  from.start({ base_url: far.url })
  await waitUntil(() => expect(sum).toBe(100_000))
  expect(most).toBeLessThanOrEqual(100)
  expect(far.maxConcurrent).toBe(1)
}, 180_000)

test('a receiver that wants snapshots gets one at first and one when a run stops, after refusals too', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  const snapshots: { headers: IncomingHttpHeaders; status: unknown }[] = []
  let refusals = 0
  far.plan = ({ headers, body }, response) => {
    const [event] = body.startsWith('[') ? JSON.parse(body) : []
    if (event?.key !== 'full_state') return true
    // Each snapshot is refused once.
    if (refusals++ % 2 === 0) return answered(response.writeHead(500).end())
    snapshots.push({ headers, status: event.value.status })
    return answered(response.end('{}'))
  }
  const id = await from.create()
  await from.append(id, 3)
  from.start({ base_url: far.url, full_state: true })
  const statuses = () => snapshots.map(({ status }) => status)
  await waitUntil(() => expect(statuses()).toEqual(['idle']))
  for (const status of ['running', 'finished'] as const) {
    await from.append(id, 2)
    await from.storage.log.append(id, [], { record: { status } })
    await waitUntil(() => expect(far.infos.at(-1)?.execution_status).toBe(status))
  }
  await waitUntil(() => expect(statuses()).toEqual(['idle', 'finished']))
  for (const { headers } of snapshots) expect(headers['x-slipway-after']).toBeUndefined()
  expect(far.lines(id)).toBe(await from.exported(id))
  await from.append(id, 1)
  await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  expect(statuses()).toHaveLength(2)
})

test('a conversation has one request at a time, and a receiver four', async () => {
  await using from = await createSender()
  await using far = await new TestReceiver().listen()
  const open = new Map<string, number>()
  far.plan = async ({ path }) => {
    const count = (open.get(path) ?? 0) + 1
    open.set(path, count)
    if (path.includes('/events/')) expect(count).toBe(1)
    await sleep(10)
    open.set(path, count - 1)
    return true
  }
  const ids = await Promise.all(Array.from({ length: 12 }, () => from.create()))
  from.start({ base_url: far.url, event_buffer_size: 5 })
  for (let round = 0; round < 10; round++) for (const id of ids) await from.append(id, 2)
  for (const id of ids) await waitUntil(async () => expect(far.lines(id)).toBe(await from.exported(id)))
  expect(far.maxConcurrent).toBe(4)
})
