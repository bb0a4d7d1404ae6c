import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  commandReply,
  finishReply,
  heldReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  openModel,
  unknownId,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }
const text = (value: string) => [{ type: 'text', text: value }]

/** A conversation with two messages and no run. */
async function withTwo(on: MapClient = server): Promise<string> {
  const { id } = await on.createConversation(undefined, plain)
  await on.sendMessage(id, 'FIRST hello')
  await on.sendMessage(id, 'SECOND again')
  return id
}

/** A conversation after a run with one command. */
async function withRun(on: MapClient = server) {
  const model = await server.openModel(commandReply('echo hi'), finishReply())
  const { id } = await on.createConversation(model, plain)
  await on.sendMessage(id, 'Begin.', true)
  await on.waitForStatus(id, 'finished')
  return { id, model }
}

const search = async (id: string, query: Record<string, string> = {}) =>
  await server.requestOrThrow<{ items: Json[]; next_page_id: string | null }>(
    'GET',
    `/api/conversations/${id}/events/search`,
    { query },
  )

const ids = (events: readonly Json[]) => events.map(({ id }) => id)

mapCase('F06.send-no-run', 'the first message stores the system prompt, itself and an update', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect(await search(id)).toMatchObject({ items: [], next_page_id: null })
  const body = { role: 'user', content: text('FIRST hello'), run: false }
  expect(await server.post(id, 'events', body)).toMatchObject({ status: 200, body: { success: true } })
  expect((await search(id)).items).toMatchObject([
    { kind: 'SystemPromptEvent', source: 'agent' },
    { kind: 'MessageEvent', source: 'user', llm_message: { content: text('FIRST hello') } },
    { kind: 'ConversationStateUpdateEvent', key: 'last_user_message_id' },
  ])
  expect((await server.getConversation(id)).execution_status).toBe('idle')
})

differs(
  'F06.search-page',
  'pages in the order of the log; an unknown page begins again',
  '`page_id` that is no page id',
  async () => {
    const id = await withTwo()
    const all = await server.getEvents(id)
    const first = await search(id, { limit: '2' })
    const second = await search(id, { limit: '2', page_id: String(first.next_page_id) })
    expect(ids([...first.items, ...second.items])).toEqual(ids(all).slice(0, 4))
    expect(ids((await search(id, { sort_order: 'TIMESTAMP_DESC' })).items)).toEqual(ids(all).reverse())
    const query = { page_id: 'unknown-page' }
    expect(await server.requestStatus('GET', `/api/conversations/${id}/events/search`, { query })).toBe(422)
  },
  async () => {
    const id = await withTwo()
    const all = await server.getEvents(id)
    const { items } = await search(id, { limit: '2', page_id: 'unknown-page' })
    expect(ids(items)).toEqual(ids(all).slice(0, 2))
  },
)

mapCase('F06.search-validation', 'invalid members are 422 and named', async () => {
  const id = await withTwo()
  for (const [name, value] of [
    ['limit', '0'],
    ['limit', '101'],
    ['sort_order', 'unknown'],
    ['timestamp__gte', 'no-date'],
  ] as const) {
    const found = await server.request<{ detail: { loc: string[] }[] }>(
      'GET',
      `/api/conversations/${id}/events/search`,
      {
        query: { [name]: value },
      },
    )
    expect(found.status, name).toBe(422)
    expect(found.body.detail[0]?.loc).toContain(name)
  }
})

mapCase('F06.search-filters', 'source, text and dotted kind combine', async () => {
  const id = await withTwo()
  const kind = 'openhands.sdk.event.llm_convertible.message.MessageEvent'
  expect((await search(id, { kind })).items).toHaveLength(2)
  expect((await search(id, { source: 'user' })).items).toHaveLength(2)
  expect((await search(id, { source: 'nonsense' })).items).toEqual([])
  expect((await search(id, { body: 'second' })).items).toMatchObject([
    { llm_message: { content: text('SECOND again') } },
  ])
  expect((await search(id, { kind, body: 'hello', source: 'user' })).items).toHaveLength(1)
})

mapCase('F06.search-kind-short', 'the short kind filters too', async () => {
  const { items } = await search(await withTwo(), { kind: 'MessageEvent' })
  expect(items.map(({ kind }) => kind)).toEqual(['MessageEvent', 'MessageEvent'])
})

mapCase('F06.search-time-window', 'from inclusive, to exclusive, offsets count', async () => {
  const id = await withTwo()
  const all = await server.getEvents(id)
  const middle = String(all[2]?.timestamp)
  const from = (await search(id, { timestamp__gte: middle })).items
  expect(ids(from)).toContain(all[2]?.id)
  expect(ids(from)).not.toContain(all[0]?.id)
  expect(ids((await search(id, { timestamp__lt: middle })).items)).not.toContain(all[2]?.id)
  const instant = new Date(`${middle.slice(0, 23)}Z`)
  const shifted = `${new Date(instant.getTime() + 7_200_000).toISOString().slice(0, 23)}+02:00`
  const same = await search(id, { timestamp__gte: instant.toISOString() })
  expect(ids((await search(id, { timestamp__gte: shifted })).items)).toEqual(ids(same.items))
})

mapCase('F06.count', 'the count is that of search with the same filters', async () => {
  const id = await withTwo()
  for (const query of [{}, { source: 'user' }, { body: 'second' }] as Record<string, string>[]) {
    const found = await server.requestOrThrow('GET', `/api/conversations/${id}/events/count`, { query })
    expect(found).toBe((await search(id, query)).items.length)
  }
})

mapCase('F06.get-one', 'an event by its id is that of the search', async () => {
  const id = await withTwo()
  for (const event of await server.getEvents(id))
    expect(await server.requestOrThrow('GET', `/api/conversations/${id}/events/${event.id}`)).toMatchObject(
      event,
    )
})

mapCase('F06.unknown-event', 'an unknown event is 404, and null in a batch', async () => {
  const id = await withTwo()
  expect(await server.requestStatus('GET', `/api/conversations/${id}/events/${unknownId}`)).toBe(404)
  const found = await server.getWithBody(`/api/conversations/${id}/events`, [unknownId])
  expect(found).toEqual({ status: 200, body: [null] })
})

mapCase('F06.batch-get', 'events in the order of ids; no body is 422', async () => {
  const id = await withTwo()
  const wanted = ids(await server.getEvents(id)).reverse()
  const { status, body } = await server.getWithBody(`/api/conversations/${id}/events`, wanted)
  expect(status).toBe(200)
  expect(ids(body as Json[])).toEqual(wanted)
  const found = await server.request<{ detail: { loc: string[] }[] }>(
    'GET',
    `/api/conversations/${id}/events`,
  )
  expect(found.status).toBe(422)
  expect(found.body.detail[0]?.loc).toContain('body')
})

mapCase('F06.not-found-auth', '404, 422 and 401 on each route', async () => {
  const id = await withTwo()
  const event = unknownId
  for (const [method, suffix] of [
    ['GET', '/search'],
    ['GET', '/count'],
    ['GET', `/${event}`],
    ['POST', ''],
  ] as const) {
    const options = method === 'POST' ? { body: { content: text('x') } } : {}
    const path = (of: string) => `/api/conversations/${of}/events${suffix}`
    expect(await server.requestStatus(method, path(unknownId), options), suffix).toBe(404)
    const malformed = await server.request<{ detail: { loc: string[] }[] }>(method, path('no-uuid'), options)
    expect(malformed.status).toBe(422)
    expect(malformed.body.detail[0]?.loc).toContain('conversation_id')
    expect(await server.requestStatus(method, path(id), { ...options, isAnonymous: true })).toBe(401)
  }
})

mapCase('F06.send-validation', 'invalid messages are 422 and store nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  for (const [body, member] of [
    [undefined, 'body'],
    [{ role: 'unknown', content: [] }, 'role'],
    [{ content: [{ type: 'unknown' }] }, 'content'],
    [{ content: 'a text' }, 'content'],
    [{}, 'content'],
    [{ content: [] }, 'content'],
    [{ text: 'hi' }, 'content'],
  ] as const) {
    const answer = await server.post(id, 'events', body)
    expect(answer.status).toBe(422)
    const [fault] = answer.body.detail as { loc: unknown[] }[]
    expect(fault?.loc).toContain(member)
  }
  expect(await server.getEvents(id)).toEqual([])
  const body = server.conversationRequest(undefined, { ...plain, initial_message: { content: 'a text' } })
  const refused = await server.request<Json>('POST', '/api/conversations', { body })
  expect(refused).toMatchObject({
    status: 422,
    body: { detail: [{ loc: expect.arrayContaining(['content']) }] },
  })
})

mapCase('F06.send-image', 'an image is stored as sent; one without addresses is 422', async () => {
  const { id } = await server.createConversation(undefined, plain)
  const image = { type: 'image', image_urls: ['data:image/png;base64,iVBORw0KGgo='] }
  const bad = await server.post(id, 'events', { content: [...text('see'), { type: 'image' }] })
  expect(bad.status).toBe(422)
  expect(bad.body.detail).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ type: 'missing', loc: expect.arrayContaining(['image_urls']) }),
    ]),
  )
  expect(await server.getEvents(id)).toEqual([])
  expect((await server.post(id, 'events', { content: [...text('see'), image] })).status).toBe(200)
  const message = (await server.getEvents(id)).find(({ kind }) => kind === 'MessageEvent')
  expect(message?.llm_message).toMatchObject({ content: [{ type: 'text' }, image] })
})

mapCase(
  'F06.send-non-user-role',
  'other roles are refused and store nothing',
  async () => {
    const { id } = await server.createConversation(undefined, plain)
    for (const role of ['assistant', 'system', 'tool']) {
      const { status } = await server.post(id, 'events', { role, content: text('x') })
      expect(status).toBeGreaterThanOrEqual(400)
      expect(status).toBeLessThan(500)
    }
    expect(await server.getEvents(id)).toEqual([])
  },
  { faultThere: '500' },
)

mapCase('F06.send-run', 'a message with run stores the kinds of a run', async () => {
  const { id } = await withRun()
  const events = await server.getEvents(id)
  const kinds = events.map(({ kind }) => kind)
  for (const kind of ['MessageEvent', 'ActionEvent', 'ObservationEvent']) expect(kinds).toContain(kind)
  const statuses = events.filter(({ key }) => key === 'execution_status').map(({ value }) => value)
  expect(statuses).toEqual(['running', 'finished'])
  expect(events.map(({ key }) => key)).toContain('stats')
})

mapCase('F06.ws-live', 'each live frame is stored, and a snapshot follows the run', async () => {
  const model = await server.openModel(commandReply('echo hi'), finishReply())
  const { id } = await server.createConversation(model, plain)
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  await server.sendMessage(id, 'Begin.', true)
  const frames = await waitForFrames(socket, (all) => {
    const end = all.findIndex(({ key, value }) => key === 'execution_status' && value === 'finished')
    return end !== -1 && all.slice(end).some(({ key }) => key === 'full_state')
  })
  const stored = ids(await server.getEvents(id))
  const live = frames.filter(({ key }) => key !== 'full_state')
  expect(live.filter((frame) => !stored.includes(frame.id))).toEqual([])
  expect(live.length).toBeGreaterThan(4)
})

mapCase('F06.search-timestamp-order', 'the order of the log is that of times', async () => {
  const { id } = await withRun()
  const times = (await search(id, { sort_order: 'TIMESTAMP', limit: '100' })).items.map(
    ({ timestamp }) => timestamp,
  )
  expect(times).toEqual([...times].sort())
})

mapCase('F06.send-resets-finished', 'a message to a finished conversation stores idle', async () => {
  const { id } = await withRun()
  await server.sendMessage(id, 'More.')
  expect((await server.getConversation(id)).execution_status).toBe('idle')
  const statuses = (await server.getEvents(id)).filter(({ key }) => key === 'execution_status')
  expect(statuses.at(-1)?.value).toBe('idle')
})

mapCase('F06.ws-snapshot', 'the first frame is a snapshot that is not stored', async () => {
  const id = await withTwo()
  await using socket = server.openSocket(`/sockets/events/${id}`)
  const [first] = await waitForFrames(socket, (frames) => frames.length > 0)
  expect(first).toMatchObject({ kind: 'ConversationStateUpdateEvent', key: 'full_state' })
  await server.sendMessage(id, 'THIRD')
  const frames = await waitForFrames(socket, (all) => all.some(({ kind }) => kind === 'MessageEvent'))
  expect(frames.filter(({ kind }) => kind === 'MessageEvent')).toHaveLength(1)
  expect(ids(await server.getEvents(id))).not.toContain(first?.id)
})

mapCase('F06.ws-handshake', 'keys in the three places; what is wrong closes or refuses', async () => {
  const id = await withTwo()
  const path = `/sockets/events/${id}`
  for (const [address, headers, frame] of [
    [path, {}, { type: 'auth', session_api_key: server.key }],
    [`${path}?session_api_key=${server.key}`, {}, undefined],
    [path, server.headers, undefined],
  ] as const) {
    await using socket = server.openSocket(address, headers)
    if (frame !== undefined) socket.socket.on('open', () => socket.socket.send(JSON.stringify(frame)))
    await waitForFrames(socket, (frames) => frames.length > 0)
  }
  for (const frame of [
    { type: 'auth', session_api_key: 'wrong' },
    { role: 'user', content: text('x') },
  ]) {
    await using socket = server.openSocket(path, {})
    socket.socket.on('open', () => socket.socket.send(JSON.stringify(frame)))
    expect(await socket.closed).toMatchObject({ code: 4001 })
  }
  expect(await server.upgradeStatus(path, { 'x-session-api-key': 'wrong' })).toBe(403)
  expect(await server.upgradeStatus(`${path}?session_api_key=wrong`)).toBe(403)
  await using unknown = server.openSocket(`/sockets/events/${unknownId}`)
  expect(await unknown.closed).toMatchObject({ code: 4004 })
})

mapCase(
  'F06.ws-delete-close',
  'a removed conversation closes its sockets',
  async () => {
    const id = await withTwo()
    await using socket = server.openSocket(`/sockets/events/${id}`)
    await waitForFrames(socket, (frames) => frames.length > 0)
    await server.requestOrThrow('DELETE', `/api/conversations/${id}`)
    const late = sleep(10_000, 'open', { ref: false })
    expect(await Promise.race([socket.closed, late])).not.toBe('open')
  },
  { faultThere: 'they stay open' },
)

mapCase('F06.ws-replay-all', 'the whole log after the snapshot', async () => {
  const id = await withTwo()
  const stored = ids(await server.getEvents(id))
  for (const query of ['resend_mode=all', 'resend_all=true']) {
    await using socket = server.openSocket(`/sockets/events/${id}?${query}`)
    const frames = await waitForFrames(socket, (all) => all.length > stored.length)
    expect(ids(frames.filter(({ key }) => key !== 'full_state'))).toEqual(stored)
  }
})

mapCase('F06.ws-replay-since', 'events from a time on; none without a time', async () => {
  const id = await withTwo()
  const all = await server.getEvents(id)
  const since = encodeURIComponent(String(all[2]?.timestamp))
  const expected = ids(all.filter(({ timestamp }) => timestamp >= String(all[2]?.timestamp)))
  await using socket = server.openSocket(`/sockets/events/${id}?resend_mode=since&after_timestamp=${since}`)
  const frames = await waitForFrames(socket, (seen) => seen.length > expected.length)
  expect(ids(frames.filter(({ key }) => key !== 'full_state'))).toEqual(expected)
  await using bare = server.openSocket(`/sockets/events/${id}?resend_mode=since`)
  await waitForFrames(bare, (seen) => seen.length > 0)
  await server.sendMessage(id, 'LIVE')
  const live = await waitForFrames(bare, (seen) => seen.some(({ kind }) => kind === 'MessageEvent'))
  expect(live.filter(({ kind }) => kind === 'MessageEvent')).toHaveLength(1)
})

mapCase('F06.ws-bad-frame', 'invalid frames get typed errors and store nothing', async () => {
  const id = await withTwo()
  const before = await server.getEvents(id)
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  const errors = () => socket.events().filter(({ kind }) => kind === 'ServerErrorEvent')
  for (const [frame, code] of [
    ['{"content":"x"}', 'ValidationError'],
    ['{}', 'ValidationError'],
    [JSON.stringify({ role: 'assistant', content: text('x') }), 'AssertionError'],
    ['no json', 'JSONDecodeError'],
  ] as const) {
    const seen = errors().length
    socket.socket.send(frame)
    await waitForFrames(socket, () => errors().length > seen)
    expect(errors().at(-1)?.code, frame).toBe(code)
  }
  socket.socket.send(JSON.stringify({ type: 'auth', session_api_key: 'any' }))
  expect(await server.getEvents(id)).toEqual(before)
  expect((await server.getConversation(id)).execution_status).toBe('idle')
})

mapCase('F06.ws-send', 'a message on the socket runs the agent', async () => {
  const { id } = await server.createConversation(await server.openModel(finishReply()), plain)
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  socket.socket.send(JSON.stringify({ role: 'user', content: text('Begin.') }))
  await waitForFrames(socket, (all) => all.some(({ value }) => value === 'finished'))
  await server.waitForStatus(id, 'finished')
})

mapCase(
  'F06.restart-persist',
  'ids, order and count outlive a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    const id = await withTwo(own)
    const before = await own.getEvents(id)
    await own.restart()
    expect(await own.getEvents(id)).toEqual(before)
    await own.sendMessage(id, 'THIRD')
    const after = await own.getEvents(id)
    expect(ids(after).slice(0, before.length)).toEqual(ids(before))
    expect(after.length).toBeGreaterThan(before.length)
  },
  { hasOwnServer: true },
)

mapCase(
  'F06.send-run-limit',
  'a message above the limit of runs is stored and refused',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' } })
    const held = heldReply(finishReply())
    await using model = await openModel()
    model.replies = [held.reply(model)]
    const busy = await own.createConversation(model, plain)
    const other = await own.createConversation(model, plain)
    await own.sendMessage(busy.id, 'Begin.', true)
    await held.arrived
    const body = { role: 'user', content: text('Wait.'), run: true }
    expect(await own.post(other.id, 'events', body)).toMatchObject({
      status: 429,
      body: { detail: expect.stringMatching(/^Message saved, but the conversation run limit was reached/) },
    })
    await using socket = own.openSocket(`/sockets/events/${other.id}`)
    await waitForFrames(socket, (frames) => frames.length > 0)
    socket.socket.send(JSON.stringify({ role: 'user', content: text('Wait too.') }))
    await waitForFrames(socket, (all) =>
      all.some(({ kind, code }) => kind === 'ServerErrorEvent' && code === 'ConversationRunLimitExceeded'),
    )
    const messages = (await own.getEvents(other.id)).filter(({ kind }) => kind === 'MessageEvent')
    expect(messages).toHaveLength(2)
    held.release()
  },
  { hasOwnServer: true },
)

mapCase(
  'F06.send-while-running',
  'a message to a running conversation is 200 and joins the run',
  async () => {
    const held = heldReply(finishReply())
    const model = await server.openModel()
    model.replies = [held.reply(model), finishReply()]
    const { id } = await server.createConversation(model, plain)
    await server.sendMessage(id, 'Begin.', true)
    await held.arrived
    expect(await server.sendMessage(id, 'Meanwhile.', true)).toBe(200)
    expect((await server.getConversation(id)).execution_status).toBe('running')
    expect(model.requests).toHaveLength(1)
    const events = await server.getEvents(id)
    expect(events.filter(({ value }) => value === 'running')).toHaveLength(1)
    expect(JSON.stringify(events)).toContain('Meanwhile.')
    held.release()
    await server.waitForStatus(id, 'finished')
  },
)

endFamily('F06', 28)
