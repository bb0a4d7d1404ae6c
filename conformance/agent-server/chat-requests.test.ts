import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { MockProvider } from '../support/mock-provider.ts'

const key = 'chat-requests-test-key-1'
const idHeader = 'x-openhands-serverconversation-id'
const server = await OwnAgentServer.open({ sessionKey: key, isInProcess: true })
afterAll(async () => await server[Symbol.asyncDispose]())

interface ToolCall {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}
interface Completion {
  readonly choices: readonly {
    readonly message: { readonly content: string | null; readonly tool_calls?: readonly ToolCall[] }
    readonly finish_reason: string
  }[]
  readonly usage: Readonly<Record<string, number>>
  readonly error?: { readonly message: string; readonly param: string | null }
}

async function createProfile(llm: object): Promise<string> {
  const name = `p${randomUUID().slice(0, 8)}`
  await server.api.sendJson('POST', `/api/profiles/${name}`, { llm })
  return `openhands_${name}`
}

const createModel = (...script: readonly unknown[]) => createProfile({ model: 'scripted/x', script })

async function send(body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
}

async function complete(body: object, headers: Readonly<Record<string, string>> = {}) {
  const response = await send(body, headers)
  expect(response.status, await response.clone().text()).toBe(200)
  const completion = (await response.json()) as Completion
  const [choice] = completion.choices
  return {
    ...{ conversation: response.headers.get(idHeader) ?? '', usage: completion.usage },
    ...{ message: choice?.message, reason: choice?.finish_reason },
  }
}

async function streamChunks(body: object) {
  const text = await (await send({ ...body, stream: true })).text()
  const data = text.split('\n\n').flatMap((frame) => (frame.startsWith('data: {') ? [frame.slice(6)] : []))
  return data.map((one) => JSON.parse(one).choices[0])
}

const user = (content: string) => ({ role: 'user', content })
const tools = [
  {
    type: 'function',
    function: {
      name: 'add',
      description: 'Adds.',
      parameters: { type: 'object', properties: { a: {}, kind: {} } },
    },
  },
]
const addCall = (args: object = { a: 1, kind: 'sum' }) => ({ tool_calls: [{ name: 'add', arguments: args }] })

test('a call of the client ends the answer, and its result continues the conversation', async () => {
  const model = await createModel(addCall(), { text: 'It is 3.' }, { text: 'Still 3.' })
  const first = await complete({ model, messages: [user('Add.')], tools })
  expect([first.reason, first.message]).toEqual([
    'tool_calls',
    {
      ...{ role: 'assistant', content: null, refusal: null },
      tool_calls: [
        {
          ...{ id: expect.stringMatching(/^call_/), type: 'function' },
          function: { name: 'add', arguments: '{"a":1,"kind":"sum"}' },
        },
      ],
    },
  ])
  const result = { role: 'tool', tool_call_id: first.message?.tool_calls?.[0]?.id, content: '3' }
  const history = [user('Add.'), first.message, result]
  const second = await complete({ model, messages: history, tools })
  expect([second.message?.content, second.reason, second.conversation]).toEqual([
    'It is 3.',
    'stop',
    first.conversation,
  ])
  // The same result again begins a branch.
  const again = await complete({ model, messages: history, tools })
  expect([again.message?.content, again.conversation === first.conversation]).toEqual(['It is 3.', false])
  // Calls of a conversation that is gone are sent as texts.
  await server.api.sendJson('DELETE', `/api/conversations/${first.conversation}`, undefined)
  const retold = await complete({ model, messages: history, tools })
  const log = JSON.stringify(await server.api.searchAll(retold.conversation))
  for (const text of ['assistant calls add', 'Continue with the results']) expect(log).toContain(text)
})

test('several calls at once are answered together, and a stream has them in pieces', async () => {
  const calls = [addCall({ a: 1 }), addCall({ a: 2 })].flatMap(({ tool_calls }) => tool_calls)
  const model = await createModel({ text: 'Both.', tool_calls: calls }, { text: 'Done.' })
  const chunks = await streamChunks({ model, messages: [user('Add.')], tools })
  const deltas = chunks.flatMap(({ delta }) => delta.tool_calls ?? [])
  const args = [0, 1].map((at) =>
    deltas
      .filter(({ index }) => index === at)
      .map((one) => one.function.arguments)
      .join(''),
  )
  expect(args).toEqual(['{"a":1}', '{"a":2}'])
  expect(chunks.map(({ delta }) => delta.content ?? '').join('')).toBe('Both.')
  expect(chunks.at(-1).finish_reason).toBe('tool_calls')
  const made = deltas.filter(({ id }) => id !== undefined)
  const results = made.map(({ id }, index) => ({ role: 'tool', tool_call_id: id, content: `r${index}` }))
  const messages = [user('Add.'), { role: 'assistant', tool_calls: made }, ...results]
  expect((await complete({ model, messages, tools })).message?.content).toBe('Done.')
})

test('an answer by a schema, and one that ends before a text, are whole in a stream too', async () => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const finish = { text: 'So.', tool_calls: [{ name: 'finish', arguments: { output: { n: 4 } } }] }
  const model = await createModel(finish)
  for (const response_format of [
    { type: 'json_schema', json_schema: { name: 'n', schema } },
    { type: 'json_object' },
  ]) {
    const body = { model, messages: [user('How many?')], response_format }
    expect((await complete(body)).message?.content).toBe('{"n":4}')
    const chunks = await streamChunks(body)
    expect(chunks.map(({ delta }) => delta.content ?? '').join('')).toBe('{"n":4}')
  }
  const counting = await createModel({ text: 'one two three four' })
  for (const stop of [' three', ['nine', ' three']]) {
    const body = { model: counting, messages: [user('Count.')], stop }
    expect((await complete(body)).message?.content).toBe('one two')
    const chunks = await streamChunks(body)
    expect(chunks.map(({ delta }) => delta.content ?? '').join('')).toBe('one two')
  }
})

test('max_tokens limits a reply, and the answer says that it was cut', async () => {
  await using provider = await MockProvider.open()
  provider.replies = [
    (response, { body }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const chunk = (delta: object, finish_reason: string | null) => ({
        ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' },
        choices: [{ index: 0, delta, finish_reason }],
      })
      const limit = Number(body.max_completion_tokens ?? body.max_tokens)
      for (const one of [chunk({ role: 'assistant', content: `cut at ${limit}` }, null), chunk({}, 'length')])
        response.write(`data: ${JSON.stringify(one)}\n\n`)
      response.end('data: [DONE]\n\n')
    },
  ]
  const model = await createProfile(provider.llm('compatible', { max_output_tokens: 900 }))
  for (const member of ['max_tokens', 'max_completion_tokens']) {
    const { message, reason } = await complete({ model, messages: [user('Go.')], [member]: 7 })
    expect([message?.content, reason]).toEqual(['cut at 7', 'length'])
  }
  expect(provider.requests).toHaveLength(2)
  const response = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, input: 'Go.', max_output_tokens: 7 }),
  })
  expect(await response.json()).toMatchObject({
    ...{ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    output: [{ content: [{ text: 'cut at 7' }] }],
  })
})

test('a conversation is named after its first message, and its usage has no hidden call', async () => {
  const usage = { prompt_tokens: 11, completion_tokens: 3 }
  const model = await createModel(
    { text: 'Hi.', usage },
    { side: true, text: 'A title', usage: { prompt_tokens: 500 } },
  )
  const answer = await complete({ model, messages: [user('Name me after this.')] })
  expect(answer.usage.total_tokens).toBe(14)
  const { body } = await server.api.requestJson<{ title: string }>(
    `/api/conversations/${answer.conversation}`,
  )
  expect(body.title).toBe('Name me after this.')
})

test('a chat that is not stored leaves nothing', async () => {
  const model = await createModel({ text: 'Hi.' })
  const count = async () => (await server.api.requestJson('/api/conversations/count')).body
  const before = await count()
  const body = { model, messages: [user('Forget this.')], store: false }
  expect((await complete(body)).message?.content).toBe('Hi.')
  expect((await streamChunks(body)).at(-1).finish_reason).toBe('stop')
  expect(await count()).toEqual(before)
})

test('a server without a model says how to get one', async () => {
  await using empty = await OwnAgentServer.open({ isInProcess: true })
  const response = await fetch(`${empty.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'gpt-4o', messages: [user('x')] }),
  })
  const { error } = (await response.json()) as Completion
  expect([response.status, error?.message]).toEqual([
    404,
    expect.stringContaining('POST /api/profiles/{name}'),
  ])
})
