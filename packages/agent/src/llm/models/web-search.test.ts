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

function block(index: number, content_block: object, deltas: readonly object[] = []) {
  return [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

let server: Server
let url: string
let body: { tools?: readonly Record<string, unknown>[] } = {}
let stream: readonly object[] = []
beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    body = JSON.parse(text)
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

test.each([
  ['anthropic/claude-sonnet-4-5', {}],
  ['gemini/gemini-2.5-pro', { web_search: true }],
  ['openai/gpt-4o', { web_search: true }],
] as const)('no search for %s with %o', async (model, more) => {
  await ask(model, [], more)
  expect(JSON.stringify(body.tools)).not.toMatch(/search/i)
})
