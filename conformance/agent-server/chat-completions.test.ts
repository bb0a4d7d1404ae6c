import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'

const key = 'gateway-test-key-1'
const idHeader = 'x-openhands-serverconversation-id'
const server = await OwnAgentServer.open({
  env: { SLIPWAY_HEARTBEAT_SECONDS: '1' },
  sessionKey: key,
  isInProcess: true,
})
afterAll(async () => await server[Symbol.asyncDispose]())
const { api, directory } = server

interface Completion {
  readonly id: string
  readonly object: string
  readonly model: string
  readonly choices: readonly {
    readonly message: { readonly role: string; readonly content: string }
    readonly finish_reason: string
  }[]
  readonly usage: Readonly<Record<string, number>>
  readonly error?: { readonly message: string; readonly type: string; readonly code: string }
  readonly detail?: unknown
  readonly error_id?: string
}

/** Saves a profile with a scripted model, and returns the id of the model. */
async function createModel(script: readonly unknown[]): Promise<string> {
  const name = `p${randomUUID().slice(0, 8)}`
  const llm = { model: 'scripted/x', script }
  const { status } = await api.sendJson('POST', `/api/profiles/${name}`, { llm })
  expect(status).toBeLessThan(300)
  return `openhands_${name}`
}

function userMessage(content: unknown) {
  return { role: 'user', content }
}

/** Sends a request like a client that knows OpenAI's interface only. */
async function completeChat(
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
}

async function parseCompletion(response: Response): Promise<Completion> {
  expect(response.status, await response.clone().text()).toBe(200)
  return (await response.json()) as Completion
}

function completionText({ choices }: Completion): string | undefined {
  return choices[0]?.message.content
}

/** The requests of a model, as the log of its conversation has them. */
async function conversationLog(id: string): Promise<string> {
  return JSON.stringify(await api.searchAll(id))
}

test('each profile is a model; the key works in either header, and without a key the status is 401', async () => {
  const id = await createModel([])
  for (const headers of [{ authorization: `Bearer ${key}` }, { 'x-session-api-key': key }]) {
    const response = await fetch(`${server.url}/v1/models`, { headers })
    const { object, data } = (await response.json()) as { object: string; data: { id: string }[] }
    expect(object).toBe('list')
    expect(data).toContainEqual({ id, object: 'model', created: 0, owned_by: 'openhands' })
    expect(data.every((one) => one.id.startsWith('openhands_'))).toBe(true)
  }
  const refused = [
    {},
    { authorization: 'Bearer wrong' },
    { authorization: key },
    { 'x-session-api-key': 'x' },
  ]
  for (const headers of refused) {
    const response = await fetch(`${server.url}/v1/models`, { headers })
    expect([response.status, await response.json()]).toEqual([
      401,
      {
        detail: 'Unauthorized',
        error: { message: 'Unauthorized', type: 'authentication_error', param: null, code: 'unauthorized' },
      },
    ])
  }
  // Other routes do not accept a bearer.
  const elsewhere = await fetch(`${server.url}/api/profiles`, { headers: { authorization: `Bearer ${key}` } })
  expect(elsewhere.status).toBe(401)
})

test('a message starts a conversation, and the header continues it', async () => {
  const usage = { prompt_tokens: 11, completion_tokens: 3 }
  const id = await createModel([
    { text: 'Hello, Ann.', usage },
    { text: 'Ann.', usage },
  ])
  const first = await completeChat({
    model: id,
    messages: [userMessage('I am Ann.')],
    temperature: 2,
  })
  const conversation = first.headers.get(idHeader) ?? ''
  const answer = await parseCompletion(first)
  expect(answer).toMatchObject({
    object: 'chat.completion',
    model: id,
    choices: [{ message: { role: 'assistant', content: 'Hello, Ann.' }, finish_reason: 'stop' }],
  })
  expect(answer.usage.total_tokens).toBe(
    Number(answer.usage.prompt_tokens) + Number(answer.usage.completion_tokens),
  )
  const messages = [
    userMessage('I am Ann.'),
    { role: 'assistant', content: 'Hello, Ann.' },
    userMessage('Who am I?'),
  ]
  const second = await completeChat({ model: id, messages }, { [idHeader]: conversation.replaceAll('-', '') })
  expect(second.headers.get(idHeader)).toBe(conversation)
  const again = await parseCompletion(second)
  expect(completionText(again)).toBe('Ann.')
  // A conversation has its own history: only the new message is added.
  const said = (await api.searchAll(conversation)).filter(
    ({ kind, source }) => kind === 'MessageEvent' && source === 'user',
  )
  expect(
    said.map((event) => JSON.stringify(event.llm_message)).filter((text) => /Ann/.test(text)),
  ).toHaveLength(1)
  expect(said).toHaveLength(2)
})

test('earlier messages and system messages reach the agent of a new conversation', async () => {
  const id = await createModel([{ text: 'Blue.' }])
  const messages = [
    { role: 'system', content: 'Answer like a pirate.' },
    userMessage('My colour is blue.'),
    { role: 'assistant', content: [{ type: 'text', text: 'Noted.' }] },
    userMessage([{ type: 'text', text: 'Which is it?' }]),
  ]
  const response = await completeChat({ model: id, messages })
  const log = await conversationLog(response.headers.get(idHeader) ?? '')
  expect(completionText(await parseCompletion(response))).toBe('Blue.')
  for (const text of [
    'Answer like a pirate.',
    'user: My colour is blue.',
    'assistant: Noted.',
    'Which is it?',
  ])
    expect(log).toContain(text)
})

test('a conversation continues with its own model, whichever profile is named', async () => {
  const [one, other] = [
    await createModel([{ text: 'From one.' }, { text: 'From one again.' }]),
    await createModel([{ text: 'From the other.' }]),
  ]
  const first = await completeChat({ model: one, messages: [userMessage('Who?')] })
  const conversation = first.headers.get(idHeader) ?? ''
  expect(completionText(await parseCompletion(first))).toBe('From one.')
  const second = await completeChat(
    { model: other, messages: [userMessage('And now?')] },
    { [idHeader]: conversation },
  )
  expect(completionText(await parseCompletion(second))).toBe('From one again.')
  const { body } = await api.sendJson('POST', '/api/conversations', {
    agent: { llm: { model: 'scripted/own', script: [{ text: 'Its own.' }] } },
    workspace: { working_dir: join(directory, 'elsewhere') },
    autotitle: false,
  })
  const { id } = body as { id: string }
  const third = await completeChat({ model: other, messages: [userMessage('Who?')] }, { [idHeader]: id })
  expect(completionText(await parseCompletion(third))).toBe('Its own.')
})

test('the reply of an agent that uses tools is its last message', async () => {
  const id = await createModel([
    { text: 'I look.', tool_calls: [{ name: 'terminal', arguments: { command: 'echo found' } }] },
    { tool_calls: [{ name: 'finish', arguments: { message: 'It is there.' } }] },
  ])
  expect(
    completionText(
      await parseCompletion(await completeChat({ model: id, messages: [userMessage('Look.')] })),
    ),
  ).toBe('It is there.')
})

/** The data of the events of a stream. */
async function readSseData(response: Response): Promise<string[]> {
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const text = await response.text()
  return text.split('\n\n').flatMap((event) => (event.startsWith('data: ') ? [event.slice(6)] : []))
}

function joinChunks(events: readonly string[]): string {
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event))
  return chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
}

test('a stream sends text as it is generated, then the stop, then DONE', async () => {
  const id = await createModel([{ text: 'One two three four.', delta_ms: 30 }])
  const body = {
    model: id,
    messages: [userMessage('Count.')],
    stream: true,
    stream_options: { include_usage: true },
  }
  const response = await completeChat(body)
  expect(response.headers.get(idHeader)).toMatch(/^[0-9a-f-]{36}$/)
  const events = await readSseData(response)
  expect(events.at(-1)).toBe('[DONE]')
  expect(joinChunks(events)).toBe('One two three four.')
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event))
  expect(chunks.length).toBeGreaterThan(3)
  expect(new Set(chunks.map(({ id, object, model }) => [id, object, model].join())).size).toBe(1)
  expect(chunks[0].choices[0].delta.role).toBe('assistant')
  expect(chunks.at(-2).choices[0]).toMatchObject({ finish_reason: 'stop', delta: {} })
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } })
})

test('a stream of an agent that uses tools sends each step and ends with the reply', async () => {
  const id = await createModel([
    { text: 'I look.', tool_calls: [{ name: 'terminal', arguments: { command: 'sleep 1.5' } }] },
    { text: 'I looked.', tool_calls: [{ name: 'finish', arguments: { message: 'It is there.' } }] },
  ])
  const response = await completeChat({ model: id, messages: [userMessage('Look.')], stream: true })
  const raw = await response.clone().text()
  // Comments keep a silent connection alive.
  expect(raw).toContain(': beat\n\n')
  expect(joinChunks(await readSseData(response))).toBe('I look.\n\nI looked.\n\nIt is there.')
})

test('a run that ends without a reply has an error status, also for a stream, and the header to continue', async () => {
  const failing = { error: { code: 'LLMAuthenticationError', detail: 'No such key.' } }
  const waiting = { tool_calls: [{ name: 'terminal', arguments: { command: 'true' } }] }
  const id = await createModel([failing])
  for (const stream of [false, true]) {
    const response = await completeChat({ model: id, messages: [userMessage('Hello.')], stream })
    expect(response.headers.get(idHeader)).toMatch(/^[0-9a-f-]{36}$/)
    const body = (await response.json()) as Completion
    expect([response.status, body.error]).toEqual([
      500,
      {
        ...{ message: expect.stringContaining('No such key.'), type: 'server_error' },
        ...{ param: null, code: 'run_failed' },
      },
    ])
    expect(body.error_id).toMatch(/^[0-9a-f]{16}$/)
    expect(body.detail).toBe(body.error?.message)
  }
  const other = await createModel([{ text: 'Hello.' }, waiting, { text: 'Late.' }])
  const first = await completeChat({ model: other, messages: [userMessage('Hello.')] })
  const conversation = first.headers.get(idHeader) ?? ''
  await parseCompletion(first)
  const policy = { policy: { kind: 'AlwaysConfirm' } }
  await api.sendJson('POST', `/api/conversations/${conversation}/confirmation_policy`, policy)
  const second = await completeChat(
    { model: other, messages: [userMessage('Do it.')] },
    { [idHeader]: conversation },
  )
  expect([second.status, ((await second.json()) as Completion).error?.type]).toEqual([
    409,
    'invalid_request_error',
  ])
})

test('a new conversation asks before it acts when the saved settings say so', async () => {
  const save = (conversation_settings_diff: object) =>
    api.sendJson('PATCH', '/api/settings', { conversation_settings_diff })
  const act = { tool_calls: [{ name: 'terminal', arguments: { command: 'touch asked-first' } }] }
  const id = await createModel([act, { text: 'Done.' }])
  try {
    for (const [security_analyzer, kind] of [
      ['none', 'AlwaysConfirm'],
      [null, 'AlwaysConfirm'],
      ['pattern', 'ConfirmRisky'],
    ] as const) {
      expect((await save({ confirmation_mode: true, security_analyzer })).status).toBe(200)
      const response = await completeChat({ model: id, messages: [userMessage('Do it.')] })
      const conversation = response.headers.get(idHeader) ?? ''
      const { body } = await api.requestJson<Record<string, unknown>>(`/api/conversations/${conversation}`)
      expect([security_analyzer, body]).toMatchObject([security_analyzer, { confirmation_policy: { kind } }])
      if (kind !== 'AlwaysConfirm') continue
      expect([response.status, ((await response.json()) as Completion).detail]).toEqual([
        409,
        'Agent run ended with status: waiting_for_confirmation',
      ])
      expect(body).toMatchObject({ execution_status: 'waiting_for_confirmation', security_analyzer: null })
      expect((await conversationLog(conversation)).includes('"ObservationEvent"')).toBe(false)
    }
  } finally {
    await save({ confirmation_mode: null, security_analyzer: 'llm' })
  }
})

test('a running conversation is 409, and a paused one too', async () => {
  const id = await createModel([{ text: 'First.' }, { text: 'Slow.', delay_ms: 2_000 }, { text: 'After.' }])
  const first = await completeChat({ model: id, messages: [userMessage('Begin.')] })
  const conversation = first.headers.get(idHeader) ?? ''
  await parseCompletion(first)
  const slow = completeChat({ model: id, messages: [userMessage('Slowly.')] }, { [idHeader]: conversation })
  const status = async () =>
    (await api.requestJson<{ execution_status: string }>(`/api/conversations/${conversation}`)).body
      .execution_status
  while ((await status()) !== 'running') await sleep(10)
  const busy = await completeChat(
    { model: id, messages: [userMessage('And?')] },
    { [idHeader]: conversation },
  )
  expect(busy.status).toBe(409)
  await api.sendJson('POST', `/api/conversations/${conversation}/pause`, {})
  expect((await slow).status).toBe(409)
  const after = await completeChat(
    { model: id, messages: [userMessage('Continue.')] },
    { [idHeader]: conversation },
  )
  expect(completionText(await parseCompletion(after))).toMatch(/^(After\.|The script is over\.)$/)
})

test('a run continues when its client disconnects', async () => {
  const id = await createModel([{ text: 'Done.', delay_ms: 500 }])
  const leave = new AbortController()
  const left = fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: id, messages: [userMessage('Work.')] }),
    signal: leave.signal,
  }).catch((error: Error) => error.name)
  const find = async () => {
    const { body } = await api.requestJson<{ items: { id: string; tags: Record<string, string> }[] }>(
      `/api/conversations/search?limit=100`,
    )
    return body.items.find(({ tags }) => `openhands_${tags.gateway}` === id)?.id
  }
  while ((await find()) === undefined) await sleep(10)
  const conversation = (await find()) ?? ''
  while ((await api.count(conversation)) === 0) await sleep(10)
  leave.abort()
  expect(await left).toBe('AbortError')
  const final = `/api/conversations/${conversation}/agent_final_response`
  while ((await api.requestJson<{ response: string }>(final)).body.response !== 'Done.') await sleep(20)
})

test('an invalid request is refused with its location', async () => {
  const id = await createModel([{ text: 'Hello.' }])
  const hello = [userMessage('Hello.')]
  for (const [body, place] of [
    [{ messages: hello }, ['body', 'model']],
    [{ model: id }, ['body', 'messages']],
    [{ model: id, messages: [{ role: 'wizard', content: 'x' }] }, ['body', 'messages', 0, 'role']],
    [{ model: id, messages: [userMessage(5)] }, ['body', 'messages', 0, 'content']],
    [{ model: id, messages: hello, stream: 'perhaps' }, ['body', 'stream']],
  ] as const) {
    const response = await completeChat(body)
    const { detail } = (await response.json()) as { detail: { loc: unknown[] }[] }
    expect([response.status, detail[0]?.loc.slice(0, place.length)], JSON.stringify(body)).toEqual([
      422,
      place,
    ])
  }
  const long = [{ role: 'system', content: 'x'.repeat(40_000) }, ...hello]
  for (const [messages, text] of [
    [[], 'At least one user message is required'],
    [[{ role: 'system', content: 'x' }], 'At least one user message is required'],
    [[userMessage('')], 'The message of the user is empty'],
    [[userMessage([{ type: 'audio' }])], 'Unsupported content part type: audio'],
    [[userMessage([{ type: 'image_url' }])], 'image_url content part is missing a url'],
    [long, 'The messages of the system are longer than 32768 characters'],
  ]) {
    const response = await completeChat({ model: id, messages })
    expect([response.status, ((await response.json()) as Completion).detail]).toEqual([400, text])
  }
  expect((await completeChat({ model: id, messages: hello }, { [idHeader]: 'nobody' })).status).toBe(422)
  for (const [unknown, expected] of [
    ['gpt-4', [404, 'not_found']],
    ['openhands_', [404, 'not_found']],
    ['openhands_nobody', [404, 'not_found']],
    ['openhands_../x', [400, 'bad_request']],
    ['openhands_\u0000', [400, 'bad_request']],
  ] as const) {
    const response = await completeChat({ model: unknown, messages: hello })
    expect([response.status, ((await response.json()) as Completion).error?.code]).toEqual(expected)
  }
})

test('an id that is not known becomes that of the new conversation', async () => {
  const model = await createModel([{ text: 'Hello.' }])
  const id = randomUUID()
  const response = await completeChat({ model, messages: [userMessage('Hello.')] }, { [idHeader]: id })
  expect(response.headers.get(idHeader)).toBe(id)
  expect(completionText(await parseCompletion(response))).toBe('Hello.')
})

test('a response is the answer of a new conversation, with the tokens of its run', async () => {
  const usage = { prompt_tokens: 11, completion_tokens: 3, cache_read_tokens: 4 }
  const model = await createModel([{ text: 'Blue.', usage }])
  const send = (body: object) =>
    fetch(`${server.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, ...body }),
    })
  const input = [
    { role: 'developer', content: 'Answer in one word.' },
    { role: 'user', content: [{ type: 'input_text', text: 'My colour is blue.' }] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Noted.' }] },
    { role: 'user', content: 'Which is it?' },
  ]
  const response = await send({ input, instructions: 'Be kind.', metadata: { a: 'b' } })
  const conversation = response.headers.get(idHeader) ?? ''
  expect([response.status, await response.json()]).toMatchObject([
    200,
    {
      id: expect.stringMatching(/^resp_[0-9a-f]{64}$/),
      ...{ object: 'response', status: 'completed', model, instructions: 'Be kind.', metadata: { a: 'b' } },
      ...{ created_at: expect.any(Number), completed_at: expect.any(Number) },
      ...{ tools: [], tool_choice: 'none', parallel_tool_calls: false },
      output: [
        {
          id: expect.stringMatching(/^msg_[0-9a-f]{64}$/),
          ...{ type: 'message', role: 'assistant', status: 'completed' },
          content: [{ type: 'output_text', text: 'Blue.', annotations: [] }],
        },
      ],
      usage: {
        ...{ input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
        ...{ total_tokens: expect.any(Number), input_tokens_details: { cached_tokens: 4 } },
        output_tokens_details: { reasoning_tokens: 0 },
      },
    },
  ])
  const { body } = await api.requestJson<{ agent: { agent_context: { system_message_suffix: string } } }>(
    `/api/conversations/${conversation}`,
  )
  expect(body.agent.agent_context.system_message_suffix).toBe('Be kind.\n\nAnswer in one word.')
  const message = (await api.searchAll(conversation)).find(({ source }) => source === 'user')
  const { content } = (message?.llm_message ?? {}) as { content?: { text: string }[] }
  expect(content?.map(({ text }) => text)).toEqual([
    ...['<message role="user">', 'My colour is blue.', '</message>'],
    ...['<message role="assistant">', 'Noted.', '</message>'],
    ...['<message role="user">', 'Which is it?', '</message>'],
  ])
  for (const [more, status] of [
    [{ input: '' }, 400],
    [{ input: [] }, 400],
    [{ input: [{ role: 'assistant', content: 'x' }] }, 400],
    [{ input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'x' }] }] }, 400],
    [{ input: [{ type: 'function_call_output', output: 'x' }] }, 400],
    [{ input: 'x', metadata: { n: 1 } }, 422],
    [{ input: 'x', model: 'openhands_nobody' }, 404],
  ] as const)
    expect([more, (await send(more)).status]).toEqual([more, status])
})

test('a server whose setting switches it off has no such routes', async () => {
  await using off = await OwnAgentServer.open({ isInProcess: true, env: { SLIPWAY_GATEWAY: 'false' } })
  for (const path of ['/v1/models', '/v1/chat/completions', '/v1/responses'])
    expect((await off.api.fetch(path, { method: path === '/v1/models' ? 'GET' : 'POST' })).status).toBe(404)
})
