import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../support/agent-fixture.ts'
import { type ApiEvent, messageLine, toJsonLines } from '../support/agent-server-api.ts'

const project = join(tmpdir(), 'slipway-conformance-project')
const { api } = await openAgentFixture()

interface Info {
  readonly id: string
  readonly title: string | null
  readonly tags: Record<string, string>
  readonly updated_at: string
  readonly [member: string]: unknown
}

const request = {
  agent: {
    kind: 'Agent',
    // A port without a listener: a run ends in an error, and no request leaves this machine.
    llm: {
      model: 'openai/m',
      base_url: 'http://127.0.0.1:9/v1',
      num_retries: 0,
      api_key: 'sk-very-secret',
      usage_id: 'agent',
    },
    tools: [{ name: 'terminal' }],
  },
  workspace: { working_dir: project },
  secrets: { TOKEN_A: { kind: 'StaticSecret', value: 'hidden-value' } },
  max_iterations: 50,
  tags: { team: 'x' },
  unheard_of: { ignored: true },
}

async function create(more: object = {}): Promise<{ status: number; body: Info }> {
  return (await api.sendJson('POST', '/api/conversations', { ...request, ...more })) as {
    status: number
    body: Info
  }
}

test('create answers 201 with the conversation, and 200 with the same one when the id is known', async () => {
  const conversation_id = randomUUID()
  const first = await create({ conversation_id })
  expect(first.status).toBe(201)
  expect(first.body).toMatchObject({
    id: conversation_id,
    execution_status: 'idle',
    max_iterations: 50,
    tags: { team: 'x' },
    workspace: { working_dir: project, kind: 'LocalWorkspace' },
    confirmation_policy: { kind: 'NeverConfirm' },
    agent: { kind: 'Agent', llm: { model: 'openai/m', api_key: null } },
    secret_registry: { secret_sources: { TOKEN_A: { value: '**********' } } },
    persistence_dir: expect.any(String),
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
    stats: { usage_to_metrics: {} },
  })
  const second = await create({ conversation_id, tags: { other: 'y' } })
  expect([second.status, second.body.tags]).toEqual([200, { team: 'x' }])
})

test('the title of a create request is used', async () => {
  const { body } = await create({ title: 'As asked' })
  expect(body).toMatchObject({ title: 'As asked' })
})

test('no route returns a secret of a create request', async () => {
  const { body } = await create({
    initial_message: { role: 'user', content: [{ type: 'text', text: 'hi' }] },
  })
  const paths = ['', '/events/search', '/export?meta=true'].map(
    (rest) => `/api/conversations/${body.id}${rest}`,
  )
  for (const path of [...paths, '/api/conversations/search', `/api/conversations?ids=${body.id}`]) {
    const text = await (await api.fetch(path)).text()
    expect(text).not.toContain('sk-very-secret')
    expect(text).not.toContain('hidden-value')
  }
})

test.each([
  [{}, ['body']],
  [{ workspace: { working_dir: '/tmp' } }, ['body']],
  [{ agent: request.agent }, ['body', 'workspace']],
  [{ ...request, conversation_id: 'x' }, ['body', 'conversation_id']],
  [{ ...request, max_iterations: 0 }, ['body', 'max_iterations']],
  [{ ...request, tags: { 'Upper Case': 'x' } }, ['body', 'tags']],
  [{ ...request, agent_settings: {} }, ['body']],
])('a create request %j is refused with its location', async (body, place) => {
  const answer = (await api.sendJson('POST', '/api/conversations', body)) as {
    status: number
    body: { detail: { loc: unknown[] }[] }
  }
  expect(answer.status).toBe(422)
  expect(answer.body.detail[0]?.loc.slice(0, place.length)).toEqual(place)
  expect(JSON.stringify(answer.body)).not.toContain('sk-very-secret')
})

test('get, batch get and count', async () => {
  const id = (await create()).body.id
  expect((await api.requestJson<Info>(`/api/conversations/${id}`)).body.id).toBe(id)
  expect((await api.requestJson(`/api/conversations/${randomUUID()}`)).status).toBe(404)
  const batch = await api.requestJson<(Info | null)[]>(
    `/api/conversations?ids=${randomUUID()}&ids=${id.replaceAll('-', '')}`,
  )
  expect(batch.body.map((info) => info?.id ?? null)).toEqual([null, id])
  expect((await api.requestJson(`/api/conversations?${'ids=x&'.repeat(100)}`)).status).toBe(422)
  const before = (await api.requestJson<number>('/api/conversations/count')).body
  await create()
  expect((await api.requestJson<number>('/api/conversations/count')).body).toBe(before + 1)
  expect((await api.requestJson<number>('/api/conversations/count?status=running')).body).toBe(0)
})

test('search pages through all conversations, newest first by default', async () => {
  const made = [(await create()).body.id, (await create()).body.id, (await create()).body.id]
  const walk = async (query: string) => {
    const found: string[] = []
    for (let page = ''; ; ) {
      const { body } = await api.requestJson<{ items: Info[]; next_page_id: string | null }>(
        `/api/conversations/search?limit=2&${query}${page}`,
      )
      found.push(...body.items.map(({ id }) => id))
      if (body.next_page_id === null) return found
      expect(body.next_page_id).toMatch(/^[0-9a-f]{32}$/)
      page = `&page_id=${body.next_page_id}`
    }
  }
  expect((await walk('')).slice(0, 3)).toEqual(made.toReversed())
  expect((await walk('sort_order=CREATED_AT')).slice(-3)).toEqual(made)
  await api.sendJson('PATCH', `/api/conversations/${made[0]}`, { title: 'touched' })
  expect((await walk('sort_order=UPDATED_AT_DESC'))[0]).toBe(made[0])
  expect(new Set(await walk('sort_order=UPDATED_AT')).size).toBe(
    (await api.requestJson<number>('/api/conversations/count')).body,
  )
  expect((await api.requestJson('/api/conversations/search?page_id=nothing')).status).toBe(422)
  expect((await api.requestJson('/api/conversations/search?limit=101')).status).toBe(422)
})

test('a page is the same whether it was kept or is built', async () => {
  const made = [(await create()).body.id, (await create()).body.id]
  const missing = '6f9619ff-8b86-4011-b42d-00c04fc964ff'
  const list = `/api/conversations?ids=${made[0]}&ids=${missing}&ids=${made[1]}`
  for (const path of ['/api/conversations/search?limit=100', '/api/conversations/search?limit=1', list]) {
    const read = async (more = '') => {
      const response = await api.fetch(`${path}${more}`)
      return { type: response.headers.get('content-type'), text: await response.text() }
    }
    const first = await read()
    expect(await read()).toEqual(first)
    // Lists with skills are built each time, and these conversations have none.
    expect(await read('&include_skills=true')).toEqual(first)
    await api.sendJson('PATCH', `/api/conversations/${made[1]}`, { title: path.slice(-50) })
    expect((await read()).text).toContain(path.slice(-50))
  }
})

test('patch changes title and tags, and tags replace the whole map', async () => {
  const id = (await create()).body.id
  expect(
    await api.sendJson('PATCH', `/api/conversations/${id}`, { title: 'A title', tags: { a: 'b' } }),
  ).toEqual({ status: 200, body: { success: true } })
  expect((await api.requestJson<Info>(`/api/conversations/${id}`)).body).toMatchObject({
    title: 'A title',
    tags: { a: 'b' },
  })
  for (const bad of [{ title: '' }, { title: 'x'.repeat(201) }, { tags: { a: 1 } }]) {
    expect((await api.sendJson('PATCH', `/api/conversations/${id}`, bad)).status).toBe(422)
  }
  expect((await api.sendJson('PATCH', `/api/conversations/${randomUUID()}`, { title: 'x' })).status).toBe(404)
})

test('a deleted conversation is gone at once, and its id can be used again', async () => {
  const id = await api.import(toJsonLines(messageLine('a', '2026-01-01', 'old')))
  expect((await api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(200)
  for (const path of ['', '/events/search', '/events/count', '/events/a', '/export', '/events/stream']) {
    expect((await api.requestJson(`/api/conversations/${id}${path}`)).status, path).toBe(404)
  }
  const found = await api.requestJson<{ items: Info[] }>('/api/conversations/search')
  expect(found.body.items.map((info) => info.id)).not.toContain(id)
  expect((await api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(404)
  await api.import(toJsonLines({ conversation_id: id }, messageLine('b', '2026-01-01', 'new')))
  expect((await api.searchAll(id)).map((event) => event.id)).toEqual(['b'])
})

test('a message becomes a MessageEvent of the user with a timestamp above all others', async () => {
  const id = await api.import(toJsonLines(messageLine('a', '2100-01-01T00:00:00Z', 'from the future')))
  const path = `/api/conversations/${id}/events`
  expect(
    await api.sendJson('POST', path, { role: 'user', content: [{ type: 'text', text: 'hi' }], sender: 'me' }),
  ).toEqual({ status: 200, body: { success: true } })
  await api.sendJson('POST', path, {
    content: [{ type: 'text', text: 'plain text' }],
    extended_content: [{ type: 'text', text: 'more' }],
  })
  const [, first, second] = await api.searchAll(id)
  expect(first).toMatchObject({
    kind: 'MessageEvent',
    source: 'user',
    sender: 'me',
    activated_skills: [],
    timestamp: '2100-01-01T00:00:00.000001Z',
  })
  expect(second).toMatchObject({
    llm_message: { role: 'user', content: [{ type: 'text', text: 'plain text' }] },
    extended_content: [{ text: 'more' }],
  })
  expect(String(second?.timestamp) > String(first?.timestamp)).toBe(true)
  expect(Object.keys(first ?? {}).at(-1)).toBe('kind')
})

test.each([
  [{ role: 'assistant', content: [] }],
  [{ role: 'user', content: [{ type: 'sound' }] }],
  [{ content: 7 }],
  [{ content: 'a text' }],
  [[]],
  ['text'],
])('an invalid message %j is refused and nothing is stored', async (body) => {
  const id = await api.import('')
  expect((await api.sendJson('POST', `/api/conversations/${id}/events`, body)).status).toBe(422)
  expect(await api.count(id)).toBe(0)
})

test('a message sent twice with one Idempotency-Key is stored once; the key with another message is 409', async () => {
  const id = await api.import('')
  const post = (text: string) =>
    api.requestJson(`/api/conversations/${id}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k1' },
      body: JSON.stringify({ role: 'user', content: [{ type: 'text', text }] }),
    })
  const answers = await Promise.all([post('once'), post('once'), post('once')])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect((await post('other')).status).toBe(409)
  expect(await api.count(id)).toBe(1)
})

test('a message makes a finished conversation idle, with the state update before the message', async () => {
  const id = await api.import(
    toJsonLines({
      id: 's',
      timestamp: '2026-01-01',
      kind: 'ConversationStateUpdateEvent',
      key: 'execution_status',
      value: 'finished',
    }),
  )
  await api.sendJson('POST', `/api/conversations/${id}/events`, {
    content: [{ type: 'text', text: 'again' }],
  })
  const events: ApiEvent[] = await api.searchAll(id)
  expect(events.slice(1).map(({ kind, value }) => [kind, value])).toEqual([
    ['ConversationStateUpdateEvent', 'idle'],
    ['MessageEvent', undefined],
  ])
  expect((await api.requestJson<Info>(`/api/conversations/${id}`)).body.execution_status).toBe('idle')
})

test('a message with an Idempotency-Key makes a finished conversation idle once, however often it is sent', async () => {
  const finished = {
    id: 's',
    timestamp: '2026-01-01',
    kind: 'ConversationStateUpdateEvent',
    key: 'execution_status',
    value: 'finished',
  }
  const id = await api.import(toJsonLines(finished))
  const post = () =>
    api.requestJson(`/api/conversations/${id}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k' },
      body: '{"content":[{"type":"text","text":"again"}]}',
    })
  const answers = await Promise.all([post(), post(), post()])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect((await api.searchAll(id)).map(({ kind }) => kind)).toEqual([
    'ConversationStateUpdateEvent',
    'ConversationStateUpdateEvent',
    'MessageEvent',
  ])
})

test('a run is 409, because there is no agent', async () => {
  const id = await api.import('')
  expect(
    await api.requestJson(`/api/conversations/${id}/run`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    }),
  ).toMatchObject({ status: 409 })
  expect((await api.requestJson(`/api/conversations/${randomUUID()}/run`, { method: 'POST' })).status).toBe(
    404,
  )
})

test('health and server_info return what clients read', async () => {
  for (const path of ['/alive', '/health'])
    expect(await api.requestJson(path)).toEqual({ status: 200, body: { status: 'ok' } })
  expect(await api.requestJson('/ready')).toEqual({ status: 200, body: { status: 'ready' } })
  for (const path of ['/server_info', '/']) {
    expect((await api.requestJson(path)).body).toMatchObject({
      version: '1.58.2',
      uptime: expect.any(Number),
      idle_time: expect.any(Number),
      usable_tools: expect.arrayContaining(['terminal', 'file_editor', 'finish']),
    })
  }
  expect((await api.requestJson('/openapi.json')).body).toMatchObject({
    openapi: '3.1.0',
    info: { version: '0.1.0' },
  })
  expect((await api.requestJson('/api/nothing')).status).toBe(404)
})
