import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm, type Message } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelReply, ModelTool } from '../model.ts'
import { openModel } from './open-model.ts'

/** The far side: plays the streams it is given, one a request, and keeps what it was asked. */
const streams: (readonly unknown[])[] = []
const requests: { readonly path: string; readonly body: Record<string, unknown> }[] = []
let server: Server
let url: string

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    requests.push({ path: request.url ?? '', body: JSON.parse(text) })
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const chunk of streams.shift() ?? []) {
      const { type } = chunk as { type?: string } // Anthropic and Responses name their events
      response.write(`${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(chunk)}\n\n`)
    }
    response.end('data: [DONE]\n\n')
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a port
})
afterAll(() => new Promise((done) => server.close(done)))

const tools: readonly ModelTool[] = [
  { name: 'weather', description: 'Weather of a town', parameters: { type: 'object', properties: {} } },
]

function user(text: string): Message {
  return { role: 'user', content: [{ type: 'text', text, cache_prompt: false }], thinking_blocks: [] }
}

function result(id: string, text = 'rain'): Message {
  const content: Message['content'] = [{ type: 'text', text, cache_prompt: false }]
  return { role: 'tool', tool_call_id: id, name: 'weather', content, thinking_blocks: [] }
}

/**
 * Receives one answer, sends it back with results of its calls, and gives both the answer and what was sent.
 */
async function roundTrip(
  settings: Record<string, unknown>,
  stream: readonly unknown[],
  last: readonly unknown[],
) {
  const model = openModel(llm.parse({ api_key: 'sk-very-secret-key', num_retries: 0, ...settings }))
  streams.push(stream, last)
  const signal = new AbortController().signal
  const first = await model.generate({ messages: [user('Kiel?')], tools }, signal)
  expect(first).toMatchObject({ kind: 'reply' })
  const { message } = first as ModelReply // said by the line before
  // What is stored is JSON: it must survive that.
  const stored: Message = JSON.parse(JSON.stringify(message))
  const results = (message.tool_calls ?? []).map(({ id }) => result(id))
  await model.generate({ messages: [user('Kiel?'), stored, ...results, user('And?')], tools }, signal)
  return { answer: first as ModelReply, message, sent: requests.at(-1)?.body ?? {} }
}

const anthropicEnd = [
  { type: 'content_block_stop', index: 0 },
  {
    type: 'message_delta',
    delta: { stop_reason: 'end_turn', stop_sequence: null },
    usage: { output_tokens: 9 },
  },
  { type: 'message_stop' },
]
const anthropicStart = {
  type: 'message_start',
  message: {
    id: 'msg_0123456789abcdef',
    type: 'message',
    role: 'assistant',
    model: 'claude',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: {
      input_tokens: 20,
      output_tokens: 1,
      cache_read_input_tokens: 300,
      cache_creation_input_tokens: 40,
    },
  },
}

function anthropicBlock(index: number, block: unknown, deltas: readonly unknown[]) {
  return [
    { type: 'content_block_start', index, content_block: block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

const anthropicTurn = [
  anthropicStart,
  ...anthropicBlock(0, { type: 'thinking', thinking: '', signature: '' }, [
    { type: 'thinking_delta', thinking: 'Kiel lies ' },
    { type: 'thinking_delta', thinking: 'by the sea.\n' },
    { type: 'signature_delta', signature: 'c2lnLTE=' },
  ]),
  ...anthropicBlock(1, { type: 'redacted_thinking', data: 'aGlkZGVu' }, []),
  ...anthropicBlock(2, { type: 'thinking', thinking: '', signature: '' }, [
    { type: 'signature_delta', signature: 'c2lnLTI=' },
  ]),
  ...anthropicBlock(3, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'I look. ' }]),
  ...anthropicBlock(4, { type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }, [
    { type: 'input_json_delta', partial_json: '{"town": ' },
    { type: 'input_json_delta', partial_json: '"Kiel"}' },
  ]),
  ...anthropicBlock(5, { type: 'tool_use', id: 'toolu_2', name: 'unknown_tool', input: {} }, [
    { type: 'input_json_delta', partial_json: '{"broken": ' },
  ]),
  {
    type: 'message_delta',
    delta: { stop_reason: 'tool_use', stop_sequence: null },
    usage: { output_tokens: 77 },
  },
  { type: 'message_stop' },
]

test('Anthropic: thoughts, their signatures and what is redacted go back as they came, in order', async () => {
  const settings = { model: 'anthropic/claude-sonnet-4-6', base_url: url, reasoning_effort: 'high' }
  const { answer, message, sent } = await roundTrip(settings, anthropicTurn, [
    anthropicStart,
    ...anthropicEnd,
  ])
  expect(message.thinking_blocks).toEqual([
    { type: 'thinking', thinking: 'Kiel lies by the sea.\n', signature: 'c2lnLTE=' },
    { type: 'redacted_thinking', data: 'aGlkZGVu' },
    { type: 'thinking', thinking: '', signature: 'c2lnLTI=' },
  ])
  expect(message.tool_calls).toEqual([
    { id: 'toolu_1', name: 'weather', arguments: '{"town": "Kiel"}', origin: 'completion' },
    { id: 'toolu_2', name: 'unknown_tool', arguments: '{"broken": ', origin: 'completion' },
  ])
  expect(answer.usage).toMatchObject({
    prompt_tokens: 360,
    completion_tokens: 77,
    cache_read_tokens: 300,
    cache_write_tokens: 40,
  })
  expect(sent.messages).toMatchObject([
    { role: 'user' },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Kiel lies by the sea.\n', signature: 'c2lnLTE=' },
        { type: 'redacted_thinking', data: 'aGlkZGVu' },
        { type: 'thinking', thinking: '', signature: 'c2lnLTI=' },
        { type: 'text', text: 'I look. ' },
        { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { town: 'Kiel' } },
        { type: 'tool_use', id: 'toolu_2', name: 'unknown_tool', input: {} },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'toolu_1' },
        { type: 'tool_result', tool_use_id: 'toolu_2' },
        { type: 'text', text: 'And?' },
      ],
    },
  ])
})

const responsesEnd = [
  { type: 'response.created', response: { id: 'resp_0123456789abcdef', created_at: 1, model: 'gpt-5' } },
  {
    type: 'response.completed',
    response: {
      incomplete_details: null,
      usage: {
        input_tokens: 50,
        input_tokens_details: { cached_tokens: 8 },
        output_tokens: 20,
        output_tokens_details: { reasoning_tokens: 12 },
      },
    },
  },
]

function item(output_index: number, added: object, done: object, between: readonly object[] = []) {
  return [
    { type: 'response.output_item.added', output_index, item: added },
    ...between,
    { type: 'response.output_item.done', output_index, item: { ...added, ...done } },
  ]
}

function summary(item_id: string, summary_index: number, delta: string) {
  return [
    { type: 'response.reasoning_summary_part.added', item_id, summary_index },
    { type: 'response.reasoning_summary_text.delta', item_id, summary_index, delta },
    { type: 'response.reasoning_summary_part.done', item_id, summary_index },
  ]
}

function call(output_index: number, id: string, call_id: string, text: string) {
  const head = { type: 'function_call', id, call_id, name: 'weather', arguments: '' }
  const delta = { type: 'response.function_call_arguments.delta', item_id: id, output_index, delta: text }
  return item(output_index, head, { arguments: text, status: 'completed' }, [delta])
}

const responsesTurn = [
  responsesEnd[0],
  ...item(
    0,
    { type: 'reasoning', id: 'rs_1', encrypted_content: 'early', summary: [] },
    { encrypted_content: 'encrypted-1' },
    [...summary('rs_1', 0, 'First.'), ...summary('rs_1', 1, 'Second.')],
  ),
  ...item(1, { type: 'message', id: 'msg_1', role: 'assistant', phase: 'commentary' }, {}, [
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 1, delta: 'I look.' },
  ]),
  ...call(2, 'fc_1', 'call_1', '{"town": "Kiel"}'),
  ...item(3, { type: 'reasoning', id: 'rs_2', summary: [] }, { encrypted_content: 'encrypted-2' }),
  ...call(4, 'fc_2', 'call_2', '{"town": "Oslo"}'),
  responsesEnd[1],
]

test('OpenAI Responses: every reasoning item goes back encrypted, in its place, and nothing is stored there', async () => {
  const settings = { model: 'openai/gpt-5', base_url: url, api_mode: 'responses', reasoning_effort: 'medium' }
  const { answer, message, sent } = await roundTrip(settings, responsesTurn, responsesEnd)
  expect(message.responses_reasoning_item).toEqual({
    id: 'rs_1',
    summary: ['First.', 'Second.'],
    encrypted_content: 'encrypted-1',
  })
  expect(message.tool_calls).toEqual([
    { id: 'call_1', name: expect.any(String), origin: 'responses', arguments: '{"town": "Kiel"}' },
    { id: 'call_2', name: expect.any(String), origin: 'responses', arguments: '{"town": "Oslo"}' },
  ])
  expect(answer.usage).toMatchObject({ prompt_tokens: 50, cache_read_tokens: 8, reasoning_tokens: 12 })
  expect(sent).toMatchObject({
    store: false,
    include: ['reasoning.encrypted_content'],
    reasoning: { effort: 'medium' },
  })
  expect(sent.input).toMatchObject([
    { role: 'user' },
    {
      type: 'reasoning',
      id: 'rs_1',
      encrypted_content: 'encrypted-1',
      summary: [
        { type: 'summary_text', text: 'First.' },
        { type: 'summary_text', text: 'Second.' },
      ],
    },
    { role: 'assistant', content: 'I look.', phase: 'commentary' },
    { type: 'function_call', call_id: 'call_1', arguments: '{"town": "Kiel"}' },
    { type: 'reasoning', id: 'rs_2', encrypted_content: 'encrypted-2', summary: [] },
    { type: 'function_call', call_id: 'call_2', arguments: '{"town": "Oslo"}' },
    { type: 'function_call_output', call_id: 'call_1' },
    { type: 'function_call_output', call_id: 'call_2' },
    { role: 'user' },
  ])
})

test('OpenAI Responses: without encrypted reasoning it is neither asked for nor sent', async () => {
  const settings = {
    model: 'openai/gpt-5',
    base_url: url,
    api_mode: 'responses',
    enable_encrypted_reasoning: false,
  }
  const plain = item(0, { type: 'reasoning', id: 'rs_1', summary: [] }, {}, summary('rs_1', 0, 'First.'))
  const stream = [responsesEnd[0], ...plain, ...call(1, 'fc_1', 'call_1', '{}'), responsesEnd[1]]
  const { sent } = await roundTrip(settings, stream, responsesEnd)
  expect(sent).toMatchObject({ store: false, include: [] })
  expect(sent.input).toMatchObject([{ role: 'user' }, { type: 'function_call' }, {}, {}])
})

test('OpenAI Responses: an answer cut at its limit says so', async () => {
  const incomplete = {
    type: 'response.incomplete',
    response: {
      incomplete_details: { reason: 'max_output_tokens' },
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  }
  const text = item(0, { type: 'message', id: 'msg_1', role: 'assistant' }, {}, [
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, delta: 'It began' },
  ])
  const settings = { model: 'openai/gpt-5', base_url: url, api_mode: 'responses' }
  const { answer } = await roundTrip(settings, [responsesEnd[0], ...text, incomplete], responsesEnd)
  expect(answer.stop).toBe('length')
})

function chunk(delta: object, finish_reason: string | null = null, more: object = {}) {
  return {
    id: 'chatcmpl-0123456789',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
    ...more,
  }
}

const chatEnd = [chunk({ role: 'assistant', content: 'Wet.' }), chunk({}, 'stop')]

function toolDelta(index: number, id: string, text: string) {
  return { tool_calls: [{ index, id, type: 'function', function: { name: 'weather', arguments: text } }] }
}

test('OpenAI-like servers: plain reasoning goes back exactly as received', async () => {
  const stream = [
    chunk({ role: 'assistant', reasoning_content: 'Kiel…\n' }),
    chunk({ reasoning_content: '\nby the sea.' }),
    chunk({ content: 'I look.' }),
    chunk(toolDelta(0, 'call_1', '')),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"town":  "Kiel"}' } }] }),
    chunk({}, 'tool_calls'),
    { ...chunk({}), choices: [], usage: { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 } },
  ]
  const { message, sent } = await roundTrip(
    { model: 'deepseek/deepseek-chat', base_url: url },
    stream,
    chatEnd,
  )
  expect(message.reasoning_content).toBe('Kiel…\n\nby the sea.')
  expect(sent.messages).toMatchObject([
    {},
    {
      role: 'assistant',
      content: 'I look.',
      reasoning_content: 'Kiel…\n\nby the sea.',
      tool_calls: [{ id: 'call_1', function: { name: 'weather', arguments: '{"town":  "Kiel"}' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
    {},
  ])
})

test('OpenRouter: reasoning details go back joined, and its cost is used', async () => {
  const stream = [
    chunk({
      reasoning: 'Ki',
      reasoning_details: [{ type: 'reasoning.text', index: 0, text: 'Ki', format: 'f' }],
    }),
    chunk({
      reasoning: 'el',
      reasoning_details: [{ type: 'reasoning.text', index: 0, text: 'el', signature: 's1' }],
    }),
    chunk({ reasoning_details: [{ type: 'reasoning.encrypted', index: 1, data: 'xyz', id: 'r' }] }),
    chunk(toolDelta(0, 'call_1', '{}')),
    chunk({}, 'tool_calls', {
      usage: { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17, cost: 0.125 },
    }),
  ]
  const settings = { model: 'openrouter/anthropic/claude-sonnet-4.5', base_url: url }
  const { answer, sent } = await roundTrip(settings, stream, chatEnd)
  expect(answer.cost).toBe(0.125)
  expect(sent.model).toBe('anthropic/claude-sonnet-4.5')
  expect(sent.messages).toMatchObject([
    {},
    {
      reasoning_details: [
        { type: 'reasoning.text', index: 0, text: 'Kiel', format: 'f', signature: 's1' },
        { type: 'reasoning.encrypted', index: 1, data: 'xyz', id: 'r' },
      ],
    },
    {},
    {},
  ])
})

test('Gemini: signatures of thoughts, texts and calls go back where they stood', async () => {
  const part = (...parts: object[]) => ({
    responseId: 'gemini-0123456789',
    candidates: [{ content: { role: 'model', parts }, index: 0 }],
  })
  const stream = [
    part({ text: 'Kiel lies by the sea.', thought: true, thoughtSignature: 'dGhvdWdodA==' }),
    part({ text: 'I look.', thoughtSignature: 'dGV4dA==' }),
    part({ functionCall: { name: 'weather', args: { town: 'Kiel' } }, thoughtSignature: 'Y2FsbA==' }),
    part({ functionCall: { name: 'weather', args: { town: 'Oslo' } } }),
    {
      candidates: [{ content: { role: 'model', parts: [] }, finishReason: 'STOP', index: 0 }],
      usageMetadata: {
        promptTokenCount: 9,
        candidatesTokenCount: 4,
        thoughtsTokenCount: 3,
        totalTokenCount: 16,
      },
    },
  ]
  const last = [
    { candidates: [{ content: { role: 'model', parts: [{ text: 'Wet.' }] }, finishReason: 'STOP' }] },
  ]
  const settings = { model: 'gemini/gemini-3-pro-preview', base_url: url, reasoning_effort: 'high' }
  const { answer, sent } = await roundTrip(settings, stream, last)
  expect(answer.usage).toMatchObject({ prompt_tokens: 9, reasoning_tokens: 3 })
  expect(sent.contents).toMatchObject([
    { role: 'user' },
    {
      role: 'model',
      parts: [
        { text: 'Kiel lies by the sea.', thought: true, thoughtSignature: 'dGhvdWdodA==' },
        { text: 'I look.', thoughtSignature: 'dGV4dA==' },
        { functionCall: { name: 'weather', args: { town: 'Kiel' } }, thoughtSignature: 'Y2FsbA==' },
        { functionCall: { name: 'weather', args: { town: 'Oslo' } } },
      ],
    },
    { role: 'user', parts: [{ functionResponse: {} }, { functionResponse: {} }] },
    { role: 'user' },
  ])
  expect(requests.at(-1)?.path).not.toContain('secret')
})

/** A turn as a log of another origin has it: without signatures, items, details and phases of a provider. */
const plainTurn: readonly Message[] = [
  user('Kiel?'),
  {
    role: 'assistant',
    content: [{ type: 'text', text: 'I look.', cache_prompt: false }],
    reasoning_content: 'Kiel lies by the sea.',
    thinking_blocks: [],
    tool_calls: [
      { id: 'call_1', name: 'weather', arguments: '{"town":"Kiel"}', origin: 'completion' },
      { id: 'call_2', name: 'weather', arguments: '{"town":"Oslo"}', origin: 'responses' },
    ],
  },
  result('call_1'),
  result('call_2'),
]
const toolUse = (id: string, town: string) => ({ type: 'tool_use', id, name: 'weather', input: { town } })

test.each([
  [
    'Anthropic',
    { model: 'anthropic/claude-sonnet-4-0', extended_thinking_budget: 2000, reasoning_effort: 'high' },
    [
      anthropicStart,
      ...anthropicBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'Wet.' }]),
      ...anthropicEnd.slice(1),
    ],
    'messages',
    [
      { role: 'user' },
      {
        role: 'assistant',
        content: [{ type: 'text', text: 'I look.' }, toolUse('call_1', 'Kiel'), toolUse('call_2', 'Oslo')],
      },
      { role: 'user', content: [{ tool_use_id: 'call_1' }, { tool_use_id: 'call_2' }] },
    ],
  ],
  [
    'OpenAI Responses',
    { model: 'openai/gpt-5', api_mode: 'responses', reasoning_effort: 'medium' },
    [
      responsesEnd[0],
      ...item(0, { type: 'message', id: 'msg_1', role: 'assistant' }, {}, [
        { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, delta: 'Wet.' },
      ]),
      responsesEnd[1],
    ],
    'input',
    [
      { role: 'user' },
      { role: 'assistant' },
      { type: 'function_call', call_id: 'call_1' },
      { type: 'function_call', call_id: 'call_2' },
      { type: 'function_call_output', call_id: 'call_1' },
      { type: 'function_call_output', call_id: 'call_2' },
    ],
  ],
  [
    'Gemini',
    { model: 'gemini/gemini-3-pro-preview', reasoning_effort: 'high' },
    [{ candidates: [{ content: { role: 'model', parts: [{ text: 'Wet.' }] }, finishReason: 'STOP' }] }],
    'contents',
    [
      { role: 'user' },
      {
        role: 'model',
        parts: [
          { text: 'I look.' },
          // Gemini 3 refuses calls without a signature, and documents this word for those of other logs.
          { functionCall: { name: 'weather' }, thoughtSignature: 'skip_thought_signature_validator' },
          { functionCall: { name: 'weather' } },
        ],
      },
      { role: 'user', parts: [{ functionResponse: {} }, { functionResponse: {} }] },
    ],
  ],
])(
  '%s: a log without what a provider added is still valid to send',
  async (_, settings, stream, member, expected) => {
    const model = openModel(llm.parse({ api_key: 'k', num_retries: 0, base_url: url, ...settings }))
    streams.push(stream)
    const reply = await model.generate({ messages: plainTurn, tools }, new AbortController().signal)
    expect(reply.kind).toBe('reply')
    const body = requests.at(-1)?.body ?? {}
    expect(body[member]).toMatchObject(expected)
    // A budget for thoughts would make Anthropic ask for those of this turn; no item of OpenAI is referred
    // to.
    expect(body).not.toHaveProperty('thinking')
    expect(JSON.stringify(body)).not.toMatch(/item_reference|"signature"|encrypted_content":"/)
  },
)

test('token ids are read from the chunks when they were asked for', async () => {
  const stream = [
    chunk({ role: 'assistant', content: '' }, null, { prompt_token_ids: [1, 2, 3] }),
    { ...chunk({}), choices: [{ index: 0, delta: { content: 'We' }, token_ids: [7], finish_reason: null }] },
    {
      ...chunk({}),
      choices: [{ index: 0, delta: { content: 't.' }, token_ids: [8, 9], finish_reason: 'stop' }],
    },
  ]
  const settings = {
    model: 'hosted_vllm/qwen',
    base_url: url,
    litellm_extra_body: { return_token_ids: true },
  }
  const { answer } = await roundTrip(settings, stream, chatEnd)
  expect(answer.tokenIds).toEqual({ prompt: [1, 2, 3], response: [7, 8, 9] })
  expect(requests.at(-1)?.body).toMatchObject({ return_token_ids: true, stream: true })
  const switched = { model: 'vllm/x', base_url: url, return_token_ids: true }
  const again = await roundTrip(switched, stream, chatEnd)
  expect(again.answer.tokenIds).toEqual({ prompt: [1, 2, 3], response: [7, 8, 9] })
  expect(requests.at(-1)?.body).toMatchObject({ return_token_ids: true })
  await roundTrip({ ...switched, model: 'mistral/x' }, stream, chatEnd)
  expect(requests.at(-1)?.body).not.toHaveProperty('return_token_ids')
})

test('the token ids of llama.cpp are those of its probabilities', async () => {
  const scored = (id: number, content: string) => {
    const logprobs = { content: [{ id, token: content, logprob: -1, top_logprobs: [] }] }
    return { ...chunk({}), choices: [{ index: 0, delta: { content }, logprobs, finish_reason: null }] }
  }
  const settings = { model: 'llama_cpp/x', base_url: url, return_token_ids: true }
  const { answer } = await roundTrip(settings, [scored(7, 'We'), scored(8, 't.'), chunk({}, 'stop')], chatEnd)
  expect(answer.tokenIds).toEqual({ prompt: [], response: [7, 8] })
  expect(requests.at(-1)?.body).toMatchObject({ n_probs: true })
})

test('a call id of an earlier call is made unique', async () => {
  const stream = [chunk(toolDelta(0, 'functions.weather:0', '{}')), chunk({}, 'tool_calls')]
  const settings = { model: 'openai-compatible/kimi', base_url: url }
  const { message } = await roundTrip(settings, stream, chatEnd)
  const model = openModel(llm.parse(settings))
  streams.push(stream)
  const messages = [user('Kiel?'), message, result('functions.weather:0')]
  const again = await model.generate({ messages, tools }, new AbortController().signal)
  const [call] = again.kind === 'reply' ? (again.message.tool_calls ?? []) : []
  expect(call?.id).toMatch(/^functions\.weather:0-[0-9a-f]{8}$/)
})

test('a completion log holds question and answer, and neither the key, nor what is encrypted, nor an image', async () => {
  const settings = {
    model: 'openai/gpt-5',
    base_url: url,
    api_mode: 'responses',
    api_key: 'sk-very-secret-key',
    log_completions: true,
    extra_headers: { 'x-gateway': 'gateway-secret-value' },
  }
  streams.push(responsesTurn)
  const model = openModel(llm.parse(settings), { clock: new FakeClock(1_740_823_211_500) })
  const image: Message = {
    ...user('My key is sk-very-secret-key, not "gateway-secret-value".'),
    content: [
      {
        type: 'text',
        text: 'My key is sk-very-secret-key, not "gateway-secret-value".',
        cache_prompt: false,
      },
      { type: 'image', image_urls: [`data:image/png;base64,${'A'.repeat(5000)}`], cache_prompt: false },
    ],
  }
  const answer = await model.generate({ messages: [image], tools }, new AbortController().signal)
  const log = answer.kind === 'reply' ? answer.completionLog : undefined
  expect(log?.filename).toMatch(/^openai__gpt-5-1740823211\.500-[0-9a-f]{4}\.json$/)
  const data = log?.data ?? ''
  for (const hidden of [
    'sk-very-secret-key',
    'gateway-secret-value',
    'encrypted-1',
    'encrypted-2',
    'A'.repeat(1200),
  ]) {
    expect(data).not.toContain(hidden)
  }
  expect(JSON.parse(data)).toMatchObject({
    request: { messages: [{ role: 'user' }], tools: [{ name: 'weather' }] },
    response: { message: { content: [{ text: 'I look.' }] } },
    usage: { prompt_tokens: 50 },
  })
})

const callTurn = (delta: object) => [
  chunk({ role: 'assistant', ...delta }),
  chunk(toolDelta(0, 'call_1', '{}')),
  chunk({}, 'tool_calls'),
]

test.each(['reasoning', 'reasoning_content'])(
  'an unknown server gets its reasoning back in the member %s in which it came, another one gets none',
  async (member) => {
    const settings = { model: 'openai-compatible/kimi', base_url: `${url}/v1` }
    const { message, sent } = await roundTrip(settings, callTurn({ [member]: 'Hm. ' }), chatEnd)
    expect(sent.messages).toMatchObject([{}, { role: 'assistant', [member]: 'Hm. ' }, {}, {}])
    const before: Message = { ...message, thinking_blocks: [], reasoning_content: null }
    const messages = [user('Kiel?'), before, result('call_1'), message, result('call_1'), user('And?')]
    const ask = async (base_url: string) => {
      streams.push(chatEnd)
      const model = openModel(llm.parse({ ...settings, base_url, api_key: 'k', num_retries: 0 }))
      await model.generate({ messages, tools }, new AbortController().signal)
      const sent = requests.at(-1)?.body.messages as readonly Record<string, unknown>[] // a chat
      return sent.filter(({ role }) => role === 'assistant').map((one) => one[member])
    }
    // What it wants beside calls is blank where it is not known.
    expect(await ask(`${url}/v1`)).toEqual([' ', 'Hm. '])
    expect(await ask(`${url.replace('127.0.0.1', 'localhost')}/v1`)).toEqual([undefined, undefined])
  },
)

test('servers that want reasoning beside calls get a blank one where another model had none', async () => {
  streams.push(chatEnd)
  const [id, name] = ['call_1', 'weather']
  const calls = [{ id, name, arguments: '{}', origin: 'completion' as const }]
  const bare: Message = { role: 'assistant', content: [], tool_calls: calls, thinking_blocks: [] }
  const model = openModel(
    llm.parse({ model: 'deepseek/deepseek-chat', base_url: url, api_key: 'k', num_retries: 0 }),
  )
  const messages = [user('Kiel?'), bare, result(id), user('And?')]
  await model.generate({ messages, tools }, new AbortController().signal)
  expect(requests.at(-1)?.body.messages).toMatchObject([{}, { reasoning_content: ' ' }, {}, {}])
})

test("Gemini's signatures go back to the server that they came from, in its member, and to no other one", async () => {
  const members = { extra_content: { google: { thought_signature: 'sig' } } }
  const fields = { provider_specific_fields: { thought_signature: 'sig' } }
  const turn = (more: object) => [
    chunk({ tool_calls: [{ ...toolDelta(0, 'call_1', '{}').tool_calls[0], ...more }] }),
    chunk({}, 'tool_calls'),
  ]
  const settings = { model: 'openai-compatible/g', base_url: url }
  const { message, sent } = await roundTrip(settings, turn(members), chatEnd)
  expect(sent.messages).toMatchObject([{}, { tool_calls: [members] }, {}, {}])
  const proxy = { model: 'litellm_proxy/g', base_url: url }
  for (const more of [members, fields]) {
    const { sent } = await roundTrip(proxy, turn(more), chatEnd)
    expect(sent.messages).toMatchObject([{}, { tool_calls: [{ ...members, ...fields }] }, {}, {}])
  }
  streams.push(chatEnd)
  const other = openModel(llm.parse({ ...settings, base_url: url.replace('127.0.0.1', 'localhost') }))
  await other.generate(
    { messages: [user('Kiel?'), message, result('call_1')], tools },
    new AbortController().signal,
  )
  expect(JSON.stringify(requests.at(-1)?.body)).not.toContain('sig')
})

test.each(['rtrc', 'rcrc', 'rtcrtc', 'trc', 'rrtc'])(
  'Claude: an answer in the order %s goes back in it',
  async (order) => {
    const blocks = [...order].flatMap((letter, at) => {
      if (letter === 'r') {
        const deltas = [
          { type: 'thinking_delta', thinking: `Thought ${at}.` },
          { type: 'signature_delta', signature: `c2ln${at}` },
        ]
        return anthropicBlock(at, { type: 'thinking', thinking: '', signature: '' }, deltas)
      }
      if (letter === 't')
        return anthropicBlock(at, { type: 'text', text: '' }, [{ type: 'text_delta', text: `Text ${at}.` }])
      const use = { type: 'tool_use', id: `toolu_${at}`, name: 'weather', input: {} }
      return anthropicBlock(at, use, [{ type: 'input_json_delta', partial_json: `{"at":${at}}` }])
    })
    const usage = { output_tokens: 7 }
    const end = [
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage },
      { type: 'message_stop' },
    ]
    const settings = { model: 'anthropic/claude-sonnet-4-6', base_url: url, reasoning_effort: 'high' }
    const { message, sent } = await roundTrip(
      settings,
      [anthropicStart, ...blocks, ...end],
      [anthropicStart, ...anthropicEnd],
    )
    const types = { r: 'thinking', t: 'text', c: 'tool_use' }
    const texts = { r: 'thinking', t: 'text', c: 'id' }
    const contents = (sent.messages as { content: Record<string, unknown>[] }[])[1]?.content ?? [] // by its schema
    expect(contents.map(({ type }) => type)).toEqual([...order].map((letter) => types[letter as 'r']))
    expect(contents.map((block, at) => block[texts[order[at] as 'r']])).toEqual(
      [...order].map((letter, at) => ({ r: `Thought ${at}.`, t: `Text ${at}.`, c: `toolu_${at}` })[letter]),
    )
    // An answer in the usual order is stored without a note of it.
    expect(message.thinking_blocks.some((block) => 'data' in block)).toBe(!/^r*t*c*$/.test(order))
  },
)
