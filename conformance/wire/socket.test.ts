import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, expect } from 'vitest'
import { WebSocket } from 'ws'
import {
  bashStep,
  type ConversationInfo,
  finishStep,
  parseServerSentEvents,
  SocketClient,
  scriptedModel,
} from '../support/agent-driver.ts'
import type { ApiEvent } from '../support/agent-server-api.ts'
import { openWireServer, sessionKey, unknownId, wireCase, wireCaseWithKey } from './wire-server.ts'

const wire = openWireServer()
const socketUrl = (path: string) => `${wire.url.replace(/^http/, 'ws')}${path}`
const eventSocketUrl = (id: string, query = '') => socketUrl(`/sockets/events/${id}${query}`)
/** With the key in the header. */
const openSocket = (id: string, query = '') => new SocketClient(eventSocketUrl(id, query), wire.headers)
const authFrame = (session_api_key = sessionKey) => JSON.stringify({ type: 'auth', session_api_key })
const isSnapshot = (event: ApiEvent) =>
  event.kind === 'ConversationStateUpdateEvent' && event.key === 'full_state'
const messageFrame = (text: string) => JSON.stringify({ role: 'user', content: [{ type: 'text', text }] })

/** How a socket with these options ends: the status of a refused upgrade, or the close code. */
function connectionResult(
  url: string,
  headers: Record<string, string> = {},
  first?: string,
): Promise<number> {
  return new Promise((done) => {
    const socket = new WebSocket(url, { headers })
    socket.on('unexpected-response', (_, response) => {
      done(response.statusCode ?? 0)
      socket.terminate()
    })
    socket.on('open', () => first !== undefined && socket.send(first))
    socket.on('close', (code) => done(code))
    socket.on('error', () => {})
  })
}

let silent: Promise<number> | undefined

beforeAll(async () => {
  if (sessionKey === undefined) return
  const { id } = await wire.createIdle()
  // Its ten seconds pass while the other cases run.
  silent = connectionResult(eventSocketUrl(id))
})

wireCase(
  'WS /sockets/events/{id}',
  'sends a snapshot of the state first, also for an empty log',
  async () => {
    const { id } = await wire.createIdle()
    await using client = openSocket(id)
    const [first] = await client.waitUntil(({ length }) => length > 0)
    expect(first).toMatchObject({
      id: expect.any(String),
      timestamp: expect.any(String),
      source: 'environment',
      key: 'full_state',
      value: {
        execution_status: 'idle',
        confirmation_policy: { kind: 'NeverConfirm' },
        agent: { kind: 'Agent', llm: { model: 'scripted/test' } },
        workspace: { working_dir: wire.directory },
        persistence_dir: expect.any(String),
        stats: { usage_to_metrics: expect.any(Object) },
      },
      kind: 'ConversationStateUpdateEvent',
    })
  },
)

wireCase('WS /sockets/events/{id}', 'sends every stored event in order, as search returns it', async () => {
  const { id } = await wire.createIdle([bashStep('echo live'), finishStep()])
  await using client = openSocket(id)
  await client.waitUntil((events) => events.some(isSnapshot))
  await wire.requestOrThrow('POST', `/api/conversations/${id}/events`, {
    body: { content: [{ type: 'text', text: 'Go.' }], run: true },
  })
  await client.waitUntil((events) =>
    events.some(({ key, value }) => key === 'execution_status' && value === 'finished'),
  )
  const { items } = await wire.requestOrThrow<{ items: ApiEvent[] }>(
    'GET',
    `/api/conversations/${id}/events/search`,
  )
  const ids = new Set(items.map(({ id }) => id))
  expect(client.events().filter((event) => ids.has(event.id))).toEqual(items)
  for (const event of client.events()) expect(event.kind).toMatch(/Event|Action|Observation|Condensation/)
})

wireCase('WS /sockets/events/{id}', 'sends every frame as text, one JSON document each', async () => {
  const { id } = await wire.createFinished()
  const socket = new WebSocket(eventSocketUrl(id, '?resend_mode=all'), { headers: wire.headers })
  const [data, isBinary] = await once(socket, 'message')
  expect([isBinary, typeof JSON.parse(String(data))]).toEqual([false, 'object'])
  socket.terminate()
})

wireCase(
  'WS /sockets/events/{id} authentication',
  'accepts the key in the query, the header or the first frame',
  async () => {
    const { id } = await wire.createIdle()
    const query = sessionKey === undefined ? '' : `?session_api_key=${sessionKey}`
    const first = new SocketClient(eventSocketUrl(id), {})
    first.socket.on('open', () => first.socket.send(authFrame()))
    for (const client of [new SocketClient(eventSocketUrl(id, query), {}), openSocket(id), first]) {
      await client.waitUntil((events) => events.some(isSnapshot))
      await client[Symbol.asyncDispose]()
    }
  },
)

wireCaseWithKey(
  'WS /sockets/events/{id} authentication',
  'refuses a wrong key: 403 before, 4001 after the first frame',
  async () => {
    const { id } = await wire.createIdle()
    expect([401, 403]).toContain(await connectionResult(eventSocketUrl(id, '?session_api_key=wrong')))
    expect([401, 403]).toContain(await connectionResult(eventSocketUrl(id), { 'x-session-api-key': 'wrong' }))
    for (const frame of [
      authFrame('wrong'),
      '{',
      '[]',
      '{"type":"auth"}',
      '{"type":"x"}',
      messageFrame('hi'),
      'null',
    ])
      expect([frame, await connectionResult(eventSocketUrl(id), {}, frame)]).toEqual([frame, 4001])
    expect(await wire.driver.getEvents(id)).toEqual([])
  },
)

wireCase('WS /sockets/events/{id} authentication', 'ignores an auth frame on an open socket', async () => {
  const { id } = await wire.createIdle()
  await using client = openSocket(id)
  await client.waitUntil((events) => events.some(isSnapshot))
  client.socket.send(authFrame())
  client.socket.send(messageFrame('after'))
  await client.waitUntil((events) => events.some(({ kind }) => kind === 'MessageEvent'))
  const kinds = client.events().map(({ kind }) => kind)
  expect(kinds.some((kind) => /Error/.test(kind))).toBe(false)
  await wire.driver.waitUntilIdle(id)
})

wireCase(
  'WS /sockets/events/{id} resend',
  'all: the snapshot, then the whole history in order, each event once',
  async () => {
    const { id } = await wire.createFinished([bashStep('true'), finishStep()])
    const history = await wire.driver.getEvents(id)
    for (const query of ['?resend_mode=all', '?resend_all=true']) {
      await using client = openSocket(id, query)
      const events = await client.waitUntil(({ length }) => length > history.length)
      expect(events.findIndex(isSnapshot)).toBe(0)
      expect(events.slice(1)).toEqual(history)
    }
  },
)

wireCase(
  'WS /sockets/events/{id} resend',
  'since: from a timestamp on, inclusive; without a timestamp nothing',
  async () => {
    const { id } = await wire.createFinished([bashStep('true'), finishStep()])
    const history = await wire.driver.getEvents(id)
    const from = history.slice(4)
    const moment = encodeURIComponent(String(from[0]?.timestamp))
    await using client = openSocket(id, `?resend_mode=since&after_timestamp=${moment}`)
    expect((await client.waitUntil(({ length }) => length > from.length)).slice(1)).toEqual(from)
    await using silent = openSocket(id, '?resend_mode=since')
    await silent.waitUntil((events) => events.some(isSnapshot))
    await sleep(300)
    expect(silent.frames).toHaveLength(1)
  },
)

wireCase(
  'WS /sockets/events/{id} resend',
  'joins history and live events without a gap or a repeat',
  async () => {
    const script = Array.from({ length: 12 }, (_, n) => ({ ...bashStep(`echo ${n}`), delay_ms: 30 }))
    const { id } = await wire.driver.createScripted([...script, finishStep()])
    const clients: SocketClient[] = []
    for (let n = 0; n < 8; n += 1) {
      clients.push(openSocket(id, '?resend_mode=all'))
      await sleep(60)
    }
    await wire.driver.waitUntilIdle(id)
    const history = await wire.driver.getEvents(id)
    const ids = new Set(history.map((event) => event.id))
    for (const client of clients) {
      await client.waitUntil((events) => events.some((event) => event.id === history.at(-1)?.id))
      expect(client.events().filter((event) => ids.has(event.id))).toEqual(history)
      await client[Symbol.asyncDispose]()
    }
  },
)

wireCase(
  'WS /sockets/events/{id} refusals',
  'closes with 4004 for an unknown conversation, and refuses invalid parameters',
  async () => {
    expect(await connectionResult(eventSocketUrl(unknownId), wire.headers)).toBe(4004)
    const { id } = await wire.createIdle()
    for (const url of [eventSocketUrl('not-an-id'), eventSocketUrl(id, '?resend_mode=some')]) {
      const status = await connectionResult(url, wire.headers)
      expect(status).toBeGreaterThanOrEqual(400)
      expect(status).toBeLessThan(500)
    }
  },
)

wireCase('WS /sockets/events/{id} messages', 'are user messages and start a run', async () => {
  const { id } = await wire.createIdle([finishStep('Heard.')])
  await using client = openSocket(id)
  await client.waitUntil((events) => events.some(isSnapshot))
  client.socket.send(
    JSON.stringify({
      role: 'user',
      content: [{ type: 'text', text: 'hi' }],
      run: true,
      extended_content: [],
    }),
  )
  await client.waitUntil((events) => events.some(({ kind }) => kind === 'MessageEvent'))
  const events = await wire.driver.waitForEvent(id, ({ value }) => value === 'finished')
  expect(events.find(({ kind }) => kind === 'MessageEvent')).toMatchObject({
    source: 'user',
    llm_message: { role: 'user', content: [{ type: 'text', text: 'hi' }] },
  })
})

wireCase(
  'WS /sockets/events/{id} messages',
  'that are invalid are reported to the sender, never stored, and the socket stays open',
  async () => {
    const { id } = await wire.createIdle()
    await using client = openSocket(id)
    await client.waitUntil((events) => events.some(isSnapshot))
    const bad = [
      ['{', 'JSONDecodeError', /JSON/],
      ['5', 'ValidationError', /role/],
      ['[1,2]', 'ValidationError', /role/],
      ['{}', 'ValidationError', /role/],
      ['{"content":"x"}', 'ValidationError', /role/],
      ['{"kind":"PauseEvent"}', 'ValidationError', /role/],
      ['{"role":"user","content":7}', 'ValidationError', /content/],
      ['{"role":"wizard","content":[]}', 'ValidationError', /role/],
      ['{"role":"assistant","content":[]}', 'AssertionError', /^Only user messages are allowed/],
      ['{"role":"system","content":"x"}', 'AssertionError', /^Only user messages are allowed/],
    ] as const
    for (const [n, [frame, code, detail]] of bad.entries()) {
      client.socket.send(frame)
      const events = await client.waitUntil(
        (all) => all.filter(({ kind }) => kind.endsWith('ErrorEvent')).length === n + 1,
      )
      const expected = { source: 'environment', code, detail: expect.stringMatching(detail) }
      expect([frame, events.at(-1)]).toMatchObject([frame, expected])
    }
    expect(await wire.driver.getEvents(id)).toEqual([])
    expect((await wire.driver.getInfo(id)).execution_status).toBe('idle')
    expect(client.socket.readyState).toBe(WebSocket.OPEN)
  },
)

wireCase(
  'WS /sockets/events/{id} end of a run',
  'is a snapshot with the status, after the last event',
  async () => {
    const { id } = await wire.createIdle([finishStep()])
    await using client = openSocket(id)
    await client.waitUntil((events) => events.some(isSnapshot))
    for (let runs = 1; runs <= 2; runs += 1) {
      client.frames.length = 0
      await wire.requestOrThrow('POST', `/api/conversations/${id}/run`, {})
      const isEnd = (event: ApiEvent) =>
        isSnapshot(event) && (event.value as ConversationInfo).execution_status !== 'running'
      const events = await client.waitUntil((all) => all.some(isEnd))
      const end = events.findIndex(isEnd)
      const last = events.findLastIndex(({ key }) => key === 'execution_status')
      expect(end).toBeGreaterThan(last)
    }
  },
)

wireCase('WS /sockets/events/{id} frames', 'stay below 1 MiB; REST has the whole event', async () => {
  const { id } = await wire.createIdle()
  await using client = openSocket(id)
  await client.waitUntil((events) => events.some(isSnapshot))
  const text = 'äö'.repeat(400_000)
  await wire.requestOrThrow('POST', `/api/conversations/${id}/events`, {
    body: { content: [{ type: 'text', text }] },
  })
  await client.waitUntil((events) => events.some(({ kind }) => kind === 'MessageEvent'))
  for (const frame of client.frames) expect(Buffer.byteLength(frame)).toBeLessThan(2 ** 20)
  const { items } = await wire.requestOrThrow<{ items: ApiEvent[] }>(
    'GET',
    `/api/conversations/${id}/events/search`,
    {
      query: { kind: 'MessageEvent' },
    },
  )
  expect(items).toMatchObject([{ llm_message: { content: [{ text }] } }])
})

wireCase(
  'WS /sockets/events/{id} deltas',
  'are sent while a streaming model generates, and are never stored',
  async () => {
    const llm = { ...scriptedModel([{ text: 'One two three four five.', delta_ms: 5 }]), stream: true }
    const { id } = await wire.driver.create({ llm })
    await using client = openSocket(id)
    await client.waitUntil((events) => events.some(isSnapshot))
    client.socket.send(messageFrame('Speak.'))
    await client.waitUntil((events) => events.some(({ value }) => value === 'finished'))
    const deltas = client.events().filter(({ kind }) => kind === 'StreamingDeltaEvent')
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe('One two three four five.')
    expect((await wire.driver.getEvents(id)).map(({ kind }) => kind)).not.toContain('StreamingDeltaEvent')
    const live = await (
      await fetch(`${wire.url}/api/conversations/${id}/events/stream?until=idle`, { headers: wire.headers })
    ).text()
    expect(parseServerSentEvents(live).length).toBeGreaterThan(0)
  },
)

wireCase(
  'WS /sockets/bash-events',
  'sends commands and their output to every socket, and accepts commands',
  async () => {
    const query = sessionKey === undefined ? '' : `?session_api_key=${sessionKey}`
    await using a = new SocketClient(socketUrl(`/sockets/bash-events${query}`), {})
    await using b = new SocketClient(socketUrl('/sockets/bash-events'), {})
    await once(b.socket, 'open')
    b.socket.send(authFrame() ?? '')
    if (a.socket.readyState !== WebSocket.OPEN) await once(a.socket, 'open')
    await sleep(200)
    a.socket.send(JSON.stringify({ command: 'echo wire-bash; exit 4', cwd: null, timeout: 20 }))
    for (const client of [a, b]) {
      const events = await client.waitUntil((all) =>
        all.some(({ kind, exit_code }) => kind === 'BashOutput' && exit_code === 4),
      )
      const command = events.find(
        ({ kind, command }) => kind === 'BashCommand' && command === 'echo wire-bash; exit 4',
      )
      const outputs = events.filter(
        ({ kind, command_id }) => kind === 'BashOutput' && command_id === command?.id,
      )
      expect(outputs.map(({ stdout }) => stdout ?? '').join('')).toBe('wire-bash\n')
      expect(outputs.at(-1)).toMatchObject({ exit_code: 4, stderr: null })
    }
    a.socket.send('{"command":5}')
    await a.waitUntil((events) => events.some(({ kind }) => kind === 'BashError'))
  },
)

wireCase('WS /sockets/bash-events', 'resends the history on request', async () => {
  await wire.runCommand('echo before-the-socket')
  for (const query of ['?resend_mode=all', '?resend_all=true']) {
    await using client = new SocketClient(socketUrl(`/sockets/bash-events${query}`), wire.headers)
    await client.waitUntil((events) =>
      events.some(({ stdout }) => String(stdout).includes('before-the-socket')),
    )
  }
})

wireCase(
  'WS /sockets/bash-events',
  'are at most 50 of the whole server; a closed one makes room',
  async () => {
    const url = socketUrl('/sockets/bash-events')
    const sockets: WebSocket[] = []
    try {
      for (let n = 0; n < 50; n += 1) {
        const socket = new WebSocket(url, { headers: wire.headers })
        sockets.push(socket)
        await once(socket, 'open')
      }
      // The newest may not be served yet when it is open.
      await expect.poll(() => connectionResultWithin(url, 1_000), { timeout: 20_000 }).toBe(1013)
      sockets.pop()?.close()
      await expect.poll(() => connectionResultWithin(url, 1_000), { timeout: 20_000 }).toBe('open')
    } finally {
      for (const socket of sockets) socket.terminate()
    }
  },
)

/** The close code, or `open` when the socket stays open for so long. */
async function connectionResultWithin(url: string, ms: number): Promise<number | 'open'> {
  const socket = new WebSocket(url, { headers: wire.headers })
  const closed = new Promise<number>((done) => socket.once('close', done))
  const result = await Promise.race([closed, sleep(ms, 'open' as const)])
  socket.terminate()
  return result
}

wireCaseWithKey(
  'WS /sockets/events/{id} authentication',
  'closes after ten seconds without a first frame',
  async () => {
    expect(await silent).toBe(4001)
  },
)
