import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { openModel } from '../models/open-model.ts'
import { tools } from '../refusals/testing/refused-history.ts'

const chunk = (delta: object, more: object = {}) => ({
  id: 'chatcmpl-1234567890',
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
})
const call = (args: unknown, id: unknown = 'call_1234567890123456') => ({
  tool_calls: [{ index: 0, id, type: 'function', function: { name: 'grep', arguments: args } }],
})
/** A call of which the name comes in pieces, or again and again. */
const named = (...names: string[]) =>
  names.map((name, at) => {
    const id = at === 0 ? 'call_1234567890123456' : undefined
    return chunk({ tool_calls: [{ index: 0, id, type: 'function', function: { name, arguments: '' } }] })
  })
const given = (args: string) => chunk({ tool_calls: [{ index: 0, function: { arguments: args } }] })
const end = (finish_reason: string) => chunk({}, { finish_reason })
const sse = (...events: object[]) =>
  `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`

async function answerTo(body: BodyInit, type = 'text/event-stream') {
  let count = 0
  const model = openModel(
    llm.parse({ model: 'openai-compatible/m', base_url: 'http://h.test/v1', num_retries: 0 }),
    {
      fetch: async () => {
        count++
        return new Response(body, { headers: { 'content-type': type } })
      },
    },
  )
  const content = [{ type: 'text' as const, text: 'Weather?', cache_prompt: false }]
  const messages = [{ role: 'user' as const, content, thinking_blocks: [] }]
  const result = await model.generate({ messages, tools }, new AbortController().signal)
  return { result, count }
}

const calls = [{ name: 'grep', arguments: '{"pattern":"x"}' }]
const object = { pattern: 'x' }
const usage = { prompt_tokens: 11, completion_tokens: 2 }
const whole = (message: object, finish_reason: string) => ({
  ...{ id: 'chatcmpl-1234567890', object: 'chat.completion', usage },
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
})

test.each<[string, string, object]>([
  ['arguments as an object', sse(chunk(call(object)), end('tool_calls')), { tool_calls: calls }],
  [
    'an id that is a number',
    sse(chunk(call('{"pattern":"x"}', 7)), end('tool_calls')),
    { tool_calls: calls },
  ],
  [
    'a name in pieces',
    sse(...named('gr', 'ep'), given('{"pattern":'), given('"x"}'), end('tool_calls')),
    { tool_calls: calls },
  ],
  [
    'a name that comes again',
    sse(...named('grep', 'grep'), given('{"pattern":"x"}'), end('stop')),
    { tool_calls: calls },
  ],
  ['a name that grows', sse(...named('gr', 'grep'), given('{"pattern":"x"}')), { tool_calls: calls }],
  [
    'a name without arguments',
    sse(...named('gr', 'ep'), end('tool_calls')),
    { tool_calls: [{ name: 'grep', arguments: '' }] },
  ],
  [
    'a use of tokens without choices',
    sse(chunk({ content: 'Yes.' }), end('stop'), { usage }),
    { text: 'Yes.' },
  ],
  // https://github.com/ollama/ollama/blob/main/openai/openai.go, its first versions
  [
    'a call without an id',
    sse(
      chunk({
        tool_calls: [
          { index: 0, type: 'function', function: { name: 'grep', arguments: '{"pattern":"x"}' } },
        ],
      }),
      end('tool_calls'),
    ),
    { tool_calls: calls },
  ],
  // https://github.com/ollama/ollama/issues/7881
  [
    'calls that all have the index 0',
    sse(
      chunk(call('{"pattern":"x"}', 'call_1234567890123451')),
      chunk(call('{"pattern":"y"}', 'call_1234567890123452')),
      end('tool_calls'),
    ),
    { tool_calls: [...calls, { name: 'grep', arguments: '{"pattern":"y"}' }] },
  ],
  // https://ai.google.dev/gemini-api/docs/openai
  [
    'calls without an index',
    sse(
      chunk({
        tool_calls: ['x', 'y'].map((pattern) => ({
          ...{ id: `function-call-${pattern}`, type: 'function' },
          function: { name: 'grep', arguments: JSON.stringify({ pattern }) },
        })),
      }),
      end('stop'),
    ),
    { tool_calls: [...calls, { name: 'grep', arguments: '{"pattern":"y"}' }] },
  ],
  // https://www.alibabacloud.com/help/en/model-studio/qwen-function-calling
  [
    'an id and a name that are empty later',
    sse(
      chunk(call('')),
      chunk({
        tool_calls: [
          { index: 0, id: '', type: 'function', function: { name: '', arguments: '{"pattern":' } },
        ],
      }),
      chunk({
        tool_calls: [{ index: 0, id: '', type: 'function', function: { name: null, arguments: '"x"}' } }],
      }),
      end('tool_calls'),
    ),
    { tool_calls: calls },
  ],
  // https://openrouter.ai/docs/api-reference/streaming
  [
    'comments',
    `: OPENROUTER PROCESSING\n\n${sse(chunk({ content: 'Yes.' }), end('stop'))}`,
    { text: 'Yes.' },
  ],
  // https://docs.siliconflow.com/en/api-reference/chat-completions
  [
    'a reason for the end that is empty at first',
    sse(
      chunk({ content: 'Ye' }, { finish_reason: '' }),
      chunk({ content: 's.' }, { finish_reason: '' }),
      end('stop'),
    ),
    { text: 'Yes.' },
  ],
  // https://docs.z.ai/api-reference/llm/chat-completion
  [
    'a line end of two signs, and no space',
    `data:${JSON.stringify(chunk({ content: 'Yes.' }))}\r\n\r\ndata:${JSON.stringify(end('stop'))}\r\n\r\ndata:[DONE]\r\n\r\n`,
    { text: 'Yes.' },
  ],
  // https://docs.vllm.ai/en/latest/features/tool_calling
  ['the end of a text after a call', sse(chunk(call('{"pattern":"x"}')), end('stop')), { tool_calls: calls }],
  // https://console.groq.com/docs/api-reference
  [
    'a use of tokens in a separate member',
    sse(chunk({ content: 'Yes.' }), { ...end('stop'), x_groq: { id: 'req_1', usage } }),
    { text: 'Yes.' },
  ],
  // https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
  [
    'filters before the first choice',
    sse(
      { id: '', choices: [], prompt_filter_results: [{ prompt_index: 0 }] },
      chunk({ content: 'Yes.' }),
      end('stop'),
    ),
    { text: 'Yes.' },
  ],
  // https://api-docs.deepseek.com/guides/reasoning_model
  [
    'a content that is null beside thoughts',
    sse(
      chunk({ content: null, reasoning_content: 'Hm.' }),
      chunk({ content: 'Yes.', reasoning_content: null }),
      end('stop'),
    ),
    { text: 'Yes.' },
  ],
  // https://docs.mistral.ai/capabilities/reasoning
  [
    'a content of parts',
    sse(
      chunk({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] }] }),
      chunk({ content: [{ type: 'text', text: 'Ye' }] }),
      chunk({ content: 's.' }),
      end('stop'),
    ),
    { text: 'Yes.' },
  ],
  // https://docs.perplexity.ai/api-reference
  [
    'a delta that is null',
    sse(chunk({ content: 'Yes.' }), { choices: [{ index: 0, delta: null, finish_reason: 'stop' }] }),
    { text: 'Yes.' },
  ],
  // https://docs.fireworks.ai/api-reference/post-chatcompletions
  [
    'arguments that are null',
    sse(
      chunk({
        tool_calls: [
          {
            index: 0,
            id: 'call_1234567890123456',
            type: 'function',
            function: { name: 'grep', arguments: null },
          },
        ],
      }),
      given('{"pattern":"x"}'),
      end('tool_calls'),
    ),
    { tool_calls: calls },
  ],
  // https://docs.together.ai/reference/chat-completions
  [
    'a role and a token beside each choice',
    sse(
      { ...chunk({ role: 'assistant', content: 'Yes.', token_id: 7, tool_calls: [] }), usage: null },
      { ...end('eos'), usage },
    ),
    { text: 'Yes.' },
  ],
  ['no reason for the end', sse(chunk({ content: 'Yes.' })), { text: 'Yes.' }],
  ['no reason for the end of a call', sse(chunk(call('{"pattern":"x"}'))), { tool_calls: calls }],
])('%s is read', async (_, body, expected) => {
  const { result } = await answerTo(body)
  expect(result).toMatchObject({ kind: 'reply' })
  const { tool_calls, content } = result.kind === 'reply' ? result.message : {}
  expect({
    tool_calls,
    text: content?.map((part) => ('text' in part ? part.text : '')).join(''),
  }).toMatchObject(expected)
})

test('an answer that is not a stream is read, with its calls and tokens', async () => {
  const json = JSON.stringify(whole({ content: null, ...call(object) }, 'tool_calls'))
  const { result } = await answerTo(json, 'application/json')
  expect(result).toMatchObject({ message: { tool_calls: calls }, usage: { prompt_tokens: 11 } })
})

/**
 * https://platform.minimax.io/docs/api-reference/errorcode,
 * https://github.com/MiniMax-AI/MiniMax-01/issues/37
 */
test.each([
  [2049, 'invalid api key', 'LLMAuthenticationError'],
  [1008, 'insufficient balance', 'LLMRateLimitError'],
  [1002, 'rate limit', 'LLMRateLimitError'],
  [1026, 'input new_sensitive', 'LLMContentPolicyViolationError'],
  [2013, 'invalid params', 'LLMBadRequestError'],
  [1000, 'unknown error', 'LLMServiceUnavailableError'],
  [1000, undefined, 'LLMServiceUnavailableError'],
])('%i with the status 200 is a failure that says why', async (status_code, status_msg, code) => {
  const body = { id: 'x', choices: null, base_resp: { status_code, status_msg } }
  for (const [text, type] of [
    [JSON.stringify(body), 'application/json'],
    [sse(body), 'text/event-stream'],
  ]) {
    const { result } = await answerTo(text ?? '', type)
    const detail = expect.stringContaining(status_msg ?? `Error ${status_code}`)
    expect(result).toMatchObject({ kind: 'failure', code, detail })
  }
})

const begun = chunk({ content: 'It beg' })

/** Errors in the middle of a stream, each below its source. */
test.each<[string, string, string]>([
  // https://openrouter.ai/docs/api-reference/errors
  [
    'OpenRouter',
    sse(begun, {
      ...{ id: 'gen-1', object: 'chat.completion.chunk', error: { code: 502, message: 'It went away' } },
      choices: [{ index: 0, delta: { content: '' }, finish_reason: 'error' }],
    }),
    'LLMServiceUnavailableError',
  ],
  // https://github.com/anomalyco/opencode/issues/1018
  [
    'Groq',
    `${sse(begun).replace('data: [DONE]\n\n', '')}event: error\ndata: {"error":{"message":"It went away","code":"tool_use_failed","status_code":400}}\n\n`,
    'LLMServiceUnavailableError',
  ],
  // https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints
  [
    'vLLM',
    sse(begun, {
      error: { object: 'error', message: 'It went away', type: 'InternalServerError', code: 500 },
    }),
    'LLMServiceUnavailableError',
  ],
  // https://lmstudio.ai/docs/developer
  [
    'LM Studio',
    `data: ${JSON.stringify(begun)}\n\nevent: error\ndata: {"error":{"message":"It went away"}}\n\n`,
    'LLMServiceUnavailableError',
  ],
  // https://github.com/ollama/ollama/blob/main/middleware/openai.go
  ['Ollama', sse(begun, { error: 'It went away' }), 'LLMServiceUnavailableError'],
  // https://docs.mistral.ai/api
  [
    'Mistral',
    sse(begun, { object: 'error', message: 'It went away', type: 'internal_server_error', code: '1000' }),
    'LLMServiceUnavailableError',
  ],
  // https://www.alibabacloud.com/help/en/model-studio/error-code
  [
    'DashScope',
    sse(begun, { code: 'InternalError', message: 'It went away', request_id: 'r' }),
    'LLMServiceUnavailableError',
  ],
  // https://docs.litellm.ai/docs/exception_mapping
  [
    'LiteLLM',
    sse(begun, { error: { message: 'It went away', type: 'None', param: 'None', code: '500' } }),
    'LLMServiceUnavailableError',
  ],
  // https://github.com/sgl-project/sglang
  [
    'SGLang',
    sse(begun, { object: 'error', message: 'It went away', type: 'BadRequest', code: 400 }),
    'LLMBadRequestError',
  ],
  // https://platform.moonshot.ai/docs/api/errors
  [
    'Moonshot',
    sse(begun, { error: { message: 'It went away', type: 'engine_overloaded_error' } }),
    'LLMServiceUnavailableError',
  ],
])('%s says in the middle of a stream why it ends', async (_, body, code) => {
  const { result } = await answerTo(body)
  expect(result).toMatchObject({ kind: 'failure', code, detail: expect.stringContaining('It went away') })
})

test('an answer with a status of no error is one', async () => {
  const { result } = await answerTo(
    sse(chunk({ content: 'Yes.' }), end('stop'), { usage, base_resp: { status_code: 0, status_msg: '' } }),
  )
  expect(result).toMatchObject({ kind: 'reply' })
})

test('a stream that stays open after its end has ended', async () => {
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) =>
      controller.enqueue(new TextEncoder().encode(sse(chunk({ content: 'Yes.' }), end('stop')))),
  })
  expect((await answerTo(body)).result).toMatchObject({ kind: 'reply' })
})

test('a web page is a wrong address, said at once', async () => {
  const { result, count } = await answerTo('<!doctype html><title>Hello</title>', 'text/html; charset=utf-8')
  expect(result).toMatchObject({ kind: 'failure', detail: expect.stringContaining('base_url') })
  // The request, and the list of its models.
  expect(count).toBe(2)
})
