import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'

const key = 'responses-test-key-1'
const idHeader = 'x-openhands-serverconversation-id'
const server = await OwnAgentServer.open({ sessionKey: key, isInProcess: true })
afterAll(async () => await server[Symbol.asyncDispose]())

type Json = Record<string, unknown>

interface Resource extends Json {
  readonly id: string
  readonly status: string
  readonly output: readonly (Json & { readonly type: string; readonly content?: { text: string }[] })[]
}

interface Answer {
  readonly status: number
  readonly body: Json & Resource & { readonly error: Json | null }
  readonly conversation: string
}

/** Saves a profile with a scripted model, and returns the id of the model. */
async function createModel(...script: readonly unknown[]): Promise<string> {
  const name = `p${randomUUID().slice(0, 8)}`
  const { status } = await server.api.sendJson('POST', `/api/profiles/${name}`, {
    llm: { model: 'scripted/x', script },
  })
  expect(status).toBeLessThan(300)
  return `openhands_${name}`
}

async function call(method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${server.url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return {
    status: response.status,
    body: (await response.json()) as Answer['body'],
    conversation: response.headers.get(idHeader) ?? '',
  }
}

async function create(body: object): Promise<Answer> {
  const answer = await call('POST', '/responses', body)
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  return answer
}

const textOf = ({ body }: Pick<Answer, 'body'>) =>
  body.output.flatMap(({ content = [] }) => content.map(({ text }) => text)).join('|')

/** The events of a stream, without its end. */
async function stream(body: object): Promise<Json[]> {
  const response = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
  })
  expect(response.status).toBe(200)
  const frames = (await response.text()).split('\n\n').filter((frame) => frame.startsWith('event: '))
  return frames.map((frame) => {
    const [, type, data = ''] = /^event: (.*)\ndata: (.*)$/s.exec(frame) ?? []
    const event = JSON.parse(data) as Json
    expect(event.type).toBe(type)
    return event
  })
}

const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather at a place.',
  parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
}
const weatherCall = { tool_calls: [{ name: 'get_weather', arguments: { place: 'Oslo' } }] }

/** The requests of the published compliance tests, in our words. */
test('a response has every member of the document', async () => {
  const model = await createModel({ text: 'Hi.' }, { text: 'Again.' })
  const image =
    'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
  for (const input of [
    [{ type: 'message', role: 'user', content: 'Greet me.' }],
    [
      { type: 'message', role: 'system', content: 'Speak like a sailor.' },
      { type: 'message', role: 'user', content: 'Greet me.' },
    ],
    [
      { type: 'message', role: 'user', content: 'I am Bo.' },
      { type: 'message', role: 'assistant', content: 'Hello Bo.', phase: 'final_answer' },
      { type: 'message', role: 'user', content: 'Who am I?' },
    ],
    [
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is this?' },
          { type: 'input_image', image_url: image },
        ],
      },
    ],
  ]) {
    const { body } = await create({ model, input })
    expect(body).toEqual({
      id: expect.stringMatching(/^resp_[0-9a-f]{64}$/),
      ...{ object: 'response', status: 'completed', model, created_at: expect.any(Number) },
      ...{ completed_at: expect.any(Number), incomplete_details: null, error: null },
      ...{ previous_response_id: null, instructions: null, metadata: {}, tools: [], tool_choice: 'none' },
      ...{ parallel_tool_calls: false, text: { format: { type: 'text' } }, temperature: 1, top_p: 1 },
      ...{ top_logprobs: 0, presence_penalty: 0, frequency_penalty: 0, truncation: 'auto' },
      ...{ reasoning: { effort: null, summary: null }, max_output_tokens: null, max_tool_calls: null },
      ...{ store: true, background: false, service_tier: 'default', user: null },
      ...{ safety_identifier: null, prompt_cache_key: null },
      output: [
        {
          ...{ type: 'message', id: expect.stringMatching(/^msg_[0-9a-f]{64}$/), role: 'assistant' },
          ...{
            status: 'completed',
            content: [{ type: 'output_text', text: 'Hi.', annotations: [], logprobs: [] }],
          },
        },
      ],
      usage: {
        ...{ input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
        ...{ total_tokens: expect.any(Number), input_tokens_details: { cached_tokens: 0 } },
        output_tokens_details: { reasoning_tokens: 0 },
      },
    })
    expect((await call('GET', `/responses/${body.id}`)).body).toEqual(body)
  }
})

test('a stream is the response in pieces, and what a GET shows later', async () => {
  const model = await createModel(
    { text: 'I look.', tool_calls: [{ name: 'think', arguments: { thought: 'x' } }] },
    { text: 'One two three.', delta_ms: 5 },
  )
  const events = await stream({ model, input: 'Count.' })
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index))
  const types = events.map(({ type }) => type)
  expect(types.slice(0, 4)).toEqual([
    ...['response.created', 'response.in_progress'],
    ...['response.output_item.added', 'response.content_part.added'],
  ])
  expect(types.slice(-4)).toEqual([
    ...['response.output_text.done', 'response.content_part.done'],
    ...['response.output_item.done', 'response.completed'],
  ])
  const deltas = events.filter(({ type }) => type === 'response.output_text.delta')
  expect(deltas.length).toBeGreaterThan(2)
  const { response } = events.at(-1) as { response: Resource }
  expect(response.output.map((item) => item.content?.[0]?.text)).toEqual(['I look.', 'One two three.'])
  response.output.forEach((item, index) => {
    const own = deltas.filter(({ item_id, output_index }) => item_id === item.id && output_index === index)
    expect(own.map(({ delta }) => delta).join('')).toBe(item.content?.[0]?.text)
  })
  const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item)
  expect(done).toEqual(response.output)
  expect((await call('GET', `/responses/${response.id}`)).body).toEqual(response)
})

test('a response continues from any earlier one, and the same id twice gives two branches', async () => {
  const model = await createModel({ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' })
  const one = await create({ model, input: 'First.' })
  const two = await create({ model, input: 'Second.', previous_response_id: one.body.id })
  expect([textOf(two), two.conversation]).toEqual(['Two.', one.conversation])
  expect(two.body.previous_response_id).toBe(one.body.id)
  const [left, right] = [
    await create({ model, input: 'Left.', previous_response_id: one.body.id }),
    await create({ model, input: 'Right.', previous_response_id: one.body.id }),
  ]
  expect(new Set([one.conversation, left.conversation, right.conversation]).size).toBe(3)
  for (const [branch, said, unsaid] of [
    [left, 'Left.', ['Right.', 'Second.']],
    [right, 'Right.', ['Left.', 'Second.']],
  ] as const) {
    const log = JSON.stringify(await server.api.searchAll(branch.conversation))
    expect([log.includes('First.'), log.includes(said)]).toEqual([true, true])
    for (const text of unsaid) expect(log).not.toContain(text)
    expect(textOf(branch)).toBe('Two.')
  }
  const three = await create({ model, input: 'Third.', previous_response_id: two.body.id })
  expect([textOf(three), three.conversation]).toEqual(['Three.', one.conversation])
  const usages = [one, two, three].map(({ body }) => body.usage)
  for (const [index, { body }] of [one, two, three].entries())
    expect((await call('GET', `/responses/${body.id}`)).body.usage).toEqual(usages[index])
  const unknown = await call('POST', '/responses', { model, input: 'x', previous_response_id: 'resp_x' })
  expect([unknown.status, unknown.body.error]).toMatchObject([400, { param: 'previous_response_id' }])
})

test('responses outlive a restart, an import and a condensation', async () => {
  const model = await createModel({ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' })
  const one = await create({ model, input: 'First.' })
  const two = await create({ model, input: 'Second.', previous_response_id: one.body.id })
  await server.restart()
  expect((await call('GET', `/responses/${one.body.id}`)).body).toEqual(one.body)
  const exported = await fetch(`${server.url}/api/conversations/${one.conversation}/export`, {
    headers: { 'x-session-api-key': key },
  })
  const lines = await exported.text()
  await server.api.sendJson('DELETE', `/api/conversations/${one.conversation}`, undefined)
  expect((await call('GET', `/responses/${one.body.id}`)).status).toBe(404)
  const [first] = lines.split('\n')
  const condensation = {
    ...{ id: randomUUID(), timestamp: '2999-01-01T00:00:00', source: 'environment', kind: 'Condensation' },
    ...{ forgotten_event_ids: [JSON.parse(first ?? '').id], summary: 'Short.', summary_offset: 0 },
    llm_response_id: 'x',
  }
  const imported = await fetch(`${server.url}/api/conversations/import`, {
    method: 'POST',
    headers: { 'x-session-api-key': key, 'content-type': 'application/x-ndjson' },
    body: `${JSON.stringify({ conversation_id: one.conversation })}\n${lines.trim()}\n${JSON.stringify(condensation)}\n`,
  })
  expect(imported.status, await imported.clone().text()).toBe(201)
  expect((await call('GET', `/responses/${two.body.id}`)).body.output).toEqual(two.body.output)
  const three = await create({ model, input: 'Third.', previous_response_id: two.body.id })
  expect([textOf(three), three.conversation]).toEqual(['Three.', one.conversation])
  const branch = await create({ model, input: 'Other.', previous_response_id: one.body.id })
  expect(textOf(branch)).toBe('Two.')
})

test('nothing is left of a response that is not stored', async () => {
  const model = await createModel({ text: 'One.' }, { text: 'Two.' })
  const count = async () => (await server.api.requestJson('/api/conversations/count')).body
  const one = await create({ model, input: 'First.' })
  const before = await count()
  for (const previous_response_id of [undefined, one.body.id]) {
    const { body, conversation } = await create({
      ...{ model, input: 'Secret words.', store: false, previous_response_id },
    })
    expect([body.status, body.store]).toEqual(['completed', false])
    expect((await call('GET', `/responses/${body.id}`)).status).toBe(404)
    expect(
      (await call('POST', '/responses', { model, input: 'x', previous_response_id: body.id })).status,
    ).toBe(400)
    expect((await server.api.requestJson(`/api/conversations/${conversation}`)).status).toBe(404)
  }
  const events = await stream({ model, input: 'Secret words.', store: false })
  expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: { store: false } })
  expect(await count()).toEqual(before)
  expect((await call('GET', `/responses/${one.body.id}`)).body).toEqual(one.body)
})

test('a deleted response is gone, with its conversation when nothing else is in it', async () => {
  const model = await createModel({ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' })
  const one = await create({ model, input: 'First.' })
  const two = await create({ model, input: 'Second.', previous_response_id: one.body.id })
  const branch = await create({ model, input: 'Branch.', previous_response_id: one.body.id })
  expect((await call('DELETE', `/responses/${two.body.id}`)).body).toEqual({
    ...{ id: two.body.id, object: 'response', deleted: true },
  })
  expect((await call('GET', `/responses/${two.body.id}`)).status).toBe(404)
  // What comes next does not know of it.
  const next = await create({ model, input: 'Next.', previous_response_id: one.body.id })
  expect(textOf(next)).toBe('Two.')
  expect((await call('DELETE', `/responses/${branch.body.id}`)).status).toBe(200)
  expect((await server.api.requestJson(`/api/conversations/${branch.conversation}`)).status).toBe(404)
  expect((await call('GET', `/responses/${one.body.id}`)).body.output).toEqual(one.body.output)
  expect((await call('DELETE', `/responses/${one.body.id}`)).status).toBe(200)
  for (const method of ['GET', 'DELETE'])
    expect((await call(method, `/responses/${one.body.id}`)).status).toBe(404)
})

test('a response in the background is read while it runs, and cancelled', async () => {
  const model = await createModel({ text: 'Slow.', delay_ms: 60_000 })
  const { body } = await create({ model, input: 'Wait.', background: true })
  expect(body).toMatchObject({ status: 'in_progress', output: [], background: true, usage: null })
  expect((await call('GET', `/responses/${body.id}`)).body.status).toBe('in_progress')
  expect((await call('DELETE', `/responses/${body.id}`)).status).toBe(409)
  const next = { model, input: 'x', previous_response_id: body.id }
  expect((await call('POST', '/responses', next)).status).toBe(409)
  expect((await call('POST', `/responses/${body.id}/cancel`)).body.status).toBe('cancelled')
  expect((await call('GET', `/responses/${body.id}`)).body.status).toBe('cancelled')
  expect((await call('POST', `/responses/${body.id}/cancel`)).body.status).toBe('cancelled')
  const done = await create({ model: await createModel({ text: 'Done.' }), input: 'Go.' })
  expect((await call('POST', `/responses/${done.body.id}/cancel`)).status).toBe(400)
})

test('the input is listed in both orders and in pages', async () => {
  const model = await createModel({ text: 'One.' })
  const input = [
    { role: 'user', content: 'A' },
    { role: 'assistant', content: 'B' },
    { role: 'user', content: 'C' },
  ]
  const { body } = await create({ model, input })
  const list = async (query: string) =>
    (await call('GET', `/responses/${body.id}/input_items${query}`)).body as unknown as {
      data: { id: string; content: { text: string }[] }[]
      has_more: boolean
    }
  const texts = ({ data }: { data: { content: { text: string }[] }[] }) =>
    data.map(({ content }) => content[0]?.text)
  expect(texts(await list(''))).toEqual(['C', 'B', 'A'])
  const first = await list('?order=asc&limit=2')
  expect([texts(first), first.has_more]).toEqual([['A', 'B'], true])
  expect(texts(await list(`?order=asc&after=${first.data[1]?.id}`))).toEqual(['C'])
})

test('a call of a client tool ends the response, and its result continues it', async () => {
  const model = await createModel(weatherCall, { text: 'Rain.' }, { text: 'Bring a coat.' })
  const one = await create({ model, input: 'Weather?', tools: [weather] })
  const [item] = one.body.output
  expect(one.body.output).toEqual([
    {
      ...{ type: 'function_call', id: expect.stringMatching(/^fc_/), name: 'get_weather' },
      ...{
        call_id: expect.stringMatching(/^call_.{1,59}$/),
        arguments: '{"place":"Oslo"}',
        status: 'completed',
      },
    },
  ])
  const result = { type: 'function_call_output', call_id: item?.call_id, output: 'heavy rain' }
  const two = await create({ model, input: [result], previous_response_id: one.body.id, tools: [weather] })
  expect([textOf(two), two.conversation]).toEqual(['Rain.', one.conversation])
  expect(JSON.stringify(await server.api.searchAll(two.conversation))).toContain('heavy rain')
  // A client that keeps the history itself sends all of it again.
  const replay = [{ role: 'user', content: 'Weather?' }, item, result]
  const again = await create({ model, input: replay, tools: [weather] })
  expect([textOf(again), again.conversation === one.conversation]).toEqual(['Rain.', false])
  const wrong = { ...result, call_id: 'call_x' }
  const refused = await call('POST', '/responses', {
    model,
    input: [wrong],
    previous_response_id: two.body.id,
  })
  expect([refused.status, refused.body.error]).toMatchObject([400, { param: 'input[0].call_id' }])
})

test('the arguments of a call are streamed', async () => {
  const model = await createModel({ text: 'I ask.', ...weatherCall })
  const events = await stream({ model, input: 'Weather?', tools: [weather] })
  const names = events.map(({ type }) => String(type).replace('response.', ''))
  expect(names.slice(-6)).toEqual([
    ...['output_item.done', 'output_item.added', 'function_call_arguments.delta'],
    ...['function_call_arguments.done', 'output_item.done', 'completed'],
  ])
  const { response } = events.at(-1) as { response: Resource }
  expect(response.output.map(({ type }) => type)).toEqual(['message', 'function_call'])
})

test('a request may require a call, or forbid it', async () => {
  const model = await createModel({ text: 'Sunny, I guess.' }, weatherCall)
  for (const tool_choice of ['required', { type: 'function', name: 'get_weather' }]) {
    const { body } = await create({ model, input: 'Weather?', tools: [weather], tool_choice })
    expect(body.output.at(-1)).toMatchObject({ type: 'function_call', name: 'get_weather' })
  }
  const { body } = await create({ model, input: 'Weather?', tools: [weather], tool_choice: 'none' })
  expect(body.output.map(({ type }) => type)).toEqual(['message'])
})

test('an answer by a schema is its JSON alone, also in a stream', async () => {
  const finish = {
    tool_calls: [{ name: 'finish', arguments: { output: { name: 'Bo' } } }],
    text: 'I am done.',
  }
  const model = await createModel({ text: 'Bo, I think.' }, finish)
  const schema = {
    type: 'object',
    properties: { name: { type: 'string' } },
    required: ['name'],
    additionalProperties: false,
  }
  const text = { format: { type: 'json_schema', name: 'person', schema, strict: true } }
  const { body } = await create({ model, input: 'Who?', text })
  expect(textOf({ body })).toBe('{"name":"Bo"}')
  const events = await stream({ model, input: 'Who?', text })
  const deltas = events.filter(({ type }) => type === 'response.output_text.delta')
  expect(deltas.map(({ delta }) => delta).join('')).toBe('{"name":"Bo"}')
  const list = { format: { type: 'json_schema', name: 'x', schema: { type: 'array' } } }
  const refused = await call('POST', '/responses', { model, input: 'Who?', text: list })
  expect([refused.status, refused.body.error]).toMatchObject([400, { param: 'text.format.schema' }])
})

test('what a request changes holds for it alone', async () => {
  const model = await createModel({ text: 'One.' }, { text: 'Two.' })
  const one = await create({
    model,
    input: 'A',
    instructions: 'Be brief.',
    temperature: 0.3,
    reasoning: { effort: 'low' },
  })
  const settings = async () =>
    (
      await server.api.requestJson<{ agent: { llm: Json; agent_context: Json } }>(
        `/api/conversations/${one.conversation}`,
      )
    ).body.agent
  expect(await settings()).toMatchObject({
    llm: { temperature: 0.3, reasoning_effort: 'low' },
    agent_context: { system_message_suffix: 'Be brief.' },
  })
  await create({ model, input: 'B', previous_response_id: one.body.id })
  const { llm, agent_context } = await settings()
  expect([llm.temperature ?? null, llm.reasoning_effort ?? null]).toEqual([null, null])
  expect(agent_context?.system_message_suffix ?? null).toBe(null)
  const prompts = (await server.api.searchAll(one.conversation)).filter(
    ({ kind }) => kind === 'SystemPromptEvent',
  )
  expect(prompts.map((event) => JSON.stringify(event).includes('Be brief.'))).toEqual([true, false])
})

test('what cannot be done is refused by name', async () => {
  const model = await createModel({ text: 'One.' })
  const count = async () => (await server.api.requestJson('/api/conversations/count')).body
  const before = await count()
  const chat = { model, messages: [{ role: 'user', content: 'x' }] }
  const response = { model, input: 'x' }
  for (const [path, body, param] of [
    ['/chat/completions', { ...chat, n: 2 }, 'n'],
    ['/chat/completions', { ...chat, logprobs: true }, 'logprobs'],
    ['/chat/completions', { ...chat, frequency_penalty: 1 }, 'frequency_penalty'],
    ['/chat/completions', { ...chat, functions: [{ name: 'f' }] }, 'functions'],
    ['/chat/completions', { ...chat, no_such_member: 1 }, 'no_such_member'],
    ['/chat/completions', { ...chat, tools: [{ type: 'custom' }] }, 'tools[0].type'],
    ['/chat/completions', { ...chat, tool_choice: 'required' }, 'tool_choice'],
    ['/chat/completions', { ...chat, response_format: { type: 'xml' } }, 'response_format.type'],
    ['/responses', { ...response, top_logprobs: 3 }, 'top_logprobs'],
    ['/responses', { ...response, tools: [{ type: 'web_search' }] }, 'tools[0].type'],
    ['/responses', { ...response, tools: [{ ...weather, name: 'terminal' }] }, 'tools[0].name'],
    ['/responses', { ...response, conversation: 'conv_1' }, 'conversation'],
    ['/responses', { ...response, text: { verbosity: 'low' } }, 'text.verbosity'],
    ['/responses', { ...response, background: true, store: false }, 'background'],
    ['/responses', { ...response, input: [{ type: 'computer_call' }] }, 'input[0].type'],
  ] as const) {
    const { status, body: answer } = await call('POST', path, body)
    expect([param, status, answer.error]).toMatchObject([
      param,
      400,
      { param, type: 'invalid_request_error' },
    ])
  }
  const invalid = await call('POST', '/responses', { model, input: 'x', temperature: 'hot' })
  expect([invalid.status, invalid.body.error]).toMatchObject([422, { param: 'temperature' }])
  expect(await count()).toEqual(before)
})

test('every refusal below /v1 has the form of the interface', async () => {
  for (const [method, path, status] of [
    ['POST', '/embeddings', 404],
    ['GET', '/files', 404],
    ['GET', '/responses', 405],
    ['GET', '/models/gpt-4o', 404],
    ['GET', '/responses/resp_1', 404],
    ['DELETE', '/responses/resp_1', 404],
    ['POST', '/responses/resp_1/cancel', 404],
    ['GET', '/responses/resp_1/input_items', 404],
  ] as const) {
    const answer = await call(method, path, method === 'POST' ? {} : undefined)
    expect([path, answer.status, answer.body.error]).toMatchObject([
      path,
      status,
      { message: expect.any(String) },
    ])
    const anonymous = await fetch(`${server.url}/v1${path}`, { method })
    expect([path, anonymous.status, await anonymous.json()]).toMatchObject([path, 401, { error: {} }])
  }
  const model = await createModel({ text: 'One.' })
  expect((await call('GET', `/models/${model}`)).body).toEqual({
    ...{ id: model, object: 'model', created: 0, owned_by: 'openhands' },
  })
})
