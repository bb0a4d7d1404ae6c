import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm, type Message } from '@slipway/protocol'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openModel } from './open-model.ts'

const page = { url: 'https://example.com/kiel', title: 'Kiel\nweather' }
const anthropic = [
  {
    type: 'message_start',
    message: {
      ...{ id: 'm', type: 'message', role: 'assistant', model: 'claude', content: [], stop_reason: null },
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  },
  ...block(0, { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} }, [
    { type: 'input_json_delta', partial_json: '{"query":"Kiel"}' },
  ]),
  ...block(1, {
    type: 'web_search_tool_result',
    tool_use_id: 's1',
    content: [{ type: 'web_search_result', ...page, encrypted_content: 'x', page_age: null }],
  }),
  ...block(2, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'It rains.' }]),
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
]
const google = [
  {
    candidates: [
      {
        content: { role: 'model', parts: [{ text: 'It rains.' }] },
        finishReason: 'STOP',
        groundingMetadata: { groundingChunks: [{ web: { uri: page.url, title: page.title } }] },
      },
    ],
  },
]
const xai = [
  { type: 'response.created', response: { id: 'resp_1', created_at: 1, model: 'grok-4', output: [] } },
  ...['added', 'done'].map((at) => ({
    ...{ type: `response.output_item.${at}`, output_index: 0 },
    item: {
      ...{ type: 'web_search_call', id: 'ws_1', status: 'completed', name: 'web_search', call_id: '' },
      ...{ arguments: '{"query":"Kiel"}', action: { type: 'search', query: 'Kiel', sources: [] } },
    },
  })),
  {
    ...{ type: 'response.output_item.added', output_index: 1 },
    item: { type: 'message', id: 'msg_1', role: 'assistant', status: 'in_progress', content: [] },
  },
  { ...place(), type: 'response.output_text.delta', delta: 'It rains.' },
  {
    ...{ ...place(), type: 'response.output_text.annotation.added', annotation_index: 0 },
    annotation: { type: 'url_citation', ...page, start_index: 0, end_index: 9 },
  },
  {
    ...{ type: 'response.output_item.done', output_index: 1 },
    item: { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [] },
  },
  {
    type: 'response.completed',
    response: {
      ...{ id: 'resp_1', object: 'response', model: 'grok-4', status: 'completed', output: [] },
      usage: { input_tokens: 9, output_tokens: 3, num_sources_used: 1, num_server_side_tools_used: 1 },
    },
  },
]

function place() {
  return { item_id: 'msg_1', output_index: 1, content_index: 0 }
}

function block(index: number, content_block: object, deltas: readonly object[] = []) {
  return [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

let server: Server
let url: string
let body: { tools?: readonly Record<string, unknown>[]; include?: unknown; reasoning?: unknown } = {}
let path = ''
let stream: readonly object[] = []
beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    body = JSON.parse(text)
    path = request.url ?? ''
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const chunk of stream) {
      const { type } = chunk as { readonly type?: string } // Anthropic names its events
      response.write(`${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(chunk)}\n\n`)
    }
    response.end()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a port
})
afterAll(() => new Promise((done) => server.close(done)))
beforeEach(() => {
  stream = []
})

const tools = [{ name: 'terminal', description: 'Runs', parameters: { type: 'object', properties: {} } }]
const messages: Message[] = [
  { role: 'user', content: [{ type: 'text', text: 'Kiel?', cache_prompt: false }], thinking_blocks: [] },
]

async function ask(model: string, answer: readonly object[], more: object = { web_search: true }) {
  stream = answer
  const settings = { model, base_url: url, api_key: 'k', num_retries: 0, ...more }
  return await openModel(llm.parse(settings)).generate({ messages, tools }, new AbortController().signal)
}

test.each([
  ['anthropic/claude-sonnet-4-5', anthropic, { type: 'web_search_20250305' }],
  ['gemini/gemini-3-pro', google, { googleSearch: {} }],
  ['xai/grok-4.3', xai, { type: 'web_search' }],
] as const)(
  '%s searches by its own tool, and the cited pages stay in the text',
  async (model, answer, sent) => {
    const reply = await ask(model, answer)
    expect(body.tools).toContainEqual(expect.objectContaining(sent))
    expect(body.tools?.length).toBeGreaterThan(1)
    expect(reply).toMatchObject({
      kind: 'reply',
      message: { content: [{ text: `It rains.\n\nSources:\n- Kiel weather: ${page.url}` }] },
    })
    expect(reply).not.toHaveProperty('message.tool_calls')
  },
)

test('a model of the Responses interface is sent the tool', async () => {
  await ask('openai/gpt-5', [], { web_search: true, api_mode: 'responses' })
  expect(body.tools?.map(({ type }) => type)).toEqual(['function', 'web_search'])
})

test('Grok is asked by the Responses interface while it may search', async () => {
  await ask('xai/grok-4.3', xai, { web_search: true, reasoning_effort: 'high' })
  expect(path).toBe('/responses')
  expect(body).toMatchObject({ reasoning: { effort: 'high' }, include: ['reasoning.encrypted_content'] })
  await ask('xai/grok-4.3', xai)
  expect(body).not.toHaveProperty('reasoning')
  expect(body).toHaveProperty('include', [])
})

test.each([
  ['xai/grok-4.3', {}],
  ['xai/grok-4.3', { web_search: true, api_mode: 'chat' }],
  ['xai/grok-3', { web_search: true }],
  ['anthropic/claude-sonnet-4-5', {}],
  ['gemini/gemini-2.5-pro', { web_search: true }],
  ['openai/gpt-4o', { web_search: true }],
] as const)('no search for %s with %o', async (model, more) => {
  await ask(model, [], more)
  expect(JSON.stringify(body.tools)).not.toMatch(/search/i)
})
