import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import { type ApiEvent, messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const { server, api } = await openAgentFixture()

/** A client that records every frame and can wait for a number of them. */
class FrameClient {
  readonly frames: string[] = []
  readonly socket: WebSocket
  readonly closed: Promise<{ code: number; reason: string }>
  #wake: () => void = () => {}

  constructor(path: string) {
    this.socket = new WebSocket(`${server.url.replace(/^http/, 'ws')}${path}`, { headers: server.headers })
    this.closed = new Promise((resolve) =>
      this.socket.on('close', (code, reason) => resolve({ code, reason: String(reason) })),
    )
    this.socket.on('error', () => {})
    this.socket.on('message', (data) => {
      this.frames.push(String(data))
      this.#wake()
    })
  }

  async waitForFrames(count: number): Promise<string[]> {
    while (this.frames.length < count) await new Promise<void>((resolve) => (this.#wake = resolve))
    return this.frames.slice(0, count)
  }

  async events(count: number): Promise<ApiEvent[]> {
    return (await this.waitForFrames(count)).map((frame) => JSON.parse(frame))
  }

  async [Symbol.asyncDispose]() {
    this.socket.terminate()
    await this.closed
  }
}

/** A frame of the resumable form without its cursor. */
const withoutCursor = (frame: string | undefined) => frame?.replace(/,"cursor":"\d+\.[0-9a-f]{8}"}$/, '}')
const socketPath = (id: string, query = '') => `/sockets/events/${id}${query}`
const sendMessage = async (id: string, text: string) =>
  await api.sendJson('POST', `/api/conversations/${id}/events`, {
    role: 'user',
    content: [{ type: 'text', text }],
  })
const threeMessages = toJsonLines(
  messageLine('a', '2026-01-01T00:00:01Z', 'one'),
  messageLine('b', '2026-01-01T00:00:02', 'two'),
  messageLine('c', '2026-01-01T00:00:03Z', 'three'),
)

test('the first frame is the state, then new events follow', async () => {
  const id = await api.import(threeMessages)
  await using client = new FrameClient(socketPath(id))
  const [state] = await client.events(1)
  expect(state).toMatchObject({
    kind: 'ConversationStateUpdateEvent',
    key: 'full_state',
    source: 'environment',
  })
  expect(state?.value).toMatchObject({
    id,
    execution_status: 'idle',
    agent: { kind: 'Agent' },
    confirmation_policy: { kind: 'NeverConfirm' },
  })
  expect(JSON.stringify(state)).not.toContain(':null')
  await sendMessage(id, 'four')
  const [, event] = await client.events(2)
  expect(event).toMatchObject({ kind: 'MessageEvent', llm_message: { content: [{ text: 'four' }] } })
  expect(client.frames[1]).toBe((await api.export(id)).toString().trimEnd().split('\n')[3])
})

test.each([
  ['?resend_mode=all', ['a', 'b', 'c']],
  ['?resend_all=true', ['a', 'b', 'c']],
  ['?resend_mode=since&after_timestamp=2026-01-01T00:00:02', ['b', 'c']],
  ['?resend_mode=since&after_timestamp=2026-01-01T01:00:02%2B01:00', ['b', 'c']],
  ['?resend_mode=since&after_timestamp=2026-01-01T00:00:02.000001Z', ['c']],
  ['?resend_mode=since', []],
  ['', []],
])('%s sends the requested history before new events', async (query, again) => {
  const id = await api.import(threeMessages)
  await using client = new FrameClient(socketPath(id, query))
  await client.waitForFrames(1)
  await sendMessage(id, 'new')
  const events = await client.events(again.length + 2)
  expect(events.slice(1, -1).map((event) => event.id)).toEqual(again)
  expect(events.at(-1)).toMatchObject({ llm_message: { content: [{ text: 'new' }] } })
})

test('with ?after= each frame is position and stored event, without a snapshot', async () => {
  const id = await api.import(threeMessages)
  await using client = new FrameClient(socketPath(id, '?after=1'))
  const stored = threeMessages.trimEnd().split('\n')
  expect((await client.waitForFrames(2)).map(withoutCursor)).toEqual([
    `{"position":2,"event":${stored[1]}}`,
    `{"position":3,"event":${stored[2]}}`,
  ])
})

test('a position beyond the end closes with 4416, an unknown conversation with 4004', async () => {
  const id = await api.import(threeMessages)
  await using beyond = new FrameClient(socketPath(id, '?after=4'))
  expect((await beyond.closed).code).toBe(4416)
  await using unknown = new FrameClient(socketPath(randomUUID()))
  expect((await unknown.closed).code).toBe(4004)
})

test.each([
  'not-a-uuid',
  `${randomUUID()}?resend_mode=some`,
  `${randomUUID()}?after=-1`,
  `${randomUUID()}?after=x`,
  `${randomUUID()}?after_timestamp=noon`,
])('%s is refused before the upgrade', async (rest) => {
  const socket = new WebSocket(`${server.url.replace(/^http/, 'ws')}/sockets/events/${rest}`, {
    headers: server.headers,
  })
  const status = await new Promise((resolve) => {
    socket.on('unexpected-response', (_, response) => resolve(response.statusCode))
    socket.on('open', () => resolve('open'))
    socket.on('error', () => {})
  })
  socket.terminate()
  expect(status).toBe(403)
})

test('a message over the socket is stored and sent; an auth frame is ignored; an invalid frame is answered by an error event', async () => {
  const id = await api.import(threeMessages)
  await using client = new FrameClient(socketPath(id))
  await client.waitForFrames(1)
  client.socket.send('{"type":"auth","session_api_key":"anything"}')
  client.socket.send(
    '{"role":"user","content":[{"type":"text","text":"over the socket"}],"run":true,"more":1}',
  )
  const [, event] = await client.events(2)
  expect(event).toMatchObject({
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { content: [{ text: 'over the socket' }] },
  })
  for (const frame of ['{', '[]', '{"role":"assistant","content":[]}', '"text"']) client.socket.send(frame)
  const errors = (await client.events(6)).slice(2)
  for (const error of errors)
    expect(error).toMatchObject({
      kind: 'ConversationErrorEvent',
      code: expect.any(String),
      detail: expect.any(String),
    })
  expect(await api.count(id)).toBe(4)
})

test('deleting the conversation closes its sockets with 4004', async () => {
  const id = await api.import(threeMessages)
  await using client = new FrameClient(socketPath(id))
  await client.waitForFrames(1)
  await api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })
  expect((await client.closed).code).toBe(4004)
})

test('an imported event above the frame limit is shrunk on the legacy socket only', async () => {
  const large = {
    id: 'large',
    timestamp: '2026-01-01T00:00:00Z',
    source: 'environment',
    tool_name: 'file_editor',
    tool_call_id: 'call',
    action_id: 'act',
    observation: {
      content: [{ type: 'text', text: 'x'.repeat(1_500_000) }],
      is_error: false,
      command: 'view',
      path: '/a',
      old_content: 'y'.repeat(900_000),
      kind: 'FileEditorObservation',
    },
    kind: 'ObservationEvent',
  }
  const id = await api.import(toJsonLines(large))
  await using legacy = new FrameClient(socketPath(id, '?resend_mode=all'))
  const [, slimmed] = await legacy.waitForFrames(2)
  expect(Buffer.byteLength(String(slimmed))).toBeLessThan(1024 * 1024)
  expect(JSON.parse(String(slimmed))).toMatchObject({
    id: 'large',
    action_id: 'act',
    observation: { kind: 'FileEditorObservation', old_content: null },
  })
  await using whole = new FrameClient(socketPath(id, '?after=0'))
  expect(withoutCursor((await whole.waitForFrames(1))[0])).toBe(
    `{"position":1,"event":${JSON.stringify(large)}}`,
  )
})

interface ServerSentEvent {
  readonly id?: string
  readonly data: string
}

/** Reads a stream of server-sent events to its end, or to `count` events. */
async function readServerSentEvents(
  path: string,
  init: RequestInit = {},
  count = Number.POSITIVE_INFINITY,
): Promise<ServerSentEvent[]> {
  const stop = new AbortController()
  const response = await api.fetch(path, { ...init, signal: stop.signal })
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  const found: ServerSentEvent[] = []
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString()
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = block.split(/\r\n|\r|\n/).filter((line) => !line.startsWith(':'))
      const data = fields.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6))
      const id = fields.find((line) => line.startsWith('id: '))?.slice(4)
      if (data.length > 0) found.push({ ...(id === undefined ? {} : { id }), data: data.join('\n') })
    }
    if (found.length >= count) break
  }
  stop.abort()
  return found
}

test('server-sent events carry position and stored event, from after or Last-Event-ID, and end when the conversation is idle', async () => {
  const id = await api.import(threeMessages)
  const stored = threeMessages.trimEnd().split('\n')
  const stream = `/api/conversations/${id}/events/stream`
  const all = stored.map((data, index) => ({ id: String(index + 1), data }))
  // Who begins with a bare position gets positions as ids, everybody else cursors.
  expect(await readServerSentEvents(`${stream}?until=idle&after=0`)).toEqual(all)
  expect(await readServerSentEvents(`${stream}?until=idle&after=2`)).toEqual(all.slice(2))
  const named = await readServerSentEvents(`${stream}?until=idle`)
  expect(named).toEqual(
    all.map(({ id, data }) => ({ id: expect.stringMatching(`^${id}\\.[0-9a-f]{8}$`), data })),
  )
  for (const [index, cursor] of ['1', String(named[0]?.id)].entries()) {
    const from = index === 0 ? '?until=idle&after=0' : '?until=idle'
    const headers = { 'last-event-id': cursor }
    expect(await readServerSentEvents(`${stream}${from}`, { headers })).toEqual(named.slice(1))
  }
  expect(await readServerSentEvents(`${stream}?until=idle&after=${named[1]?.id}`)).toEqual(named.slice(2))
  expect(await readServerSentEvents(`${stream}?until=idle&after=3`)).toEqual([])
})

test('an open stream receives later events', async () => {
  const id = await api.import(threeMessages)
  const events = readServerSentEvents(`/api/conversations/${id}/events/stream?after=3`, {}, 1)
  await sendMessage(id, 'later')
  expect(JSON.parse(String((await events)[0]?.data))).toMatchObject({
    llm_message: { content: [{ text: 'later' }] },
  })
})

test.each([
  ['?after=4', {}, ['query', 'after']],
  ['?after=-1', {}, ['query', 'after']],
  ['?after=x', {}, ['query', 'after']],
  ['?after=1.5', {}, ['query', 'after']],
  ['?until=later', {}, ['query', 'until']],
  ['', { 'last-event-id': 'x' }, ['header', 'last-event-id']],
])('a stream with %s %j is refused with its location', async (query, headers, loc) => {
  const id = await api.import(threeMessages)
  const answer = await api.requestJson(`/api/conversations/${id}/events/stream${query}`, { headers })
  expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc }] } })
})

test('a stored event with a carriage return between its members stays one event', async () => {
  const id = await api.import('{"id":"a",\r"timestamp":"2026-01-01T00:00:00Z","kind":"PauseEvent"}\n')
  const [event] = await readServerSentEvents(`/api/conversations/${id}/events/stream?until=idle`)
  expect(JSON.parse(String(event?.data))).toMatchObject({ id: 'a', kind: 'PauseEvent' })
})

test('every transport replays the export from any position, while others append', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 12 }),
      fc.nat(12),
      fc.integer({ min: 1, max: 8 }),
      async (before, start, during) => {
        const after = Math.min(start, before)
        const id = await api.import(
          toJsonLines(
            ...Array.from({ length: before }, (_, i) =>
              messageLine(`e${i}`, `2026-01-0${1 + (i % 9)}`, `${i}`),
            ),
          ),
        )
        await using client = new FrameClient(socketPath(id, `?after=${after}`))
        const sse = readServerSentEvents(
          `/api/conversations/${id}/events/stream?after=${after}`,
          {},
          before + during - after,
        )
        await Promise.all(Array.from({ length: during }, (_, i) => sendMessage(id, `new ${i}`)))
        const stored = (await api.export(id)).toString().trimEnd().split('\n')
        const expected = stored
          .map((event, index) => `{"position":${index + 1},"event":${event}}`)
          .slice(after)
        const frames = await client.waitForFrames(expected.length)
        expect(frames.map(withoutCursor)).toEqual(expected)
        expect((await sse).map(({ id, data }) => `{"position":${id},"event":${data}}`)).toEqual(expected)
      },
    ),
    { numRuns: 15 },
  )
})
