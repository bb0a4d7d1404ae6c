import { randomUUID } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const { api } = await openAgentFixture()

const pause = '{"id":"p","timestamp":"2026-01-01T00:00:00Z","kind":"PauseEvent"}'

async function post(body: string, query = '') {
  return await api.requestJson<{ detail: { loc: unknown[]; msg: string; type: string }[] }>(
    `/api/conversations/import${query}`,
    {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body,
    },
  )
}

test('an export is the import, byte for byte, odd spacing and numbers included', async () => {
  const odd = toJsonLines(
    ' {"kind" : "PauseEvent" ,"id":"1","timestamp":"2026-01-01T00:00:00.1234567+01:00"}\r',
    '{"id":"2","timestamp":"2025-01-01","source":"environment","key":"k","value":1.00000000000000000001e2,"kind":"ConversationStateUpdateEvent"}',
    '{"kind":"ConversationStateUpdateEvent","value":"\\ud800 \\u00e9 é","key":"k","id":"3","timestamp":"2026-01-01 00:00:00Z"}',
  )
  const id = await api.import(odd)
  expect((await api.export(id)).toString()).toBe(odd)
})

test('an import returns 201 with the id and the number of events', async () => {
  const conversation_id = randomUUID()
  const meta = {
    conversation_id: conversation_id.toUpperCase().replaceAll('-', ''),
    title: 'A title',
    tags: { team: 'x' },
  }
  const answer = await post(toJsonLines(meta, pause))
  expect(answer).toEqual({ status: 201, body: { conversation_id, imported: 1 } })
  const info = await api.requestJson(`/api/conversations/${conversation_id}`)
  expect(info.body).toMatchObject({
    id: conversation_id,
    title: 'A title',
    tags: { team: 'x' },
    execution_status: 'idle',
  })
})

test('an import into an existing conversation appends, and a repeat changes nothing', async () => {
  const id = await api.import(toJsonLines(messageLine('a', '2026-01-01T00:00:00Z', 'one')))
  const more = toJsonLines({ conversation_id: id }, messageLine('b', '2026-01-01T00:00:01Z', 'two'))
  expect(await post(more)).toEqual({ status: 201, body: { conversation_id: id, imported: 1 } })
  expect(await post(more)).toEqual({ status: 201, body: { conversation_id: id, imported: 1 } })
  expect((await api.searchAll(id)).map((event) => event.id)).toEqual(['a', 'b'])
})

test('an event without id or timestamp receives them, strictly after its predecessor', async () => {
  const id = await api.import(
    toJsonLines(pause, '{"kind":"PauseEvent"}', '{"kind":"PauseEvent","source":"user"}'),
  )
  const [, second, third] = (await api.export(id)).toString().trimEnd().split('\n')
  expect(second).toMatch(
    /^\{"id":"[0-9a-f-]{36}","timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z","kind":"PauseEvent"\}$/,
  )
  expect(third).toMatch(/^\{"id":"[0-9a-f-]{36}","timestamp":"[^"]*","kind":"PauseEvent","source":"user"\}$/)
  expect(String(JSON.parse(String(third)).timestamp) > String(JSON.parse(String(second)).timestamp)).toBe(
    true,
  )
})

test.each([
  ['not JSON', '{"kind":', []],
  ['an unknown kind', '{"kind":"NewEvent","id":"x"}', ['kind']],
  ['no kind', '{"id":"x"}', ['kind']],
  ['a member twice', '{"kind":"NoSuchEvent","kind":"PauseEvent"}', ['kind']],
  ['an extra member', '{"kind":"PauseEvent","colour":"red"}', ['colour']],
  ['a member __proto__', '{"kind":"PauseEvent","__proto__":{"a":1}}', ['__proto__']],
  ['a missing member', '{"kind":"CondensationSummaryEvent"}', ['summary']],
  ['a malformed timestamp', '{"kind":"PauseEvent","timestamp":"noon"}', ['timestamp']],
  ['an unknown source', '{"kind":"PauseEvent","source":"hook"}', ['source']],
  [
    'a wrong type deep inside',
    messageLine('x', '2026-01-01', 'y').replace('"text":"y"', '"text":7'),
    ['llm_message', 'content', 0, 'text'],
  ],
])(
  '%s is refused with its line and location, and nothing of the import is stored',
  async (_, line, place) => {
    const conversation_id = randomUUID()
    const { status, body } = await post(
      toJsonLines({ conversation_id }, pause, line, '{"kind":"PauseEvent"}'),
    )
    expect(status).toBe(422)
    expect(body.detail[0]?.loc).toEqual(['body', 3, ...place])
    expect(body.detail[0]?.msg).toMatch(/^line 3: /)
    expect((await api.requestJson(`/api/conversations/${conversation_id}`)).status).toBe(404)
  },
)

test('a log without updates of its status has the status in which its run ended', async () => {
  const finish =
    '{"kind":"ObservationEvent","tool_name":"finish","tool_call_id":"c","action_id":"a","observation":{"kind":"FinishObservation","content":[]}}'
  const failure = '{"kind":"ConversationErrorEvent","source":"environment","code":"LLMError","detail":"x"}'
  const message = messageLine('m', '2026-01-01T00:00:00', 'Continue')
  const update = '{"kind":"ConversationStateUpdateEvent","key":"execution_status","value":"stuck"}'
  for (const [status, ...lines] of [
    ['finished', finish, pause],
    ['error', finish, failure],
    ['idle', finish, message],
    ['stuck', update, finish],
  ] as const) {
    const id = await api.import(toJsonLines(...lines))
    const { body } = await api.requestJson(`/api/conversations/${id}`)
    expect(body, lines.join()).toMatchObject({ execution_status: status })
  }
})

test('a refused import does not change an existing conversation', async () => {
  const id = await api.import(toJsonLines(pause))
  const many = Array.from({ length: 1500 }, (_, i) => ({
    id: `n${i}`,
    timestamp: '2026-01-01T00:00:01Z',
    kind: 'PauseEvent',
  }))
  expect((await post(toJsonLines({ conversation_id: id }, ...many, '{'))).status).toBe(422)
  expect((await api.export(id)).toString()).toBe(`${pause}\n`)
  await api.import(toJsonLines({ conversation_id: id }, ...many.slice(0, 3)))
  expect((await api.searchAll(id)).map((event) => event.id)).toEqual(['p', 'n0', 'n1', 'n2'])
})

test('the same id with other content is 409 with the line', async () => {
  const { status, body } = await post(toJsonLines(pause, pause.replace('}', ',"source":"user"}')))
  expect(status).toBe(409)
  expect(JSON.stringify(body)).toContain('line 2')
})

test('unknown kinds, members and timestamps are refused by default, and stored unchanged with unknown=keep', async () => {
  const newer = toJsonLines(
    '{"kind":"NewEvent","id":"1","timestamp":"2026-01-01T00:00:00Z","source":"hook","parent_id":null}',
    '{"kind":"PauseEvent","id":"2","timestamp":"half past ten","more":[1]}',
    '{"kind":"NewEvent","id":"1","timestamp":"2026-01-01T00:00:01Z","other":"bytes"}',
  )
  const refused = await post(newer)
  expect(refused.status).toBe(422)
  expect(refused.body.detail[0]?.msg).toMatch(/Unknown kind 'NewEvent'\. .*\?unknown=keep$/)
  const id = await api.import(newer, '?unknown=keep')
  expect((await api.export(id)).toString()).toBe(newer)
  expect((await api.searchAll(id, { kind: 'NewEvent' })).map((event) => event.timestamp)).toHaveLength(2)
  expect((await api.searchAll(id, { source: 'hook' })).map((event) => event.id)).toEqual(['1'])
  expect((await api.requestJson(`/api/conversations/${id}/events/1`)).body).toMatchObject({ source: 'hook' })
  expect((await post('{"kind":7}\n', '?unknown=keep')).status).toBe(422)
  expect((await post(toJsonLines(pause), '?unknown=drop')).status).toBe(422)
})

test('with unknown=keep a line with a member twice is stored byte for byte', async () => {
  const id = randomUUID()
  const twice =
    '{"id":"t","kind":"NoSuchEvent","kind":"PauseEvent","timestamp":"2026-01-01T00:00:00Z","a":{"b":1,"b":2}}'
  const answer = await post(toJsonLines({ conversation_id: id }, twice), '?unknown=keep')
  expect(answer).toMatchObject({ status: 201 })
  expect((await api.export(id)).toString()).toBe(`${twice}\n`)
})

test('export with meta begins with a line that an import accepts, and with gzip it is a gzip file', async () => {
  const id = await api.import(toJsonLines({ title: 'T', tags: { a: 'b' } }, pause))
  const meta = await (await api.fetch(`/api/conversations/${id}/export?meta=true`)).text()
  expect(meta).toBe(toJsonLines({ conversation_id: id, title: 'T', tags: { a: 'b' } }, pause))
  const gzip = await api.fetch(`/api/conversations/${id}/export?gzip=true`)
  expect(gunzipSync(Buffer.from(await gzip.arrayBuffer())).toString()).toBe(`${pause}\n`)
  expect((await api.requestJson(`/api/conversations/${randomUUID()}/export`)).status).toBe(404)
})

test('an empty import creates an empty conversation, and blank lines are skipped', async () => {
  const id = await api.import('')
  expect(await api.search(id)).toEqual({ items: [], next_page_id: null })
  expect(await api.count(await api.import(`\n${pause}\n\n  \n`))).toBe(1)
})

test('an imported conversation has the last status of its log, and nothing runs in it', async () => {
  const status = (value: string) => ({
    id: value,
    timestamp: '2026-01-01T00:00:00Z',
    kind: 'ConversationStateUpdateEvent',
    key: 'execution_status',
    value,
  })
  const statusOf = async (id: string) =>
    ((await api.requestJson(`/api/conversations/${id}`)).body as { execution_status: string })
      .execution_status
  expect(await statusOf(await api.import(toJsonLines(status('running'), status('finished'))))).toBe(
    'finished',
  )
  expect(await statusOf(await api.import(toJsonLines(status('running'))))).toBe('paused')
})
