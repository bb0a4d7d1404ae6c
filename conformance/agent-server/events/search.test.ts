import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import { type ApiEvent, messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const { api } = await openAgentFixture()

const ids = (events: readonly ApiEvent[]) => events.map(({ id }) => id)
const pause = (id: string, timestamp: string, more: object = {}) => ({
  id,
  timestamp,
  kind: 'PauseEvent',
  ...more,
})
const searchPath = (id: string, query = '') => `/api/conversations/${id}/events/search${query}`

/** Ties and disorder: in order of time it is c a b e d. */
const unorderedLog = toJsonLines(
  pause('a', '2026-03-01T10:00:00.000002Z'),
  {
    id: 'b',
    timestamp: '2026-03-01T12:00:00.000002+02:00',
    source: 'environment',
    kind: 'CondensationRequest',
  },
  messageLine('c', '2026-03-01T10:00:00.000001', 'first', 'user'),
  messageLine('d', '2026-03-01T10:00:00.5', 'last', 'agent'),
  pause('e', '2026-03-01T10:00:00.499999999Z', { source: 'user' }),
)

test('a page has items and next_page_id, and its items are the stored objects', async () => {
  const id = await api.import(unorderedLog)
  const page = await api.search(id)
  expect(Object.keys(page)).toEqual(['items', 'next_page_id'])
  expect(page.next_page_id).toBeNull()
  expect(page.items[0]).toEqual(JSON.parse(messageLine('c', '2026-03-01T10:00:00.000001', 'first')))
})

test('order is by instant, then by arrival; descending is the exact reverse', async () => {
  const id = await api.import(unorderedLog)
  expect(ids(await api.searchAll(id))).toEqual(['c', 'a', 'b', 'e', 'd'])
  expect(ids(await api.searchAll(id, { sort_order: 'TIMESTAMP' }))).toEqual(['c', 'a', 'b', 'e', 'd'])
  expect(ids(await api.searchAll(id, { sort_order: 'TIMESTAMP_DESC' }))).toEqual(['d', 'e', 'b', 'a', 'c'])
})

test('a walk with any limit returns every event once, and next_page_id is null exactly at the end', async () => {
  const id = await api.import(unorderedLog)
  for (const limit of ['1', '2', '3', '4', '5', '100']) {
    for (const sort_order of ['TIMESTAMP', 'TIMESTAMP_DESC']) {
      const events = ids(await api.searchAll(id, { limit, sort_order }))
      expect([...events].sort()).toEqual(['a', 'b', 'c', 'd', 'e'])
    }
  }
  expect((await api.search(id, { limit: '5' })).next_page_id).toBeNull()
  expect((await api.search(id, { limit: '4' })).next_page_id).not.toBeNull()
})

test('without a limit a page has at most 100 items', async () => {
  const events = Array.from({ length: 101 }, (_, i) => pause(`e${i}`, '2026-01-01T00:00:00Z'))
  const id = await api.import(toJsonLines(...events))
  const page = await api.search(id)
  expect(page.items).toHaveLength(100)
  expect(ids((await api.search(id, { page_id: String(page.next_page_id) })).items)).toEqual(['e100'])
})

test('an event id as page_id means "start at this event", in both orders and with filters', async () => {
  const id = await api.import(unorderedLog)
  expect(ids(await api.searchAll(id, { page_id: 'b' }))).toEqual(['b', 'e', 'd'])
  expect(ids(await api.searchAll(id, { page_id: 'b', sort_order: 'TIMESTAMP_DESC' }))).toEqual([
    'b',
    'a',
    'c',
  ])
  expect(ids(await api.searchAll(id, { page_id: 'b', kind: 'PauseEvent' }))).toEqual(['e'])
})

test('any other page_id is refused with its location, also one of another conversation', async () => {
  const id = await api.import(unorderedLog)
  const other = await api.import(unorderedLog)
  const foreign = String((await api.search(other, { limit: '1' })).next_page_id)
  for (const page_id of ['nothing', 'AAAA', '0', foreign, `${foreign}x`, '%00', '../']) {
    const { status, body } = await api.requestJson(searchPath(id, `?page_id=${encodeURIComponent(page_id)}`))
    expect(status, page_id).toBe(422)
    expect(body).toMatchObject({
      detail: [{ loc: ['query', 'page_id'], msg: expect.any(String), type: expect.any(String) }],
    })
  }
  expect((await api.search(id, { page_id: '' })).items).toHaveLength(5)
})

test('kind accepts the short name in exact case, and the last part of a dotted or namespaced one', async () => {
  const id = await api.import(unorderedLog)
  for (const kind of [
    'PauseEvent',
    'some.package.PauseEvent',
    'a:PauseEvent',
    'a/b/PauseEvent',
    'a__b__PauseEvent-Output__1',
  ]) {
    expect(ids(await api.searchAll(id, { kind })), kind).toEqual(['a', 'e'])
  }
  for (const kind of ['pauseevent', 'Pause', 'Nothing', 'PauseEvent.Other', '*', '%']) {
    expect(await api.search(id, { kind }), kind).toEqual({ items: [], next_page_id: null })
  }
  expect((await api.search(id, { kind: '' })).items).toHaveLength(5)
})

test('source is exact; an event without one has the default source of its kind', async () => {
  const id = await api.import(unorderedLog)
  expect(ids(await api.searchAll(id, { source: 'user' }))).toEqual(['c', 'a', 'e'])
  expect(ids(await api.searchAll(id, { source: 'environment' }))).toEqual(['b'])
  expect(ids(await api.searchAll(id, { source: 'agent', kind: 'MessageEvent' }))).toEqual(['d'])
  expect(ids(await api.searchAll(id, { source: 'user', kind: 'CondensationRequest' }))).toEqual([])
  expect(ids(await api.searchAll(id, { source: 'User' }))).toEqual([])
})

test('timestamps compare as instants, lower bound included, upper bound not', async () => {
  const id = await api.import(unorderedLog)
  const after = (timestamp__gte: string) => api.searchAll(id, { timestamp__gte }).then(ids)
  const before = (timestamp__lt: string) => api.searchAll(id, { timestamp__lt }).then(ids)
  for (const moment of [
    '2026-03-01T10:00:00.000002Z',
    '2026-03-01T10:00:00.000002',
    '2026-03-01T08:30:00.000002-01:30',
  ]) {
    expect(await after(moment), moment).toEqual(['a', 'b', 'e', 'd'])
    expect(await before(moment), moment).toEqual(['c'])
  }
  expect(await after('2026-03-01T10:00:00.5Z')).toEqual(['d'])
  expect(await before('2026-03-01T10:00:00.500Z')).toEqual(['c', 'a', 'b', 'e'])
  expect(await after('2026-03-01T10:00:00.500000999Z')).toEqual([])
  expect(await before('2026-03-01T10:00:00.500000999Z')).toEqual(['c', 'a', 'b', 'e', 'd'])
  expect(await after('9999-12-31T23:59:59Z')).toEqual([])
  expect(await before('0001-01-01T00:00:00Z')).toEqual([])
})

test('timestamps of every year are in order and compare', async () => {
  const years = ['0300', '1600', '1683', '2026', '2256', '3000', '9999']
  const events = years.map((year) =>
    JSON.stringify({ id: year, timestamp: `${year}-06-01T00:00:00.5Z`, source: 'user', kind: 'PauseEvent' }),
  )
  const id = await api.import(events.toReversed().join('\n'))
  expect(ids(await api.searchAll(id))).toEqual(years)
  for (const [at, year] of years.entries()) {
    expect(ids(await api.searchAll(id, { timestamp__gte: `${year}-06-01T00:00:00.5Z` }))).toEqual(
      years.slice(at),
    )
    expect(ids(await api.searchAll(id, { timestamp__lt: `${year}-06-01T00:00:00.5Z` }))).toEqual(
      years.slice(0, at),
    )
  }
})

test('a plus sign that arrived as a space before an offset is accepted', async () => {
  const id = await api.import(unorderedLog)
  const raw = await api.requestJson<{ items: ApiEvent[] }>(
    searchPath(id, '?timestamp__gte=2026-03-01T12:00:00.5+02:00'),
  )
  expect(ids(raw.body.items)).toEqual(['d'])
})

test.each([
  ['timestamp__gte', 'yesterday', 'datetime'],
  ['timestamp__gte', '2026-02-30T00:00:00Z', 'datetime'],
  ['timestamp__lt', '2026-01-01T25:00:00Z', 'datetime'],
  ['timestamp__lt', '', 'datetime'],
  ['limit', '0', 'greater_than'],
  ['limit', '-1', 'greater_than'],
  ['limit', '101', 'less_than_equal'],
  ['limit', 'ten', 'int_parsing'],
  ['limit', '', 'int_parsing'],
  ['limit', '1.5', 'int'],
  ['limit', '99999999999999999999', 'less_than_equal'],
  ['sort_order', 'DOWN', 'enum'],
])('%s=%s is refused with its location', async (name, value, type) => {
  const id = await api.import(unorderedLog)
  const { status, body } = await api.requestJson(searchPath(id, `?${new URLSearchParams({ [name]: value })}`))
  expect(status).toBe(422)
  expect(body).toMatchObject({
    detail: [{ loc: ['query', name], msg: expect.any(String), type: expect.stringContaining(type) }],
  })
})

test('unknown parameters are ignored, and of a repeated one the last counts', async () => {
  const id = await api.import(unorderedLog)
  const { body } = await api.requestJson<{ items: ApiEvent[] }>(searchPath(id, '?limit=5&nothing=1&limit=2'))
  expect(body.items).toHaveLength(2)
})

test('an unknown conversation is 404 with detail, and an id that is no UUID is 422', async () => {
  const unknown = randomUUID()
  expect(await api.requestJson(searchPath(unknown))).toEqual({
    status: 404,
    body: { detail: `Conversation not found: ${unknown}` },
  })
  const { status, body } = await api.requestJson(searchPath('not-a-uuid'))
  expect(status).toBe(422)
  expect(body).toMatchObject({ detail: [{ loc: ['path', 'conversation_id'] }] })
})

test('a conversation id is accepted in any case, with and without dashes', async () => {
  const id = await api.import(unorderedLog)
  for (const spelling of [
    id,
    id.toUpperCase(),
    id.replaceAll('-', ''),
    id.replaceAll('-', '').toUpperCase(),
  ]) {
    expect((await api.search(spelling)).items, spelling).toHaveLength(5)
  }
})

test('a wrong method is 405 with Allow, HEAD is GET without a body, and JSON is UTF-8', async () => {
  const id = await api.import(toJsonLines(messageLine('a', '2026-01-01T00:00:00Z', 'Γειά σου 😀')))
  const wrong = await api.fetch(searchPath(id), { method: 'DELETE' })
  expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, expect.stringContaining('GET')])
  const head = await api.fetch(searchPath(id), { method: 'HEAD' })
  const get = await api.fetch(searchPath(id))
  const body = Buffer.from(await get.arrayBuffer())
  expect([head.status, await head.text()]).toEqual([200, ''])
  expect(head.headers.get('content-length')).toBe(String(body.length))
  expect(get.headers.get('content-type')).toMatch(/^application\/json/)
  expect(body.toString('utf8')).toContain('Γειά σου 😀')
})

const texts = toJsonLines(
  {
    id: 'parts',
    timestamp: '2026-01-01T00:00:01Z',
    source: 'agent',
    kind: 'MessageEvent',
    llm_message: {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Hello ' },
        { type: 'text', text: 'World 100% _sure_ "quoted" back\\slash' },
      ],
      reasoning_content: 'Thinking deeply',
    },
    extended_content: [{ type: 'text', text: 'Extra knowledge' }],
  },
  messageLine('greek', '2026-01-01T00:00:02Z', 'ΟΔΟΣ'),
  messageLine('german', '2026-01-01T00:00:03Z', 'Straße'),
  messageLine('marks', '2026-01-01T00:00:04Z', 'cafe\u0301 AND NOT (x OR y) NEAR* ^b'),
  {
    id: 'tool',
    timestamp: '2026-01-01T00:00:05Z',
    source: 'agent',
    kind: 'AgentErrorEvent',
    tool_name: 't',
    tool_call_id: 'c',
    error: 'hello world',
  },
)

test.each([
  ['hello', ['parts']],
  ['WORLD', ['parts']],
  ['o w', []],
  ['hello world', []],
  ['deeply', ['parts']],
  ['extra', ['parts']],
  ['100%', ['parts']],
  ['100_', []],
  ['%', ['parts']],
  ['_sure_', ['parts']],
  ['"quoted"', ['parts']],
  ['k\\s', ['parts']],
  ['οδος', ['greek']],
  ['οδοσ', ['greek']],
  ['ς', ['greek']],
  ['straße', ['german']],
  ['STRASSE', []],
  ['cafe', ['marks']],
  ['é', []],
  ['and not', ['marks']],
  ['(x or', ['marks']],
  ['near*', ['marks']],
  ['^b', ['marks']],
  ['E', ['parts', 'german', 'marks']],
  ['\u0000', []],
  ['', ['parts', 'greek', 'german', 'marks', 'tool']],
])('body %j is a literal substring of one text part of a message', async (body, expected) => {
  const id = await api.import(texts)
  expect(ids(await api.searchAll(id, { body }))).toEqual(expected)
  expect(ids(await api.searchAll(id, { body, sort_order: 'TIMESTAMP_DESC', limit: '1' }))).toEqual(
    expected.toReversed(),
  )
  expect(await api.count(id, { body })).toBe(expected.length)
})

test('body combines with the other filters', async () => {
  const id = await api.import(texts)
  expect(ids(await api.searchAll(id, { body: 'e', source: 'user' }))).toEqual(['german', 'marks'])
  expect(ids(await api.searchAll(id, { body: 'e', timestamp__gte: '2026-01-01T00:00:04Z' }))).toEqual([
    'marks',
  ])
  expect(ids(await api.searchAll(id, { body: 'hello', kind: 'AgentErrorEvent' }))).toEqual([])
})

test('count accepts the same filters and returns a bare number', async () => {
  const id = await api.import(unorderedLog)
  expect(await api.count(id)).toBe(5)
  expect(await api.count(id, { kind: 'PauseEvent' })).toBe(2)
  expect(await api.count(id, { source: 'user', timestamp__lt: '2026-03-01T10:00:00.4Z' })).toBe(2)
  expect((await api.requestJson(`/api/conversations/${randomUUID()}/events/count`)).status).toBe(404)
  expect((await api.requestJson(`/api/conversations/${id}/events/count?timestamp__lt=x`)).status).toBe(422)
})

test('single and batch get return the stored bytes, null for a missing event', async () => {
  const id = await api.import(unorderedLog)
  const line = unorderedLog.split('\n')[1]
  const single = await api.fetch(`/api/conversations/${id}/events/b`)
  expect([single.status, await single.text()]).toEqual([200, line])
  expect(await api.requestJson(`/api/conversations/${id}/events/zzz`)).toMatchObject({
    status: 404,
    body: { detail: expect.any(String) },
  })
  for (const query of ['ids=d&ids=zzz&ids=a', 'event_ids=d&event_ids=zzz&event_ids=a']) {
    const { body } = await api.requestJson<(ApiEvent | null)[]>(`/api/conversations/${id}/events?${query}`)
    expect(body.map((event) => event?.id ?? null)).toEqual(['d', null, 'a'])
  }
  expect((await api.requestJson(`/api/conversations/${id}/events`)).status).toBe(422)
})

test('a walk returns every existing event once, while others append', async () => {
  const id = await api.import(
    toJsonLines(
      ...Array.from({ length: 60 }, (_, i) =>
        pause(`e${i}`, `2026-01-01T00:00:${i % 60}Z`.replace(/:(\d)Z/, ':0$1Z')),
      ),
    ),
  )
  const seen: string[] = []
  for (let page_id: string | null = ''; page_id !== null; ) {
    const page = await api.search(id, { limit: '7', ...(page_id === '' ? {} : { page_id }) })
    seen.push(...ids(page.items))
    page_id = seen.length > 200 ? null : page.next_page_id
    if (seen.length < 80) {
      await api.sendJson('POST', `/api/conversations/${id}/events`, {
        role: 'user',
        content: [{ type: 'text', text: `new ${seen.length}` }],
      })
    }
  }
  expect(new Set(seen).size).toBe(seen.length)
  expect(seen.slice(0, 60)).toEqual(Array.from({ length: 60 }, (_, i) => `e${i}`))
})
