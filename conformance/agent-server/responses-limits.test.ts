import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'

const key = 'responses-limits-key-1'
const idHeader = 'x-openhands-serverconversation-id'
const server = await OwnAgentServer.open({ sessionKey: key, isInProcess: true })
afterAll(async () => await server[Symbol.asyncDispose]())

interface Body {
  readonly id: string
  readonly status: string
  readonly output: readonly { readonly content?: readonly { readonly text: string }[] }[]
  readonly tools: readonly object[]
  readonly error: { readonly param: string | null } | null
}

async function createModel(...texts: readonly string[]): Promise<string> {
  const name = `p${randomUUID().slice(0, 8)}`
  const script = texts.map((text) => ({ text }))
  await server.api.sendJson('POST', `/api/profiles/${name}`, { llm: { model: 'scripted/x', script } })
  return `openhands_${name}`
}

async function request(method: string, path: string, body?: object, headers = {}): Promise<Response> {
  return await fetch(`${server.url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

async function call(method: string, path: string, body?: object, headers = {}) {
  const response = await request(method, path, body, headers)
  const conversation = response.headers.get(idHeader) ?? ''
  return { status: response.status, body: (await response.json()) as Body, conversation }
}

const statusOf = async (id: string) => (await server.api.requestJson(`/api/conversations/${id}`)).status
const user = (content: string) => [{ role: 'user', content }]
const tool = { type: 'function', name: 'get_weather' }

test('odd members are refused by name', async () => {
  const model = await createModel('One.')
  const basic = { model, input: 'x' }
  const choice = (mode: string, tools: readonly unknown[]) => ({
    ...{ ...basic, temperature: 1, tools: [tool], tool_choice: { type: 'allowed_tools', mode, tools } },
  })
  for (const [body, param] of [
    [{ ...basic, constructor: 1 }, 'constructor'],
    [{ ...basic, toString: 1 }, 'toString'],
    [{ ...basic, __defineGetter__: 1 }, '__defineGetter__'],
    [{ ...basic, text: { __defineGetter__: 1 } }, 'text.__defineGetter__'],
    [choice('required', []), 'tool_choice'],
    [choice('auto', [{ name: { toString: 1 } }]), 'tool_choice'],
  ] as const) {
    const answer = await call('POST', '/responses', body)
    expect([param, answer.status, answer.body.error]).toMatchObject([param, 400, { param }])
  }
  const strict = { ...basic, tool_choice: { type: 'function', name: 'b' } }
  const tools = ['a', 'b'].map((name) => ({ type: 'function', name, strict: name === 'b' }))
  const shown = await call('POST', '/responses', { ...strict, tool_choice: 'auto', tools })
  expect(shown.body.tools).toMatchObject(tools)
  const { id } = shown.body
  expect((await call('GET', `/responses/${id}?stream=true`)).body.error).toMatchObject({ param: 'stream' })
  expect((await call('GET', `/responses/${id}?stream=false`)).status).toBe(200)
  const items = await call('GET', `/responses/${id}/input_items?after=x`)
  expect([items.status, items.body.error]).toMatchObject([400, { param: 'after' }])
})

test('a branch has the model and the instructions of its request, whatever came between', async () => {
  const [left, right] = [await createModel('A.', 'B.'), await createModel('X.', 'Y.')]
  const one = await call('POST', '/responses', { model: left, input: '1', instructions: 'Rule P.' })
  const previous_response_id = one.body.id
  const next = { input: '2', instructions: 'Rule Q.', previous_response_id }
  expect((await call('POST', '/responses', { ...next, model: right })).status).toBe(200)
  const branch = await call('POST', '/responses', { ...next, model: left })
  expect(branch.body.output[0]?.content?.[0]?.text).toBe('B.')
  const events = await server.api.searchAll(branch.conversation)
  const prompts = events.filter(({ kind }) => kind === 'SystemPromptEvent').map((one) => JSON.stringify(one))
  expect(prompts.at(-1)).toContain('Rule Q.')
  expect(prompts.at(-1)).not.toContain('Rule P.')
})

test('a conversation that is deleted ends the stream of its response, and nothing else', async () => {
  const name = `p${randomUUID().slice(0, 8)}`
  const llm = { model: 'scripted/x', script: [{ text: 'Slow.', delay_ms: 60_000 }] }
  await server.api.sendJson('POST', `/api/profiles/${name}`, { llm })
  const body = { model: `openhands_${name}`, input: 'x', stream: true }
  const list = async () => {
    const { body } = await server.api.requestJson<{ items: { id: string }[] }>('/api/conversations/search')
    return body.items.map(({ id }) => id)
  }
  // Before the message is stored, and after it.
  for (const isEarly of [true, false]) {
    const known = new Set(await list())
    const answered = request('POST', '/responses', body)
    if (!isEarly) await answered
    let id: string | undefined
    while (id === undefined) id = (await list()).find((one) => !known.has(one))
    await server.api.sendJson('DELETE', `/api/conversations/${id}`, undefined)
    const response = await answered
    const text = await response.text()
    if (response.status !== 200) expect(response.status).toBe(404)
    else expect(text).toMatch(/\nevent: (?:error|response.incomplete)\n.*\n\ndata: \[DONE\]\n\n$/)
  }
  // Cut by the client: the run continues.
  const cut = new AbortController()
  const streamed = await fetch(`${server.url}/v1/responses`, {
    ...{ method: 'POST', signal: cut.signal, body: JSON.stringify(body) },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  })
  cut.abort()
  await sleep(100)
  const conversation = streamed.headers.get(idHeader) ?? ''
  const info = await server.api.requestJson<{ execution_status: string }>(
    `/api/conversations/${conversation}`,
  )
  expect(info.body.execution_status).toBe('running')
})

test('a request that is not stored leaves the conversation that it continues', async () => {
  const model = await createModel('One.', 'Two.')
  const one = await call('POST', '/responses', { model, input: '1' })
  const chat = { model, messages: user('2'), store: false }
  const two = await call('POST', '/chat/completions', chat, { [idHeader]: one.conversation })
  expect([two.status, await statusOf(one.conversation), await statusOf(two.conversation)]).toEqual([
    200, 200, 404,
  ])
  expect((await call('GET', `/responses/${one.body.id}`)).body).toEqual(one.body)
})

test("what users have set is theirs: their tags, and a conversation's own tools", async () => {
  const llm = { model: 'scripted/x', script: [{ text: 'a' }, { text: 'b' }] }
  const made = await server.api.sendJson('POST', '/api/conversations', {
    ...{ agent_settings: { llm }, workspace: { working_dir: '/tmp' }, tags: { unstored: 'true' } },
    client_tools: [{ name: 'own_tool', description: 'd', parameters: { type: 'object', properties: {} } }],
  })
  const { id } = made.body as { id: string }
  const chat = { model: await createModel('x'), temperature: 0.4, messages: user('x') }
  expect((await call('POST', '/chat/completions', chat, { [idHeader]: id })).status).toBe(200)
  const prompt = (await server.api.searchAll(id)).find(({ kind }) => kind === 'SystemPromptEvent')
  expect(JSON.stringify(prompt)).toContain('own_tool')
  await server.restart()
  expect(await statusOf(id)).toBe(200)
})
