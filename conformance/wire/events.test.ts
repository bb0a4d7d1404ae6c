import { expect } from 'vitest'
import { bashStep, eventLabel, finishStep, toolCall, toolCallsStep } from '../support/agent-driver.ts'
import type { ApiEvent, EventPage } from '../support/agent-server-api.ts'
import { openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()
const path = (id: string, rest = '') => `/api/conversations/${id}/events${rest}`
const search = (id: string, query: Record<string, string> = {}) =>
  wire.requestOrThrow<EventPage>('GET', path(id, '/search'), { query })
const messageRequest = (text: string, more: object = {}) => ({
  body: { role: 'user', content: [{ type: 'text', text }], ...more },
})

/** All events of a page walk. */
async function searchAll(id: string, query: Record<string, string>): Promise<ApiEvent[]> {
  const found: ApiEvent[] = []
  for (let page_id: string | null = ''; page_id !== null; ) {
    const page: EventPage = await search(id, { ...query, ...(page_id === '' ? {} : { page_id }) })
    found.push(...page.items)
    page_id = page.next_page_id
  }
  return found
}

/** A conversation with twelve unanswered messages. */
async function createWithMessages(): Promise<string> {
  const { id } = await wire.createIdle()
  for (let n = 0; n < 12; n += 1)
    await wire.requestOrThrow('POST', path(id), messageRequest(`Number ${n} ${n % 2 ? 'ODD' : 'Even'}`))
  return id
}

wireCase(
  'GET /api/conversations/{id}/events/search',
  'returns all events in pages, in both directions',
  async () => {
    const id = await createWithMessages()
    const all = await searchAll(id, { limit: '100' })
    for (const limit of ['1', '5', '100']) {
      expect((await searchAll(id, { limit })).map((event) => event.id)).toEqual(all.map((event) => event.id))
      const back = await searchAll(id, { limit, sort_order: 'TIMESTAMP_DESC' })
      expect(back.map((event) => event.id)).toEqual(all.map((event) => event.id).reverse())
    }
    const times = all.map(({ timestamp }) => timestamp)
    expect(times).toEqual(times.toSorted())
    expect(new Set(times).size).toBe(times.length)
    expect(await search(id)).toHaveProperty('next_page_id', null)
  },
)

wireCase(
  'GET /api/conversations/{id}/events/search',
  'filters by kind, short or dotted, by source and by text',
  async () => {
    const id = await createWithMessages()
    const kinds = ['MessageEvent', 'openhands.sdk.event.llm_convertible.message.MessageEvent']
    for (const kind of kinds) expect(await searchAll(id, { kind })).toHaveLength(12)
    expect(await searchAll(id, { kind: 'PauseEvent' })).toHaveLength(0)
    expect(await searchAll(id, { source: 'user' })).toHaveLength(12)
    expect(await searchAll(id, { source: 'agent', kind: 'MessageEvent' })).toHaveLength(0)
    expect(await searchAll(id, { body: 'odd' })).toHaveLength(6)
    expect(await searchAll(id, { body: 'NUMBER 1' })).toHaveLength(3)
    expect(
      await searchAll(id, { body: 'number 1', source: 'user', kind: 'MessageEvent', limit: '1' }),
    ).toHaveLength(3)
  },
)

wireCase(
  'GET /api/conversations/{id}/events/search',
  'bounds by time: from inclusive, to exclusive, as instants',
  async () => {
    const id = await createWithMessages()
    const all = await searchAll(id, { kind: 'MessageEvent' })
    const moment = String(all[4]?.timestamp)
    const [from, to] = [{ timestamp__gte: moment }, { timestamp__lt: moment }]
    expect(await searchAll(id, { kind: 'MessageEvent', ...from })).toHaveLength(8)
    expect(await searchAll(id, { kind: 'MessageEvent', ...to })).toHaveLength(4)
    const zoned = new Date(/(Z|[+-]\d\d:\d\d)$/.test(moment) ? moment : `${moment}Z`)
    const later = new Date(zoned.getTime() + 3_600_000).toISOString().replace('Z', '+01:00')
    const before = await searchAll(id, { kind: 'MessageEvent', timestamp__lt: later })
    expect([4, 5]).toContain(before.length)
  },
)

wireCase(
  'GET /api/conversations/{id}/events/search',
  'refuses invalid limits, bounds and pages, and an unknown conversation',
  async () => {
    const { id } = await wire.createIdle()
    for (const limit of ['0', '101', '-1', 'x'])
      expect(await wire.requestStatus('GET', path(id, '/search'), { query: { limit } })).toBe(422)
    for (const query of [{ timestamp__gte: 'x' }, { sort_order: 'x' }, { page_id: 'no-such-page' }])
      expect([400, 422]).toContain(await wire.requestStatus('GET', path(id, '/search'), { query }))
    expect(await wire.request('GET', path(unknownId, '/search'))).toMatchObject({
      status: 404,
      body: { detail: `Conversation not found: ${unknownId}` },
    })
  },
)

wireCase('GET /api/conversations/{id}/events/search', 'has no null members, and kind last', async () => {
  const { id } = await wire.createFinished([bashStep('true'), finishStep()])
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

wireCase(
  'GET /api/conversations/{id}/events/count',
  'returns a bare number, with the filters of search',
  async () => {
    const id = await createWithMessages()
    const count = (query: Record<string, string> = {}) =>
      wire.requestOrThrow<number>('GET', path(id, '/count'), { query })
    expect(await count()).toBe((await searchAll(id, {})).length)
    for (const query of [
      { kind: 'MessageEvent' },
      { source: 'user' },
      { body: 'ODD' },
      { kind: 'PauseEvent' },
    ])
      expect([query, await count(query)]).toEqual([query, (await searchAll(id, query)).length])
    const { body, type } = await wire.request('GET', path(id, '/count'))
    expect([typeof body, type.startsWith('application/json')]).toEqual(['number', true])
    expect(await wire.requestStatus('GET', path(unknownId, '/count'))).toBe(404)
    expect(await wire.requestStatus('GET', path(id, '/count'), { query: { timestamp__lt: 'x' } })).toBe(422)
  },
)

wireCase(
  'GET /api/conversations/{id}/events/{event_id}',
  'returns the event of the search, 404 for an unknown id',
  async () => {
    const { id } = await wire.createFinished()
    for (const event of (await search(id)).items)
      expect(await wire.requestOrThrow('GET', path(id, `/${event.id}`))).toMatchObject(event)
    for (const url of [path(id, '/none'), path(id, `/${unknownId}`), path(unknownId, '/none')])
      expect(await wire.requestStatus('GET', url)).toBe(404)
  },
)

wireCase(
  'GET /api/conversations/{id}/events',
  'returns the ids of the query in order, null for unknown ones',
  async () => {
    const id = await createWithMessages()
    const [a, b] = (await search(id, { kind: 'MessageEvent', limit: '2' })).items
    for (const name of ['ids', 'event_ids']) {
      const query = `${name}=${b?.id}&${name}=none&${name}=${a?.id}`
      const found = await wire.requestOrThrow<(ApiEvent | null)[]>('GET', path(id), { query })
      expect(found.map((event) => event?.id ?? null)).toEqual([b?.id, null, a?.id])
    }
  },
)

wireCase('GET /api/conversations/{id}/events', 'returns the ids of a body', async () => {
  const id = await createWithMessages()
  const [a] = (await search(id, { kind: 'MessageEvent', limit: '1' })).items
  const found = await wire.getWithBody(path(id), [a?.id, 'none'])
  expect(found).toMatchObject({ status: 200, body: [{ id: a?.id }, null] })
})

wireCase('POST /api/conversations/{id}/events', 'stores a message, and runs only with `run`', async () => {
  const { id } = await wire.createIdle()
  expect(await wire.requestOrThrow('POST', path(id), messageRequest('Wait.'))).toEqual({ success: true })
  expect((await wire.driver.getInfo(id)).execution_status).toBe('idle')
  await wire.requestOrThrow(
    'POST',
    path(id),
    messageRequest('Now.', { run: true, sender: 'ann', unknown: 1 }),
  )
  const events = await wire.driver.waitUntilIdle(id)
  expect((await wire.driver.getInfo(id)).execution_status).toBe('finished')
  expect(events.filter(({ source, kind }) => kind === 'MessageEvent' && source === 'user')).toMatchObject([
    { llm_message: { role: 'user', content: [{ type: 'text', text: 'Wait.' }] } },
    { llm_message: { role: 'user', content: [{ type: 'text', text: 'Now.' }] }, sender: 'ann' },
  ])
})

wireCase(
  'POST /api/conversations/{id}/events',
  'accepts images and any text, and refuses an invalid message',
  async () => {
    const { id } = await wire.createIdle()
    const pixel =
      'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const content = [
      { type: 'text', text: 'Zażółć 😀 \u0000 \u2028' },
      { type: 'image', image_urls: [pixel] },
    ]
    await wire.requestOrThrow('POST', path(id), { body: { role: 'user', content } })
    const [stored] = (await search(id, { kind: 'MessageEvent' })).items
    expect(stored).toMatchObject({ llm_message: { content } })
    const bad = [
      { role: 'assistant', content: [] },
      { role: 'x' },
      { content: [{ type: 'x' }] },
      { content: 5 },
      [],
    ]
    for (const body of bad)
      expect([body, await wire.requestStatus('POST', path(id), { body })]).toEqual([body, 422])
    expect(await wire.requestStatus('POST', path(unknownId), messageRequest('x'))).toBe(404)
  },
)

const createWaitingForConfirmation = async (script: readonly unknown[]) => {
  const { id } = await wire.driver.createScripted(script, { confirmation_policy: { kind: 'AlwaysConfirm' } })
  await wire.driver.waitUntilIdle(id)
  expect((await wire.driver.getInfo(id)).execution_status).toBe('waiting_for_confirmation')
  return id
}

wireCase(
  'POST /api/conversations/{id}/events/respond_to_confirmation',
  'accepted: the action is executed and the run continues',
  async () => {
    const id = await createWaitingForConfirmation([
      bashStep(`touch '${wire.directory}/accepted'`),
      finishStep(),
    ])
    expect(
      await wire.requestOrThrow('POST', path(id, '/respond_to_confirmation'), { body: { accept: true } }),
    ).toEqual({ success: true })
    await wire.driver.waitUntilIdle(id)
    expect(await wire.runCommand(`ls '${wire.directory}'`)).toContain('accepted')
  },
)

wireCase(
  'POST /api/conversations/{id}/events/respond_to_confirmation',
  'rejected: every action is answered, none is executed, and the conversation is idle',
  async () => {
    const script = [
      toolCallsStep(
        toolCall('terminal', { command: 'touch no1' }),
        toolCall('terminal', { command: 'touch no2' }),
      ),
      finishStep(),
    ]
    const id = await createWaitingForConfirmation(script)
    await wire.requestOrThrow('POST', path(id, '/respond_to_confirmation'), {
      body: { accept: false, reason: 'Too risky' },
    })
    const rejections = (await wire.driver.getEvents(id)).filter(
      ({ kind }) => kind === 'UserRejectObservation',
    )
    expect(rejections).toMatchObject([
      { rejection_reason: 'Too risky', rejection_source: 'user', action_id: expect.any(String) },
      { rejection_reason: 'Too risky', tool_name: 'terminal', tool_call_id: expect.any(String) },
    ])
    expect((await wire.driver.getInfo(id)).execution_status).toBe('idle')
    expect(await wire.runCommand(`ls '${wire.directory}'`)).not.toContain('no1')
    const again = await wire.requestStatus('POST', path(id, '/respond_to_confirmation'), {
      body: { accept: false },
    })
    expect(again).toBe(200)
    expect(
      (await wire.driver.getEvents(id)).filter(({ kind }) => kind === 'UserRejectObservation'),
    ).toHaveLength(2)
    expect(await wire.requestStatus('POST', path(id, '/respond_to_confirmation'), { body: {} })).toBe(422)
    expect(
      await wire.requestStatus('POST', path(unknownId, '/respond_to_confirmation'), {
        body: { accept: true },
      }),
    ).toBe(404)
  },
)

wireCase('ALL events of a run', 'have the order and the members that clients read', async () => {
  const file = `${wire.directory}/read.txt`
  const script = [
    { text: 'I look.', ...bashStep('echo out; (exit 3)') },
    toolCallsStep(toolCall('file_editor', { command: 'create', path: file, file_text: 'a\n' })),
    toolCallsStep(
      toolCall('task_tracker', { command: 'plan', task_list: [{ title: 'One', status: 'done', notes: '' }] }),
    ),
    finishStep('Done.'),
  ]
  const tools = ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name }))
  const { id } = await wire.driver.create(
    { llm: { model: 'scripted/test', usage_id: 'agent', script }, tools },
    { initial_message: { content: [{ type: 'text', text: 'Go.' }] } },
  )
  await wire.driver.waitUntilIdle(id)
  const { items } = await search(id)
  expect(items.map(eventLabel)).toEqual([
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
    observation: { kind: 'TaskTrackerObservation', task_list: [{ title: 'One', status: 'done' }] },
  })
})
