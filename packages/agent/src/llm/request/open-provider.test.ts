import { llm, type Message } from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { ModelRequest } from '../model.ts'
import { openModel } from '../models/open-model.ts'

const question: Message = {
  role: 'user',
  content: [{ type: 'text', text: 'Kiel?', cache_prompt: false }],
  thinking_blocks: [],
}

interface SentRequest {
  readonly url: string
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

/** What would be sent to a provider: nobody is there, each request is refused. */
async function sendRequest(
  settings: Record<string, unknown>,
  request: Partial<ModelRequest> = {},
): Promise<SentRequest> {
  const requests: SentRequest[] = []
  const answerLocally: typeof fetch = async (input, init) => {
    const headers = new Headers(init?.headers)
    requests.push({ url: String(input), headers, body: JSON.parse(String(init?.body)) })
    return new Response('{"error":{"message":"nobody is here"}}', { status: 400 })
  }
  const model = openModel(llm.parse({ num_retries: 0, ...settings }), { fetch: answerLocally })
  await model.generate({ messages: [question], tools: [], ...request }, new AbortController().signal)
  const [first] = requests
  if (first === undefined) throw new Error('nothing was sent')
  return first
}

const key = 'sk-very-secret-key'

test.each([
  ['openai/gpt-4o', {}, 'https://api.openai.com/v1/chat/completions'],
  ['openai/gpt-5-mini', {}, 'https://api.openai.com/v1/responses'],
  ['o4-mini', {}, 'https://api.openai.com/v1/responses'],
  ['openai/gpt-5', { api_mode: 'chat' }, 'https://api.openai.com/v1/chat/completions'],
  ['openai/gpt-5', { base_url: 'https://api.openai.com/v1/' }, 'https://api.openai.com/v1/responses'],
  ['openai/gpt-5', { base_url: 'https://proxy.test/x' }, 'https://proxy.test/x/chat/completions'],
  ['openai/qwen3', { base_url: 'https://proxy.test/v1' }, 'https://proxy.test/v1/chat/completions'],
  ['anthropic/claude-sonnet-4-6', {}, 'https://api.anthropic.com/v1/messages'],
  ['anthropic/claude-sonnet-4-6', { base_url: 'https://proxy.test/a/' }, 'https://proxy.test/a/v1/messages'],
  ['claude-sonnet-4-6', {}, 'https://api.anthropic.com/v1/messages'],
  [
    'gemini/gemini-2.5-pro',
    {},
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse',
  ],
  ['openrouter/x/y', {}, 'https://openrouter.ai/api/v1/chat/completions'],
  ['ollama/llama3', {}, 'http://127.0.0.1:11434/v1/chat/completions'],
  ['litellm_proxy/any', { base_url: 'https://proxy.test' }, 'https://proxy.test/chat/completions'],
  ['org/own-model', { base_url: 'https://proxy.test/v1' }, 'https://proxy.test/v1/chat/completions'],
  [
    'azure/my-deployment',
    { base_url: 'https://me.openai.azure.com/' },
    'https://me.openai.azure.com/openai/deployments/my-deployment/chat/completions?api-version=2024-12-01-preview',
  ],
  [
    'azure/my-deployment',
    { base_url: 'https://me.openai.azure.com', api_version: '2025-01-01' },
    'https://me.openai.azure.com/openai/deployments/my-deployment/chat/completions?api-version=2025-01-01',
  ],
  [
    'azure/my-deployment',
    { base_url: 'https://me.openai.azure.com', api_mode: 'responses', api_version: 'preview' },
    'https://me.openai.azure.com/openai/v1/responses?api-version=preview',
  ],
  [
    'bedrock/us.anthropic.claude-sonnet-4-6',
    { aws_region_name: 'eu-central-1' },
    'https://bedrock-runtime.eu-central-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-6/converse-stream',
  ],
])('%s with %j is asked at its address, the key never in it', async (model, more, url) => {
  const request = await sendRequest({ model, api_key: key, ...more })
  expect(request.url).toBe(url)
  const shown = [...request.headers].filter(([, value]) => value.includes(key)).map(([name]) => name)
  expect(shown).toHaveLength(1)
  expect(JSON.stringify(request.body)).not.toContain(key)
})

test('the name after the prefix is the requested model', async () => {
  expect((await sendRequest({ model: 'openrouter/x/y', api_key: key })).body.model).toBe('x/y')
  expect((await sendRequest({ model: 'org/own', base_url: 'https://proxy.test' })).body.model).toBe('org/own')
  expect((await sendRequest({ model: 'own', base_url: 'https://proxy.test' })).body.model).toBe('own')
})

test("a server of one's own is asked without a key when there is none", async () => {
  const { headers } = await sendRequest({ model: 'openai-compatible/own', base_url: 'https://proxy.test' })
  expect(headers.has('authorization')).toBe(false)
})

test('Bedrock requests are signed with the credentials and do not contain them', async () => {
  const { headers } = await sendRequest({
    model: 'bedrock/anthropic.claude-sonnet-4-6',
    aws_access_key_id: 'AKIDEXAMPLE',
    aws_secret_access_key: 'very-secret-access-key',
    aws_session_token: 'session-token',
    aws_region_name: 'us-west-2',
  })
  expect(headers.get('authorization')).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d{8}\/us-west-2\/bedrock\/aws4_request, SignedHeaders=/,
  )
  expect(headers.get('x-amz-security-token')).toBe('session-token')
  expect([...headers.values()].join()).not.toContain('very-secret-access-key')
})

test('Azure requests use its own key header', async () => {
  const { headers } = await sendRequest({
    model: 'azure/d',
    base_url: 'https://me.openai.azure.com',
    api_key: key,
  })
  expect(headers.get('api-key')).toBe(key)
})

test.each([
  ['openai/gpt-5', { reasoning_effort: 'high' }, { reasoning: { effort: 'high' } }],
  [
    'openai/gpt-5',
    { reasoning_effort: 'low', reasoning_summary: 'auto' },
    { reasoning: { effort: 'low', summary: 'auto' } },
  ],
  ['openai/gpt-5', { api_mode: 'chat', reasoning_effort: 'high' }, { reasoning_effort: 'high' }],
  [
    'azure/deployment',
    { base_url: 'https://a.test', reasoning_effort: 'high' },
    { reasoning_effort: 'high' },
  ],
  [
    'anthropic/claude-opus-4-6',
    { reasoning_effort: 'high' },
    { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
  ],
  [
    'anthropic/claude-sonnet-4-5',
    { extended_thinking_budget: 200_000 },
    { thinking: { type: 'enabled', budget_tokens: 32_000 } },
  ],
  ['anthropic/claude-opus-4-6', { reasoning_effort: 'none' }, { thinking: { type: 'disabled' } }],
  [
    'gemini/gemini-3-pro-preview',
    { reasoning_effort: 'high' },
    { generationConfig: { thinkingConfig: { thinkingLevel: 'high', includeThoughts: true } } },
  ],
  [
    'gemini/gemini-2.5-pro',
    { extended_thinking_budget: 2000 },
    { generationConfig: { thinkingConfig: { thinkingBudget: 2000 } } },
  ],
  [
    'bedrock/us.anthropic.claude-sonnet-4-5',
    { extended_thinking_budget: 4000 },
    { additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 4000 } } },
  ],
])('%s thinks as %j says', async (model, more, body) => {
  expect((await sendRequest({ model, api_key: key, ...more })).body).toMatchObject(body)
})

test.each([
  ['openai/gpt-4o', {}],
  ['openai/gpt-4o', { api_mode: 'responses' }],
  ['anthropic/claude-3-5-haiku-latest', {}],
  ['gemini/gemini-2.0-flash', {}],
  ['openai/gpt-5', { capability_overrides: { supports_reasoning_effort: false } }],
])('%s with %j is not told how to think', async (model, more) => {
  const { body } = await sendRequest({
    model,
    api_key: key,
    reasoning_effort: 'high',
    extended_thinking_budget: 2000,
    ...more,
  })
  expect(JSON.stringify(body)).not.toMatch(/reasoning"|reasoning_effort|thinking|effort/)
})

test.each([
  ['openai/gpt-4o', { tool_choice: 'none' }],
  ['openai/gpt-5', { tool_choice: 'none' }],
  ['openrouter/x/y', { tool_choice: 'none' }],
  ['anthropic/claude-sonnet-4-6', { tool_choice: { type: 'none' } }],
  ['gemini/gemini-2.5-pro', { toolConfig: { functionCallingConfig: { mode: 'NONE' } } }],
])('%s is told of the tools, and not to use them, in a question beside the work', async (model, body) => {
  const tools = [{ name: 'run', description: 'Runs', parameters: { type: 'object', properties: {} } }]
  const request = await sendRequest({ model, api_key: key }, { tools, toolChoice: 'none' })
  expect(request.body).toMatchObject({ tools: [{}], ...body })
  expect(JSON.stringify(request.body)).not.toMatch(/"strict":true|eager/)
})

test('marks reach the providers that take them', async () => {
  const system: Message = {
    role: 'system',
    content: [{ type: 'text', text: 'Be brief.', cache_prompt: true }],
    thinking_blocks: [],
  }
  const messages = [
    system,
    { ...question, content: [{ type: 'text', text: 'Kiel?', cache_prompt: true } as const] },
  ]
  const anthropic = await sendRequest({ model: 'anthropic/claude-sonnet-4-6', api_key: key }, { messages })
  const cache_control = { type: 'ephemeral' }
  expect(anthropic.body).toMatchObject({
    system: [{ text: 'Be brief.', cache_control }],
    messages: [{ content: [{ text: 'Kiel?', cache_control }] }],
  })
  const bedrock = await sendRequest(
    { model: 'bedrock/anthropic.claude-sonnet-4-6', api_key: key },
    { messages },
  )
  const cachePoint = { type: 'default' }
  expect(bedrock.body).toMatchObject({
    system: [{ text: 'Be brief.' }, { cachePoint }],
    messages: [{ content: [{ text: 'Kiel?' }, { cachePoint }] }],
  })
  const off = await sendRequest(
    { model: 'anthropic/claude-sonnet-4-6', api_key: key, caching_prompt: false },
    { messages },
  )
  expect(JSON.stringify(off.body)).not.toContain('cache_control')
})

test('a request for a short reply turns reasoning off', async () => {
  const settings = { model: 'anthropic/claude-sonnet-4-5', api_key: key, extended_thinking_budget: 9000 }
  const { body } = await sendRequest(settings, { maxOutputTokens: 1 })
  expect(body).toMatchObject({ max_tokens: 1 })
  expect(body).not.toHaveProperty('thinking')
  const responses = await sendRequest({ model: 'openai/gpt-5', api_key: key }, { maxOutputTokens: 1 })
  expect(responses.body).toMatchObject({ max_output_tokens: 16 })
})

test('a Claude that did not begin the turn gets no reasoning budget in the middle of it', async () => {
  const settings = { model: 'anthropic/claude-sonnet-4-5', api_key: key, extended_thinking_budget: 9000 }
  const call: Message = {
    role: 'assistant',
    content: [],
    tool_calls: [{ id: 'a', name: 't', arguments: '{}', origin: 'completion' }],
    thinking_blocks: [],
  }
  const result: Message = { ...question, role: 'tool', tool_call_id: 'a' }
  const midway = await sendRequest(settings, { messages: [question, call, result] })
  expect(midway.body).not.toHaveProperty('thinking')
  const next = await sendRequest(settings, { messages: [question, call, result, question] })
  expect(next.body).toHaveProperty('thinking')
})

test.each([
  'anthropic/claude-sonnet-4-6',
  'openai/gpt-4o',
  'openai/qwen3',
  'azure/d',
  'gemini/gemini-2.5-pro',
])('%s gets the header of the settings that has the key, and no other', async (model) => {
  const extra_headers = { Authorization: 'Bearer mine' }
  const { headers } = await sendRequest({ model, base_url: 'https://proxy.test/v1', extra_headers })
  const keys = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'].map((name) => headers.get(name))
  expect(keys).toEqual(['Bearer mine', null, null, null])
})
