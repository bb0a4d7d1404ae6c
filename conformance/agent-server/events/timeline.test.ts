import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { runCli } from '../../support/cli.ts'

const { api } = await openAgentFixture()

const at = (second: number) => `2026-03-01T10:00:${String(second).padStart(2, '0')}`
const pause = (id: string, second: number) => ({ id, timestamp: at(second), kind: 'PauseEvent' })

const log = toJsonLines(
  messageLine('m1', at(1), 'first words', 'user'),
  pause('p1', 2),
  { ...pause('x1', 3), kind: 'ConversationErrorEvent', source: 'environment', code: 'x', detail: 'y' },
  pause('p2', 40),
  messageLine('m2', at(41), 'last words', 'user'),
)

async function get(path: string) {
  const response = await api.fetch(path)
  return { status: response.status, body: await response.json() }
}

test('a log is read by position, from a moment, and counted and searched by position', async () => {
  const id = await api.import(log)
  const events = `/api/conversations/${id}/events`
  const range = await get(`${events}/range?first=2&limit=2`)
  expect(range.body).toMatchObject({ first: 2, head: 5, items: [{ id: 'p1' }, { id: 'x1' }] })
  const later = await get(`${events}/range?at=${at(4)}&limit=1`)
  expect(later.body).toMatchObject({ first: 4, items: [{ id: 'p2' }] })
  const overview = await get(`${events}/overview?buckets=1`)
  expect(overview.body).toEqual({
    ...{ head: 5, covered: 5, bucket_size: 5 },
    buckets: [
      {
        ...{ first: 1, last: 5, failed: 1, gap_seconds: 37 },
        ...{ started_at: expect.stringContaining(at(1)), ended_at: expect.stringContaining(at(41)) },
        kinds: { MessageEvent: 2, PauseEvent: 2, ConversationErrorEvent: 1 },
      },
    ],
  })
  const find = async (query: string) => (await get(`${events}/find?${query}`)).body
  expect(await find('failed=true')).toEqual({ positions: [3], next_from: null })
  expect(await find('kind=PauseEvent&limit=1')).toEqual({ positions: [2], next_from: 4 })
  expect(await find('kind=PauseEvent&from=5&direction=previous&limit=10')).toEqual({
    positions: [4, 2],
    next_from: null,
  })
  expect(await find('body=WORDS&limit=1')).toEqual({ positions: [1], next_from: 5 })
  expect(await find('body=words&from=4&direction=previous&limit=9')).toEqual({
    positions: [1],
    next_from: null,
  })
  expect(await find('body=words&failed=true')).toEqual({ positions: [], next_from: null })
  expect(await find('from=6')).toEqual({ positions: [], next_from: null })
})

test('the view names the events that the model sees, and the summaries of the others', async () => {
  const condensation = {
    ...{ id: 'c1', timestamp: at(7), kind: 'Condensation', source: 'environment', llm_response_id: 'r1' },
    ...{ forgotten_event_ids: ['m2', 'm3'], summary: 'what was said', summary_offset: 1 },
  }
  const messages = [1, 2, 3, 4].map((n) => messageLine(`m${n}`, at(n), `message ${n}`, 'user'))
  const id = await api.import(toJsonLines(...messages, condensation, pause('p1', 8)))
  const view = async () => (await get(`/api/conversations/${id}/view`)).body
  const condensed = {
    head: 6,
    ranges: [
      { first: 1, last: 1 },
      { first: 4, last: 4 },
    ],
    shortened_positions: [],
    branches: [],
    summaries: [{ position: 5, text: 'what was said' }],
  }
  expect(await view()).toMatchObject({ ...condensed, message_count: 3 })
  const back = {
    ...{ id: 'l1', timestamp: at(9), kind: 'ConversationStateUpdateEvent', source: 'environment' },
    ...{ key: 'leaf_event_id', value: 'm3' },
  }
  const branched = await api.import(toJsonLines(...messages, condensation, back))
  expect((await get(`/api/conversations/${branched}/view`)).body).toMatchObject({
    ...{ head: 6, ranges: [{ first: 1, last: 3 }], summaries: [], message_count: 3 },
    branches: [{ position: 6, from_position: 3 }],
  })
  expect(await get(`/api/conversations/${randomUUID()}/view`)).toMatchObject({ status: 404 })
})

test('invalid parts are refused with their place', async () => {
  const id = await api.import(log)
  const events = `/api/conversations/${id}/events`
  for (const query of [
    'range?first=0',
    'range?limit=501',
    'range?at=noon',
    'overview?buckets=0',
    'find?from=0',
    'find?failed=x',
  ])
    expect({ query, status: (await get(`${events}/${query}`)).status }).toEqual({ query, status: 422 })
  expect((await get(`${events}/range?first=1&at=${at(1)}`)).status).toBe(422)
  for (const query of ['range', 'overview', 'find'])
    expect((await get(`/api/conversations/${randomUUID()}/events/${query}`)).status).toBe(404)
})

test('a text is found in all conversations, by tag, and printed by the command', async () => {
  const word = `needle${randomUUID().replaceAll('-', '')}`
  const message = (text: string) => toJsonLines(messageLine(randomUUID(), at(1), text, 'user'))
  const [first, second] = [
    await api.import(message(`One ${word}!`)),
    await api.import(message(`Two ${word.toUpperCase()}?`)),
  ]
  await api.import(message('Other'))
  const search = async (query: string) => {
    const items: { conversation_id: string; hits: object[] }[] = []
    let page = ''
    do {
      const { status, body } = await get(`/api/conversations/search_text?body=${word}${query}${page}`)
      expect(status).toBe(200)
      items.push(...body.items)
      page = body.next_page_id === null ? '' : `&page_id=${body.next_page_id}`
    } while (page !== '')
    return items
  }
  const found = await search('')
  expect(found.map(({ conversation_id }) => conversation_id)).toEqual([second, first])
  expect(found[1]?.hits).toMatchObject([{ position: 1, text: `One ${word}!`, match: [4, 4 + word.length] }])
  await api.fetch(`/api/conversations/${first}`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ tags: { team: 'red' } }),
  })
  expect((await search('&tag=team:red')).map(({ conversation_id }) => conversation_id)).toEqual([first])
  expect((await get('/api/conversations/search_text')).status).toBe(422)
  const { stdout, code } = await runCli(['--url', api.endpoint.url, 'grep', word, '--tag', 'team=red'])
  expect({ stdout, code }).toMatchObject({ code: 0, stdout: expect.stringContaining(`  1  One ${word}!`) })
})
