import { expect } from 'vitest'
import { bash, brief, call, calls, finish } from '../support/agent-driver.ts'
import type { Event, Page } from '../support/agent-server-api.ts'
import { nowhere, openWire, prove } from './wire-server.ts'

const wire = openWire()
const path = (id: string, rest = '') => `/api/conversations/${id}/events${rest}`
const search = (id: string, query: Record<string, string> = {}) =>
  wire.must<Page>('GET', path(id, '/search'), { query })
const message = (text: string, more: object = {}) => ({
  body: { role: 'user', content: [{ type: 'text', text }], ...more },
})

/** All events of a page walk. */
async function walk(id: string, query: Record<string, string>): Promise<Event[]> {
  const found: Event[] = []
  for (let page_id: string | null = ''; page_id !== null; ) {
    const page: Page = await search(id, { ...query, ...(page_id === '' ? {} : { page_id }) })
    found.push(...page.items)
    page_id = page.next_page_id
  }
  return found
}

/** A conversation with twelve messages that nobody answered. */
async function talked(): Promise<string> {
  const { id } = await wire.idle()
  for (let n = 0; n < 12; n += 1)
    await wire.must('POST', path(id), message(`Number ${n} ${n % 2 ? 'ODD' : 'Even'}`))
  return id
}

prove(
  'GET /api/conversations/{id}/events/search',
  'walks all events in pages, in both directions',
  async () => {
    const id = await talked()
    const all = await walk(id, { limit: '100' })
    for (const limit of ['1', '5', '100']) {
      expect((await walk(id, { limit })).map((event) => event.id)).toEqual(all.map((event) => event.id))
      const back = await walk(id, { limit, sort_order: 'TIMESTAMP_DESC' })
      expect(back.map((event) => event.id)).toEqual(all.map((event) => event.id).reverse())
    }
    const times = all.map(({ timestamp }) => timestamp)
    expect(times).toEqual(times.toSorted())
    expect(new Set(times).size).toBe(times.length)
    expect(await search(id)).toHaveProperty('next_page_id', null)
  },
)

prove(
  'GET /api/conversations/{id}/events/search',
  'filters by kind, short or dotted, by source and by text',
  async () => {
    const id = await talked()
    const kinds = ['MessageEvent', 'openhands.sdk.event.llm_convertible.message.MessageEvent']
    for (const kind of kinds) expect(await walk(id, { kind })).toHaveLength(12)
    expect(await walk(id, { kind: 'PauseEvent' })).toHaveLength(0)
    expect(await walk(id, { source: 'user' })).toHaveLength(12)
    expect(await walk(id, { source: 'agent', kind: 'MessageEvent' })).toHaveLength(0)
    expect(await walk(id, { body: 'odd' })).toHaveLength(6)
    expect(await walk(id, { body: 'NUMBER 1' })).toHaveLength(3)
    expect(
      await walk(id, { body: 'number 1', source: 'user', kind: 'MessageEvent', limit: '1' }),
    ).toHaveLength(3)
  },
)

prove(
  'GET /api/conversations/{id}/events/search',
  'bounds by time: from inclusive, to exclusive, as instants',
  async () => {
    const id = await talked()
    const all = await walk(id, { kind: 'MessageEvent' })
    const moment = String(all[4]?.timestamp)
    const [from, to] = [{ timestamp__gte: moment }, { timestamp__lt: moment }]
    expect(await walk(id, { kind: 'MessageEvent', ...from })).toHaveLength(8)
    expect(await walk(id, { kind: 'MessageEvent', ...to })).toHaveLength(4)
    const zoned = new Date(/(Z|[+-]\d\d:\d\d)$/.test(moment) ? moment : `${moment}Z`)
    const later = new Date(zoned.getTime() + 3_600_000).toISOString().replace('Z', '+01:00')
    const before = await walk(id, { kind: 'MessageEvent', timestamp__lt: later })
    expect([4, 5]).toContain(before.length)
  },
)

prove(
  'GET /api/conversations/{id}/events/search',
  'refuses bad limits, bounds and pages, and knows its conversation',
  async () => {
    const { id } = await wire.idle()
    for (const limit of ['0', '101', '-1', 'x'])
      expect(await wire.status('GET', path(id, '/search'), { query: { limit } })).toBe(422)
    for (const query of [{ timestamp__gte: 'x' }, { sort_order: 'x' }, { page_id: 'no-such-page' }])
      expect([400, 422]).toContain(await wire.status('GET', path(id, '/search'), { query }))
    expect(await wire.ask('GET', path(nowhere, '/search'))).toMatchObject({
      status: 404,
      body: { detail: `Conversation not found: ${nowhere}` },
    })
  },
)

prove('GET /api/conversations/{id}/events/search', 'has no null members, and kind last', async () => {
  const { id } = await wire.played([bash('true'), finish()])
  const { items } = await search(id)
  const modelled = (value: unknown): boolean =>
    value !== null && (typeof value !== 'object' || Object.values(value).every((inner) => inner !== null))
  for (const event of items) {
    const { observation, value, tools, ...rest } = event
    expect(Object.values(rest).every(modelled)).toBe(true)
    expect(Object.keys(event).at(-1)).toBe('kind')
    expect([observation, value, tools]).toBeDefined()
  }
})

prove('GET /api/conversations/{id}/events/count', 'is a bare number with the filters of search', async () => {
  const id = await talked()
  const count = (query: Record<string, string> = {}) =>
    wire.must<number>('GET', path(id, '/count'), { query })
  expect(await count()).toBe((await walk(id, {})).length)
  for (const query of [{ kind: 'MessageEvent' }, { source: 'user' }, { body: 'ODD' }, { kind: 'PauseEvent' }])
    expect([query, await count(query)]).toEqual([query, (await walk(id, query)).length])
  const { body, type } = await wire.ask('GET', path(id, '/count'))
  expect([typeof body, type.startsWith('application/json')]).toEqual(['number', true])
  expect(await wire.status('GET', path(nowhere, '/count'))).toBe(404)
  expect(await wire.status('GET', path(id, '/count'), { query: { timestamp__lt: 'x' } })).toBe(422)
})

prove(
  'GET /api/conversations/{id}/events/{event_id}',
  'is the event of the search, 404 for an unknown id',
  async () => {
    const { id } = await wire.played()
    for (const event of (await search(id)).items)
      expect(await wire.must('GET', path(id, `/${event.id}`))).toMatchObject(event)
    for (const url of [path(id, '/none'), path(id, `/${nowhere}`), path(nowhere, '/none')])
      expect(await wire.status('GET', url)).toBe(404)
  },
)

prove(
  'GET /api/conversations/{id}/events',
  'answers ids of the query in order, null for the missing',
  async () => {
    const id = await talked()
    const [a, b] = (await search(id, { kind: 'MessageEvent', limit: '2' })).items
    for (const name of ['ids', 'event_ids']) {
      const query = `${name}=${b?.id}&${name}=none&${name}=${a?.id}`
      const found = await wire.must<(Event | null)[]>('GET', path(id), { query })
      expect(found.map((event) => event?.id ?? null)).toEqual([b?.id, null, a?.id])
    }
  },
)

prove('GET /api/conversations/{id}/events', 'answers ids of a body', async () => {
  const id = await talked()
  const [a] = (await search(id, { kind: 'MessageEvent', limit: '1' })).items
  const found = await wire.getWithBody(path(id), [a?.id, 'none'])
  expect(found).toMatchObject({ status: 200, body: [{ id: a?.id }, null] })
})

prove('POST /api/conversations/{id}/events', 'stores a message, and runs only when asked to', async () => {
  const { id } = await wire.idle()
  expect(await wire.must('POST', path(id), message('Wait.'))).toEqual({ success: true })
  expect((await wire.drive.info(id)).execution_status).toBe('idle')
  await wire.must('POST', path(id), message('Now.', { run: true, sender: 'ann', unknown: 1 }))
  const events = await wire.drive.rest(id)
  expect((await wire.drive.info(id)).execution_status).toBe('finished')
  expect(events.filter(({ source, kind }) => kind === 'MessageEvent' && source === 'user')).toMatchObject([
    { llm_message: { role: 'user', content: [{ type: 'text', text: 'Wait.' }] } },
    { llm_message: { role: 'user', content: [{ type: 'text', text: 'Now.' }] }, sender: 'ann' },
  ])
})

prove(
  'POST /api/conversations/{id}/events',
  'takes images and any text, and refuses what is no message',
  async () => {
    const { id } = await wire.idle()
    const pixel =
      'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const content = [
      { type: 'text', text: 'Zażółć 😀 \u0000 \u2028' },
      { type: 'image', image_urls: [pixel] },
    ]
    await wire.must('POST', path(id), { body: { role: 'user', content } })
    const [stored] = (await search(id, { kind: 'MessageEvent' })).items
    expect(stored).toMatchObject({ llm_message: { content } })
    const bad = [
      { role: 'assistant', content: [] },
      { role: 'x' },
      { content: [{ type: 'x' }] },
      { content: 5 },
      [],
    ]
    for (const body of bad) expect([body, await wire.status('POST', path(id), { body })]).toEqual([body, 422])
    expect(await wire.status('POST', path(nowhere), message('x'))).toBe(404)
  },
)

const waiting = async (script: readonly unknown[]) => {
  const { id } = await wire.drive.play(script, { confirmation_policy: { kind: 'AlwaysConfirm' } })
  await wire.drive.rest(id)
  expect((await wire.drive.info(id)).execution_status).toBe('waiting_for_confirmation')
  return id
}

prove(
  'POST /api/conversations/{id}/events/respond_to_confirmation',
  'accepted: the action is done and the run goes on',
  async () => {
    const id = await waiting([bash(`touch '${wire.directory}/accepted'`), finish()])
    expect(await wire.must('POST', path(id, '/respond_to_confirmation'), { body: { accept: true } })).toEqual(
      { success: true },
    )
    await wire.drive.rest(id)
    expect(await wire.bash(`ls '${wire.directory}'`)).toContain('accepted')
  },
)

prove(
  'POST /api/conversations/{id}/events/respond_to_confirmation',
  'rejected: every action is answered, nothing is done, idle',
  async () => {
    const script = [
      calls(call('terminal', { command: 'touch no1' }), call('terminal', { command: 'touch no2' })),
      finish(),
    ]
    const id = await waiting(script)
    await wire.must('POST', path(id, '/respond_to_confirmation'), {
      body: { accept: false, reason: 'Too risky' },
    })
    const rejections = (await wire.drive.events(id)).filter(({ kind }) => kind === 'UserRejectObservation')
    expect(rejections).toMatchObject([
      { rejection_reason: 'Too risky', rejection_source: 'user', action_id: expect.any(String) },
      { rejection_reason: 'Too risky', tool_name: 'terminal', tool_call_id: expect.any(String) },
    ])
    expect((await wire.drive.info(id)).execution_status).toBe('idle')
    expect(await wire.bash(`ls '${wire.directory}'`)).not.toContain('no1')
    const again = await wire.status('POST', path(id, '/respond_to_confirmation'), { body: { accept: false } })
    expect(again).toBe(200)
    expect((await wire.drive.events(id)).filter(({ kind }) => kind === 'UserRejectObservation')).toHaveLength(
      2,
    )
    expect(await wire.status('POST', path(id, '/respond_to_confirmation'), { body: {} })).toBe(422)
    expect(
      await wire.status('POST', path(nowhere, '/respond_to_confirmation'), { body: { accept: true } }),
    ).toBe(404)
  },
)

prove('ALL events of a run', 'have the order and the members that clients read', async () => {
  const file = `${wire.directory}/read.txt`
  const script = [
    { text: 'I look.', ...bash('echo out; (exit 3)') },
    calls(call('file_editor', { command: 'create', path: file, file_text: 'a\n' })),
    calls(
      call('task_tracker', { command: 'plan', task_list: [{ title: 'One', status: 'todo', notes: '' }] }),
    ),
    finish('Done.'),
  ]
  const tools = ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name }))
  const { id } = await wire.drive.create(
    { llm: { model: 'scripted/test', usage_id: 'agent', script }, tools },
    { initial_message: { content: 'Go.' } },
  )
  await wire.drive.rest(id)
  const { items } = await search(id)
  expect(items.map(brief)).toEqual([
    'SystemPromptEvent',
    'message:user',
    'execution_status=running',
    'ActionEvent:terminal',
    'result:terminal',
    'ActionEvent:file_editor',
    'result:file_editor',
    'ActionEvent:task_tracker',
    'result:task_tracker',
    'ActionEvent:finish',
    'result:finish',
    'execution_status=finished',
  ])
  for (const event of items) {
    expect(event).toMatchObject({
      id: expect.stringMatching(/./),
      timestamp: expect.stringMatching(/^\d{4}-/),
    })
    expect(['agent', 'user', 'environment']).toContain(event.source)
    for (const newer of ['parent_id', 'classification', 'extended_content'])
      if (event.kind !== 'MessageEvent') expect(event).not.toHaveProperty(newer)
  }
  const [, , , action, result, , edited, , planned] = items
  expect(action).toMatchObject({
    thought: [{ type: 'text', text: 'I look.' }],
    thinking_blocks: [],
    action: { command: 'echo out; (exit 3)', kind: 'TerminalAction' },
    tool_call: { name: 'terminal', arguments: expect.any(String) },
    llm_response_id: expect.any(String),
  })
  expect(result).toMatchObject({
    action_id: action?.id,
    tool_call_id: action?.tool_call_id,
    observation: {
      content: expect.arrayContaining([expect.objectContaining({ text: expect.stringContaining('out') })]),
      exit_code: 3,
      metadata: { exit_code: 3 },
      kind: 'TerminalObservation',
    },
  })
  expect(edited).toMatchObject({
    observation: { kind: 'FileEditorObservation', command: 'create', path: file, new_content: 'a\n' },
  })
  expect(planned).toMatchObject({
    observation: { kind: 'TaskTrackerObservation', task_list: [{ title: 'One', status: 'todo' }] },
  })
})
