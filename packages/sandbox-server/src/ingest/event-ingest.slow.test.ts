import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'

const largeTestTimeoutMs = 60_000

/** A test server with a sandbox that sends events; its agent server does not exist. */
async function openIngest() {
  const stage = await openTestServer()
  stage.sandboxes.next = { status: 'RUNNING' }
  const { id } = await stage.sandboxes.start({ owner: 'ada' })
  const testSandbox = stage.sandboxes.getSandbox(id)
  testSandbox.url = 'http://127.0.0.1:9'
  const key = { 'x-session-api-key': testSandbox.key }
  return {
    ...stage,
    sandbox: id,
    testSandbox,
    send: (conversation: string, body: string, headers: Record<string, string> = {}) =>
      stage.call('POST', `/webhooks/events/${conversation}`, body, { ...key, ...headers }),
    sendAfter: (conversation: string, after: number, events: readonly string[]) =>
      stage.call('POST', `/webhooks/events/${conversation}`, `[${events.join(',')}]`, {
        ...key,
        'x-slipway-after': String(after),
      }),
    report: (info: object) => stage.call('POST', '/webhooks/conversations', info, key),
    log: async (conversation: string) =>
      (await (await stage.open('GET', `/conversation/${conversation}/events/export`)).text())
        .split('\n')
        .slice(0, -1),
  }
}

function event(number: number, more: object = {}): string {
  const seconds = String(number % 60).padStart(2, '0')
  const minutes = String(Math.floor(number / 60)).padStart(2, '0')
  return JSON.stringify({
    id: `e${number}`,
    timestamp: `2026-03-01T10:${minutes}:${seconds}.000000`,
    kind: 'PauseEvent',
    source: 'user',
    ...more,
  })
}

function stateUpdate(number: number, key: string, value: unknown): string {
  return event(number, { kind: 'ConversationStateUpdateEvent', source: 'environment', key, value })
}

test('events are stored byte for byte, also unknown ones, and a repeated batch stores nothing', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const odd =
    '{ "kind" : "OfTomorrow", "id":"x/1", "timestamp":"2026-03-01T10:00:01Z", "n": 1.50e2, "é":"\\u00e9" }'
  const body = ` [\n${event(0)} , ${odd}\n,${event(2)} ] `
  expect(await ingest.send(id, body)).toEqual({ status: 200, json: { success: true } })
  expect(await ingest.send(id, body)).toEqual({ status: 200, json: { success: true } })
  expect(await ingest.log(id)).toEqual([event(0), odd, event(2)])
  expect(await ingest.send(id, '[]')).toMatchObject({ status: 200 })
  const info = await ingest.conversation(id)
  expect(info).toMatchObject({
    sandbox_id: ingest.sandbox,
    created_by_user_id: 'ada',
    title: `Conversation ${id.slice(0, 5)}`,
  })
})

test('with positions: stored events are skipped, missing ones requested', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  expect(await ingest.sendAfter(id, 2, [event(2)])).toMatchObject({ status: 409, json: { head: 0 } })
  expect(await ingest.sendAfter(id, 0, [event(0), event(1)])).toMatchObject({ status: 200 })
  expect(await ingest.sendAfter(id, 1, [event(1), event(2)])).toMatchObject({ status: 200 })
  expect(await ingest.sendAfter(id, 4, [event(4)])).toMatchObject({ status: 409, json: { head: 3 } })
  expect((await ingest.sendAfter(id, 4, [event(4)])).json.detail).toMatch(/position 3/)
  expect(await ingest.log(id)).toEqual([event(0), event(1), event(2)])
  expect(ingest.logged.join()).not.toContain('"error"')
  // An agent server with a new log: unknown events are stored, and the difference is logged once.
  expect(await ingest.sendAfter(id, 0, [event(10), event(1)])).toMatchObject({ status: 200 })
  expect(await ingest.sendAfter(id, 0, [event(10), event(1)])).toMatchObject({ status: 200 })
  expect(await ingest.log(id)).toEqual([event(0), event(1), event(2), event(10)])
  expect(ingest.logged.filter((line) => line.includes('other events than were stored'))).toHaveLength(1)
  expect((await ingest.send(id, '[]', { 'x-slipway-after': 'x' })).status).toBe(422)
  expect((await ingest.send(id, '[]', { 'x-slipway-after': '-1' })).status).toBe(422)
})

test('whether nothing is missing is known by the number of events and by the newest one', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  await ingest.sendAfter(id, 0, [event(0), event(1)])
  const hasAll = (count: number, last: string | undefined, sandbox = ingest.sandbox, conversation = id) =>
    ingest.ingest.hasAll(sandbox, { conversation, count, last })
  expect(await hasAll(2, 'e1')).toBe(true)
  expect(await hasAll(3, 'e2')).toBe(false)
  expect(await hasAll(2, 'of another log')).toBe(false)
  expect(await hasAll(2, 'e1', 'another sandbox')).toBe(false)
  expect(await hasAll(1, 'e1', ingest.sandbox, randomUUID())).toBe(false)
  expect(await hasAll(0, undefined, ingest.sandbox, randomUUID())).toBe(true)
  // What an agent server still has of a removed conversation is not wanted.
  await ingest.call('DELETE', `/app-conversations/${id}`)
  expect(await hasAll(3, 'e2')).toBe(true)
})

test('an event with a member twice is counted when it is stored, not when it is delivered again', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const twice = (number: number) => event(number).replace('{', '{"source":"agent",')
  for (const body of [`[${twice(0)}]`, `[${twice(0)}]`, `[${twice(0)},${twice(1)},${event(2)}]`])
    expect((await ingest.send(id, body)).status).toBe(200)
  expect((await ingest.sendAfter(id, 1, [twice(1), event(2), twice(3)])).status).toBe(200)
  expect((await ingest.ingest.duplicates.get()).values).toMatchObject([{ value: 3 }])
  expect(ingest.logged.filter((line) => line.includes('have a member twice'))).toHaveLength(1)
})

test('with repeated, split and lost batches the log still equals the sender’s', {
  timeout: largeTestTimeoutMs,
}, async () => {
  await using ingest = await openIngest()
  const steps = fc.array(
    fc.record({
      size: fc.integer({ min: 1, max: 6 }),
      back: fc.integer({ min: 0, max: 5 }),
      isLost: fc.boolean(),
    }),
    { minLength: 1, maxLength: 12 },
  )
  await fc.assert(
    fc.asyncProperty(steps, async (turns) => {
      const id = randomUUID()
      const all = Array.from({ length: 25 }, (_, number) => event(number))
      let cursor = 0
      for (const { size, back, isLost } of turns) {
        const after = Math.max(0, cursor - back)
        const batch = all.slice(after, after + size)
        const { status, json } = await ingest.sendAfter(id, after, batch)
        if (status === 409) cursor = json.head
        else if (!isLost) cursor = Math.max(cursor, after + batch.length)
      }
      while (cursor < all.length) {
        const { status, json } = await ingest.sendAfter(id, cursor, all.slice(cursor, cursor + 10))
        cursor = status === 409 ? json.head : cursor + 10
      }
      expect(await ingest.log(id)).toEqual(all)
    }),
    { numRuns: 25 },
  )
})

test('concurrent batches of one conversation are stored once and in order', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const all = Array.from({ length: 40 }, (_, number) => event(number))
  await Promise.all([0, 0, 0, 0, 0].map((after) => ingest.sendAfter(id, after, all)))
  expect(await ingest.log(id)).toEqual(all)
})

test('a sandbox reaches only its own conversations', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  await ingest.send(id, `[${event(0)}]`)
  const { id: other } = await ingest.sandboxes.start({ owner: 'ada' })
  const { id: foreign } = await ingest.sandboxes.start({ owner: 'bob' })
  for (const sandbox of [other, foreign]) {
    const headers = { 'x-session-api-key': ingest.sandboxes.getSandbox(sandbox).key }
    expect((await ingest.call('POST', `/webhooks/events/${id}`, `[${event(1)}]`, headers)).status).toBe(401)
    expect(
      (await ingest.call('POST', '/webhooks/conversations', { id, title: 'Mine' }, headers)).status,
    ).toBe(401)
    expect(
      (await ingest.call('POST', '/webhooks/conversations', { id, execution_status: 'deleting' }, headers))
        .status,
    ).toBe(401)
  }
  const wrong = { 'x-session-api-key': 'sk-wrong' }
  expect((await ingest.call('POST', `/webhooks/events/${id}`, '[]', wrong)).status).toBe(401)
  expect((await ingest.call('POST', `/webhooks/events/${id}`, '[]')).status).toBe(401)
  expect(await ingest.log(id)).toEqual([event(0)])
})

test.each([
  ['', 422],
  ['{}', 422],
  ['[1]', 422],
  ['[{}]', 422],
  ['[{"kind":"X"}', 422],
  ['[{"kind":"X"}]x', 422],
  ['[{"kind":"X","id":1}]', 422],
  ['[{"kind":"X","id":""}]', 422],
  ['[{"kind":"X"},]', 422],
  [`[${'['.repeat(5000)}${']'.repeat(5000)}]`, 422],
  [`[${'{"kind":"X"},'.repeat(10_001)}{"kind":"X"}]`, 413],
])('an invalid body is refused as a whole (%#)', async (body, status) => {
  await using ingest = await openIngest()
  const id = randomUUID()
  expect((await ingest.send(id, body)).status).toBe(status)
  expect((await ingest.send(id, `[${event(0)},${body.slice(1)}`)).status).toBeGreaterThanOrEqual(400)
  expect(await ingest.log(id)).toEqual([])
})

test('an issue has the index of its event', async () => {
  await using ingest = await openIngest()
  const { json } = await ingest.send(randomUUID(), `[${event(0)},{"kind":"X","timestamp":5}]`)
  expect(json.detail[0]).toMatchObject({ loc: ['body', 1, 'timestamp'], type: 'string_type' })
})

test('a single event may be larger than a batch', { timeout: largeTestTimeoutMs }, async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const large = event(0, { text: 'x'.repeat(20 * 1024 * 1024) })
  expect((await ingest.send(id, `[${large},${event(1)}]`)).status).toBe(413)
  expect((await ingest.send(id, `[${event(1)},${large}]`)).status).toBe(413)
  expect((await ingest.send(id, `[${large}\n]\n`)).status).toBe(200)
  expect((await ingest.log(id)).map(({ length }) => length)).toEqual([large.length])
  expect((await ingest.send(id, `[${event(2, { text: 'x'.repeat(65 * 1024 * 1024) })}]`)).status).toBe(413)
})

test('status and usage follow the events, the title follows the agent server until a user sets one', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const stats = (cost: number) => ({ usage_to_metrics: { agent: { accumulated_cost: cost } } })
  await ingest.send(
    id,
    `[${stateUpdate(0, 'execution_status', 'running')},${stateUpdate(1, 'stats', stats(2))}]`,
  )
  await ingest.send(
    id,
    `[${stateUpdate(2, 'execution_status', 'idle')},${stateUpdate(3, 'stats', stats(1))}]`,
  )
  const [row] = await ingest.controlPlane.conversations.get([id])
  expect(row?.status).toBe('idle')
  expect(await ingest.conversation(id)).toMatchObject({
    metrics: { accumulated_cost: 2 },
    execution_status: null,
  })
  const begun = '2026-01-02T03:04:05.000006Z'
  const info = {
    id,
    title: 'By the agent',
    tags: { a: '1' },
    execution_status: 'running',
    metrics: { accumulated_cost: 9 },
    agent: { llm: { model: 'x/y' } },
    created_at: begun,
  }
  expect((await ingest.report(info)).status).toBe(200)
  expect(await ingest.conversation(id)).toMatchObject({
    title: 'By the agent',
    tags: { a: '1' },
    llm_model: 'x/y',
    metrics: { accumulated_cost: 9 },
  })
  await ingest.call('PATCH', `/app-conversations/${id}`, { title: 'By a person' })
  await ingest.report({
    ...info,
    title: 'Again',
    tags: { b: '2' },
    metrics: { accumulated_cost: 1 },
    execution_status: 'nonsense',
  })
  expect(await ingest.conversation(id)).toMatchObject({
    title: 'By a person',
    tags: { a: '1', b: '2' },
    metrics: { accumulated_cost: 9 },
  })
  await ingest.report({ id, execution_status: 'deleting' })
  expect((await ingest.conversation(id)).title).toBe('By a person')
  const fresh = randomUUID()
  await ingest.report({ ...info, id: fresh, parent_conversation_id: id })
  expect(await ingest.conversation(fresh)).toMatchObject({
    created_at: begun,
    parent_conversation_id: id.replaceAll('-', ''),
  })
  expect((await ingest.conversation(id)).sub_conversation_ids).toEqual([fresh.replaceAll('-', '')])
  await ingest.report({ id: randomUUID(), execution_status: 'deleting' })
  expect((await ingest.call('GET', '/app-conversations/count?include_sub_conversations=true')).json).toBe(2)
})

test('any report of a conversation is accepted or refused without an internal error', async () => {
  await using ingest = await openIngest()
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(
        fc.constantFrom(
          'title',
          'tags',
          'metrics',
          'agent',
          'execution_status',
          'created_at',
          'parent_conversation_id',
          'stats',
        ),
        fc.jsonValue(),
      ),
      async (info) => {
        const { status } = await ingest.report({ ...info, id: randomUUID() })
        expect(status).toBeLessThan(500)
      },
    ),
    { numRuns: 60 },
  )
  expect(ingest.logged.join()).not.toContain('request failed')
})

test('late events do not restore a deleted conversation, also after a restart', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const stays = randomUUID()
  await ingest.send(stays, `[${event(0)}]`)
  await ingest.send(id, `[${event(0)}]`)
  expect((await ingest.call('DELETE', `/app-conversations/${id}`)).status).toBe(200)
  expect(ingest.sandboxes.entries.has(ingest.sandbox)).toBe(true)
  const { RemovedConversations } = await import('../conversations/records/removed-conversations.ts')
  expect(await new RemovedConversations(ingest.controlPlane.documents).has(id, ingest.sandbox)).toBe(true)
  expect((await ingest.sendAfter(id, 1, [event(1)])).status).toBe(200)
  expect((await ingest.report({ id, title: 'Back' })).status).toBe(200)
  expect(await ingest.conversation(id)).toBeNull()
  expect(await ingest.log(id)).toEqual([])
  // Its agent server says that it has it no more.
  await ingest.report({ id, execution_status: 'deleting' })
  expect(await new RemovedConversations(ingest.controlPlane.documents).has(id, ingest.sandbox)).toBe(false)
})

test('history is read by filters, ids and pages, and a known page answers 304', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const hex = id.replaceAll('-', '')
  const all = Array.from({ length: 30 }, (_, number) =>
    event(number, number % 3 === 0 ? { source: 'agent' } : {}),
  )
  await ingest.send(id, `[${all.join(',')}]`)
  const found: unknown[] = []
  for (let page = ''; ; ) {
    const { json } = await ingest.call(
      'GET',
      `/conversation/${hex}/events/search?limit=7&source__eq=user${page}`,
    )
    found.push(...json.items)
    if (json.next_page_id === null) break
    page = `&page_id=${json.next_page_id}`
  }
  expect(found).toHaveLength(20)
  expect((await ingest.call('GET', `/conversation/${hex}/events/count?source=agent`)).json).toBe(10)
  const got = await ingest.call('GET', `/conversations/${hex}/events?id=e1`)
  expect(got.status).toBe(404)
  expect((await ingest.call('GET', `/conversation/${hex}/events?id=e1&id=nope`)).json).toEqual([
    JSON.parse(event(1)),
    null,
  ])
  expect(
    (await ingest.call('GET', `/conversation/${hex}/events?id=e1`, undefined, { 'x-user': 'bob' })).json,
  ).toEqual([null])
  const address = `/conversation/${hex}/events/search?limit=5`
  const etag = async () => (await ingest.open('GET', address)).headers.get('etag')
  await etag()
  await etag()
  const known = await etag()
  expect(known).not.toBeNull()
  expect((await ingest.open('GET', address, undefined, { 'if-none-match': String(known) })).status).toBe(304)
  const zipped = await ingest.open('GET', `/conversation/${hex}/events/export?gzip=true&meta=true`)
  expect(zipped.headers.get('content-type')).toBe('application/gzip')
  const { gunzipSync } = await import('node:zlib')
  const lines = gunzipSync(Buffer.from(await zipped.arrayBuffer()))
    .toString()
    .split('\n')
  expect(JSON.parse(String(lines[0]))).toMatchObject({
    conversation_id: id,
    title: `Conversation ${hex.slice(0, 5)}`,
  })
  expect(lines.slice(1, -1)).toEqual(all)
  expect((await ingest.call('GET', `/conversation/${hex}/events/search?page_id=x`)).status).toBe(422)
})

test('an event with a member twice is stored as it came and stops nothing', async () => {
  await using ingest = await openIngest()
  const id = randomUUID()
  const twice = event(1).replace('"kind":"PauseEvent"', '"kind":"NoSuchEvent","kind":"PauseEvent"')
  expect(await ingest.send(id, `[${event(0)},${twice},${event(2)}]`)).toMatchObject({ status: 200 })
  expect(await ingest.log(id)).toEqual([event(0), twice, event(2)])
})
