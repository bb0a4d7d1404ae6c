import { expect } from 'vitest'
import { errorReply, type MockProvider } from '../../support/mock-provider.ts'
import { expectAnswer } from '../answers.ts'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  commandReply,
  finishReply,
  heldReply,
  type Json,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  openModel,
} from '../map-server.ts'

const map = openMapServer()
const own = { hasOwnServer: true }
const header = 'x-openhands-serverconversation-id'
const user = (content: unknown) => ({ role: 'user', content })
type Server = Pick<typeof map, 'request' | 'requestOrThrow'>
let count = 0
/** Saves a profile of the model; returns the id of the gateway. */
async function profile(model: MockProvider, on: Server = map): Promise<string> {
  const name = `map-gw-${++count}`
  await on.requestOrThrow('POST', `/api/profiles/${name}`, { body: { llm: model.llm('chat') } })
  return `openhands_${name}`
}
const chat = (body: object, headers: Record<string, string> = {}, on: Server = map) =>
  on.request<Json>('POST', '/v1/chat/completions', { body, headers })
const respond = (body: object, headers: Record<string, string> = {}) =>
  map.request<Json>('POST', '/v1/responses', { body, headers })
const conversations = () => map.requestOrThrow('GET', '/api/conversations/count')
const sentTexts = async (id: string) =>
  JSON.stringify((await map.getEvents(id)).filter(({ source }) => source === 'user'))

mapCase('F30.models-list', 'one model for each profile, sorted, as they are now', async () => {
  const model = await map.openModel()
  const id = await profile(model)
  const ids = async () =>
    (await map.requestOrThrow<{ data: { id: string }[] }>('GET', '/v1/models')).data.map((one) => one.id)
  const { data } = await map.requestOrThrow<{ data: Json[] }>('GET', '/v1/models')
  expect(data).toContainEqual({ id, object: 'model', created: 0, owned_by: 'openhands' })
  expect(await ids()).toEqual((await ids()).toSorted())
  const name = id.replace('openhands_', '')
  await map.requestOrThrow('POST', `/api/profiles/${name}/rename`, { body: { new_name: 'map-gw-renamed' } })
  expect(await ids()).toContain('openhands_map-gw-renamed')
  await map.requestOrThrow('DELETE', '/api/profiles/map-gw-renamed')
  expect(await ids()).not.toContain('openhands_map-gw-renamed')
})
mapCase('F30.auth-bearer-or-header', 'the key in either header, checked before the body', async () => {
  const bearer = { isAnonymous: true, headers: { authorization: `Bearer ${map.key}` } }
  for (const [method, path] of [
    ['GET', '/v1/models'],
    ['POST', '/v1/chat/completions'],
    ['POST', '/v1/responses'],
  ] as const) {
    const options = method === 'POST' ? { body: {} } : {}
    const accepted = method === 'POST' ? 422 : 200
    await expectAnswer(map, 401, method, path, { ...options, isAnonymous: true }, { detail: 'Unauthorized' })
    const wrong = { authorization: 'Bearer a-wrong-key' }
    await expectAnswer(map, 401, method, path, { ...options, isAnonymous: true, headers: wrong })
    await expectAnswer(map, accepted, method, path, { ...options, ...bearer })
    await expectAnswer(map, accepted, method, path, options)
  }
  await expectAnswer(map, 401, 'GET', '/api/conversations/count', bearer)
})
mapCase(
  'F30.auth-open-without-keys',
  'a server without keys asks for none',
  async () => {
    await using server = await OwnMapServer.open()
    for (const headers of [{}, { authorization: 'Bearer anything' }])
      await expectAnswer(server, 200, 'GET', '/v1/models', { headers })
  },
  own,
)
mapCase('F30.chat-basic', 'the answer of the agent as a completion', async () => {
  const name = await profile(await map.openModel(finishReply('Answered.')))
  const { status, body, headers } = await chat({ model: name, messages: [user('Ask.')], temperature: 1 })
  expect([status, body]).toMatchObject([
    200,
    {
      object: 'chat.completion',
      model: name,
      choices: [{ message: { role: 'assistant', content: 'Answered.' }, finish_reason: 'stop' }],
      usage: { total_tokens: expect.any(Number) },
    },
  ])
  expect((await map.getConversation(String(headers.get(header)))).execution_status).toBe('finished')
})
mapCase('F30.chat-system-suffix', 'system and developer messages are the suffix of the prompt', async () => {
  const name = await profile(await map.openModel(finishReply()))
  const messages = [
    { role: 'system', content: 'MAP_SYSTEM' },
    { role: 'developer', content: 'MAP_DEVELOPER' },
    user('Go.'),
  ]
  const { headers } = await chat({ model: name, messages })
  const id = String(headers.get(header))
  const { agent } = (await map.getConversation(id)) as unknown as { agent: { agent_context: Json } }
  for (const text of ['MAP_SYSTEM', 'MAP_DEVELOPER']) {
    expect(agent.agent_context.system_message_suffix).toContain(text)
    expect(await sentTexts(id)).not.toContain(text)
  }
})
const earlier = [user('Earlier.'), { role: 'assistant', content: 'Before.' }, user('Latest.')]
differs(
  'F30.chat-latest-user-only',
  'earlier turns of a first request are dropped',
  'earlier messages of a first request to `/v1/chat/completions`: the caller means them',
  async () => {
    const model = await map.openModel(finishReply())
    await chat({ model: await profile(model), messages: earlier })
    expect(JSON.stringify(model.requests)).toContain('Earlier.')
  },
  async () => {
    const model = await map.openModel(finishReply())
    await chat({ model: await profile(model), messages: earlier })
    expect(JSON.stringify(model.requests)).not.toContain('Earlier.')
  },
)
mapCase('F30.chat-stream', 'chunks with role, content, the end, usage when asked for, DONE', async () => {
  const name = await profile(await map.openModel({ text: 'Word by word.' }))
  const stream = async (more: object = {}) => {
    const answer = await chat({ model: name, messages: [user('Go.')], stream: true, ...more })
    expect([answer.status, answer.type.startsWith('text/event-stream')]).toEqual([200, true])
    expect(answer.headers.get(header)).toMatch(/^[0-9a-f-]{32,36}$/)
    const lines = String(answer.body)
      .split('\n')
      .filter((line) => line.startsWith('data: '))
    expect(lines.at(-1)).toBe('data: [DONE]')
    return lines.slice(0, -1).map((line) => JSON.parse(line.slice(6)))
  }
  const chunks = await stream()
  expect(chunks[0].choices[0].delta.role).toBe('assistant')
  expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe('Word by word.')
  expect(chunks.at(-1).choices[0].finish_reason).toBe('stop')
  expect((await stream({ stream_options: { include_usage: true } })).at(-1).usage).toMatchObject({
    total_tokens: expect.any(Number),
  })
  const bad = await chat({ model: 'openhands_map-none', messages: [user('x')], stream: true })
  expect([bad.status, bad.type]).toEqual([404, expect.stringContaining('application/json')])
})
mapCase('F30.chat-reuse-header', 'the id of a conversation continues it', async () => {
  const name = await profile(await map.openModel(finishReply('One.'), finishReply('Two.')))
  const first = await chat({ model: name, messages: [user('First.')] })
  const id = String(first.headers.get(header))
  const second = await chat({ model: name, messages: [user('Second.')] }, { [header]: id })
  expect([second.headers.get(header), second.body]).toMatchObject([
    id,
    { choices: [{ message: { content: 'Two.' } }] },
  ])
  expect(await sentTexts(id)).toMatch(/First\..*Second\./s)
})
mapCase(
  'F30.chat-reuse-after-restart',
  'a conversation is continued after a restart',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    await using model = await openModel(finishReply('One.'), finishReply('Two.'))
    const name = await profile(model, server)
    const first = await chat({ model: name, messages: [user('First.')] }, {}, server)
    await server.restart()
    const headers = { [header]: String(first.headers.get(header)) }
    const second = await chat({ model: name, messages: [user('Second.')] }, headers, server)
    expect(second.body).toMatchObject({ choices: [{ message: { content: 'Two.' } }] })
  },
  own,
)
mapCase('F30.chat-header-new-id', 'an unknown id makes that conversation; no id is 422', async () => {
  const name = await profile(await map.openModel(finishReply()))
  const id = crypto.randomUUID()
  const made = await chat({ model: name, messages: [user('Go.')] }, { [header]: id })
  expect([made.status, made.headers.get(header)]).toEqual([200, id])
  const before = await conversations()
  expect((await chat({ model: name, messages: [user('Go.')] }, { [header]: 'no-id' })).status).toBe(422)
  expect(await conversations()).toEqual(before)
})
mapCase('F30.chat-reuse-keeps-llm', 'a continued conversation keeps its model', async () => {
  const other = await map.openModel(finishReply('Other.'))
  const first = await profile(await map.openModel(finishReply('One.'), finishReply('Two.')))
  const { headers } = await chat({ model: first, messages: [user('Go.')] })
  const id = { [header]: String(headers.get(header)) }
  const again = await chat({ model: await profile(other), messages: [user('On.')] }, id)
  expect(again.body).toMatchObject({ choices: [{ message: { content: 'Two.' } }] })
  expect(other.requests).toEqual([])
  expect((await chat({ model: 'openhands_map-none', messages: [user('On.')] }, id)).status).toBe(404)
})
mapCase(
  'F30.chat-usage-per-request',
  'usage is that of the request',
  async () => {
    const name = await profile(await map.openModel(finishReply()))
    const first = await chat({ model: name, messages: [user('Go.')] })
    const headers = { [header]: String(first.headers.get(header)) }
    const second = await chat({ model: name, messages: [user('On.')] }, headers)
    expect(second.body.usage).toMatchObject({ total_tokens: 100 })
  },
  { faultThere: 'the total of the conversation' },
)
mapCase(
  'F30.chat-reuse-concurrent',
  'a second request on a running conversation is refused, and the first gets its own answer',
  async () => {
    const model = await map.openModel()
    const held = heldReply(finishReply('For X.'))
    model.replies = [finishReply('One.'), held.reply(model), finishReply('For Y.')]
    const name = await profile(model)
    const { headers } = await chat({ model: name, messages: [user('Go.')] })
    const id = { [header]: String(headers.get(header)) }
    const first = chat({ model: name, messages: [user('X.')] }, id)
    await held.arrived
    const second = await chat({ model: name, messages: [user('Y.')] }, id)
    held.release()
    expect((await first).body).toMatchObject({ choices: [{ message: { content: 'For X.' } }] })
    expect([200, 409]).toContain(second.status)
  },
  { faultThere: 'the first request gets the answer of the second' },
)
mapCase('F30.chat-agent-tools', 'the agent uses its tools, not those of the request', async () => {
  const name = await profile(await map.openModel(commandReply('echo map-gateway-tool'), finishReply('Ran.')))
  const tools = [{ type: 'function', function: { name: 'mine', parameters: {} } }]
  const { body, headers } = await chat({ model: name, messages: [user('Go.')], tools, tool_choice: 'auto' })
  expect(JSON.stringify(body)).not.toContain('tool_calls":[{')
  expect(JSON.stringify(await map.getEvents(String(headers.get(header))))).toContain('map-gateway-tool')
})
mapCase('F30.chat-input-errors', 'bad requests make no conversation', async () => {
  const before = await conversations()
  const model = await profile(await map.openModel(finishReply()))
  const status = async (body: object) => (await chat(body)).status
  expect(await status({ model, messages: [{ role: 'system', content: 'x' }] })).toBe(400)
  expect(await status({ model, messages: [user([{ type: 'no_such_part' }])] })).toBe(400)
  expect(await status({ model: 'gpt-4o', messages: [user('x')] })).toBe(404)
  expect(await status({ model: 'openhands_map-none', messages: [user('x')] })).toBe(404)
  expect(await status({ model: 'openhands_-bad', messages: [user('x')] })).toBe(400)
  expect(await status({ model })).toBe(422)
  expect(await conversations()).toEqual(before)
})
mapCase('F30.observability-headers', 'headers of observability are stored', async () => {
  const model = await profile(await map.openModel(finishReply('Observed.')))
  const before = await conversations()
  const ask = (headers: Record<string, string>) =>
    map.requestStatus('POST', '/v1/chat/completions', { body: { model, messages: [user('Go.')] }, headers })
  const header = (name: string, value: string) => ({ [`x-openhands-observability-${name}`]: value })
  for (const wrong of [
    header('metadata', '[1]'),
    header('metadata', '{"a":{}}'),
    header('span-name', 'a b!'),
  ])
    expect(await ask(wrong)).toBe(422)
  expect(await conversations()).toEqual(before)
  const right = {
    ...header('span-name', 'map.span'),
    ...header('tags', 'a, b'),
    ...header('metadata', '{"k":1}'),
  }
  expect(await ask(right)).toBe(200)
})
differs(
  'F30.chat-run-error-500',
  'a run that ends in an error',
  'a failed run below `/v1`: the caller can act on the reason',
  async () => {
    const model = await map.openModel(errorReply(401, { error: { message: 'refused' } }))
    const { status, body } = await chat({ model: await profile(model), messages: [user('Go.')] })
    expect(status).toBeGreaterThanOrEqual(500)
    expect(JSON.stringify(body)).not.toContain('sk-far')
  },
)
const confirmation = (confirmation_mode: boolean) =>
  map.requestOrThrow('PATCH', '/api/settings', {
    body: { conversation_settings_diff: { confirmation_mode } },
  })
mapCase('F30.chat-confirmation-409', 'a run that waits for a confirmation is 409', async () => {
  const file = `${map.directory}/unconfirmed`
  const name = await profile(
    await map.openModel(commandReply(`rm -rf '${file}' && touch '${file}'`), finishReply()),
  )
  await confirmation(true)
  try {
    expect((await chat({ model: name, messages: [user('Go.')] })).status).toBe(409)
    expect(await map.runCommand(`test -e '${file}' || echo none`)).toBe('none\n')
  } finally {
    await confirmation(false)
  }
})
mapCase('F30.chat-reuse-confirmation', 'a continued run that waits for a confirmation is 409', async () => {
  const name = await profile(
    await map.openModel(finishReply('One.'), commandReply('echo asked'), finishReply()),
  )
  const { headers } = await chat({ model: name, messages: [user('Go.')] })
  const id = String(headers.get(header))
  await map.post(id, 'confirmation_policy', { policy: { kind: 'AlwaysConfirm' } })
  const again = await chat({ model: name, messages: [user('On.')] }, { [header]: id })
  expect([again.status, again.body.detail]).toEqual([
    409,
    'Agent run ended with status: waiting_for_confirmation',
  ])
})
mapCase(
  'F30.chat-run-limit-429',
  'a full server refuses and stores nothing',
  async () => {
    await using server = await OwnMapServer.open({
      key: 'map-key-2',
      env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' },
    })
    await using model = await openModel()
    const held = heldReply(finishReply())
    model.replies = [held.reply(model), finishReply()]
    const name = await profile(model, server)
    const first = chat({ model: name, messages: [user('Go.')] }, {}, server)
    await held.arrived
    const total = () => server.requestOrThrow('GET', '/api/conversations/count')
    const before = await total()
    expect((await chat({ model: name, messages: [user('Go.')] }, {}, server)).status).toBe(429)
    expect(await total()).toEqual(before)
    held.release()
    expect((await first).status).toBe(200)
    expect((await chat({ model: name, messages: [user('Go.')] }, {}, server)).status).toBe(200)
  },
  own,
)
mapCase(
  'F30.chat-reuse-run-limit-429',
  'a refused continuation leaves no message',
  async () => {
    await using server = await OwnMapServer.open({
      key: 'map-key-2',
      env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' },
    })
    await using model = await openModel()
    const held = heldReply(finishReply())
    model.replies = [finishReply('One.'), held.reply(model), finishReply('Two.')]
    const name = await profile(model, server)
    const { headers } = await chat({ model: name, messages: [user('First.')] }, {}, server)
    const id = { [header]: String(headers.get(header)) }
    const other = chat({ model: name, messages: [user('Hold.')] }, {}, server)
    await held.arrived
    for (const _ of [1, 2])
      expect((await chat({ model: name, messages: [user('REFUSED')] }, id, server)).status).toBe(429)
    held.release()
    await other
    expect(JSON.stringify(await server.getEvents(String(id[header])))).not.toContain('REFUSED')
    expect((await chat({ model: name, messages: [user('Again.')] }, id, server)).status).toBe(200)
  },
  own,
)
mapCase(
  'F30.chat-timeout-504',
  'a run of more than 120 s is 504',
  async () => {
    const env = { SLIPWAY_GATEWAY_TIMEOUT_SECONDS: '1' }
    await using server = await OwnMapServer.open({ key: 'map-key-2', env })
    await using model = await openModel()
    const held = heldReply(finishReply('Late.'))
    model.replies = [held.reply(model), finishReply('Next.')]
    const name = await profile(model, server)
    const late = await chat({ model: name, messages: [user('Go.')] }, {}, server)
    expect(late.status).toBe(504)
    const { items } = await server.requestOrThrow<{ items: MapConversation[] }>(
      'GET',
      '/api/conversations/search',
    )
    const id = String(items[0]?.id)
    expect(items).toMatchObject([{ execution_status: 'running' }])
    held.release()
    await server.waitForStatus(id, 'finished')
    const next = await chat({ model: name, messages: [user('Again.')] }, { [header]: id }, server)
    expect([next.status, next.headers.get(header)]).toEqual([200, id])
  },
  own,
)
mapCase('F30.responses-basic', 'the answer of the agent as a response', async () => {
  const model = await profile(await map.openModel(finishReply('Responded.')))
  const { status, body, headers } = await respond({
    model,
    input: 'Go.',
    instructions: 'MAP_INSTRUCTIONS',
    metadata: { a: 'b' },
  })
  expect([status, body]).toMatchObject([
    200,
    {
      object: 'response',
      status: 'completed',
      instructions: 'MAP_INSTRUCTIONS',
      metadata: { a: 'b' },
      output: [{ type: 'message', content: [{ type: 'output_text', text: 'Responded.' }] }],
    },
  ])
  expect(JSON.stringify(await map.getConversation(String(headers.get(header))))).toContain('MAP_INSTRUCTIONS')
})
mapCase(
  'F30.responses-stateless-replay',
  'each response is a new conversation with the replayed items',
  async () => {
    const model = await profile(await map.openModel(finishReply()))
    const input = [
      user('First.'),
      { role: 'assistant', content: 'Said.' },
      { role: 'developer', content: 'MAP_DEV' },
      user('Last.'),
    ]
    const first = await respond({ model, input })
    const id = String(first.headers.get(header))
    const second = await respond({ model, input: 'Go.' }, { [header]: id })
    expect(second.headers.get(header)).not.toBe(id)
    const texts = await sentTexts(id)
    for (const role of ['user', 'assistant']) expect(texts).toContain(`<message role=\\"${role}\\">`)
    expect(texts).not.toContain('MAP_DEV')
  },
)
const refusedResponses = [{ stream: true }, { store: true }, { previous_response_id: 'resp_1' }]
differs(
  'F30.responses-errors',
  'streams, stores and earlier responses are refused',
  'streams, stores and earlier responses of `/v1/responses`: clients of the interface need them',
  async () => {
    const before = await conversations()
    const statuses = refusedResponses.map((more) =>
      respond({ model: 'openhands_map-none', input: 'x', ...more }),
    )
    expect((await Promise.all(statuses)).map(({ status }) => status)).toEqual([404, 404, 404])
    expect((await respond({ model: 'openhands_map-none', input: 'x' })).status).toBe(404)
    expect([400, 422]).toContain((await respond({ model: 'openhands_map-none', input: [] })).status)
    expect(await conversations()).toEqual(before)
  },
  async () => {
    for (const more of refusedResponses)
      expect((await respond({ model: 'openhands_map-none', input: 'x', ...more })).status).toBe(400)
  },
)

// One more case of this family is in `clients/python-sdk-elsewhere.ts`.
endFamily('F30', 25)
