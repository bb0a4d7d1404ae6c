import { LLMock } from '@copilotkit/aimock'
import { llm, type Message } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Model, ModelDelta, ModelReply, ModelTool } from '../model.ts'
import { openModel } from './open-model.ts'

const mock = new LLMock({ port: 0, host: '127.0.0.1', latency: 0 })
beforeAll(async () => {
  await mock.start()
})
afterAll(async () => {
  await mock.stop()
})

/** One model of each interface, all at the same far side. */
const models: readonly (readonly [string, () => Record<string, unknown>])[] = [
  ['OpenAI chat', () => ({ model: 'openai/gpt-4o', base_url: `${mock.url}/v1` })],
  ['OpenAI responses', () => ({ model: 'openai/gpt-5', base_url: `${mock.url}/v1`, api_mode: 'responses' })],
  ['an OpenAI-like server', () => ({ model: 'openai-compatible/qwen', base_url: `${mock.url}/v1` })],
  ['Anthropic', () => ({ model: 'anthropic/claude-sonnet-4-5', base_url: mock.url })],
  ['Gemini', () => ({ model: 'gemini/gemini-2.5-pro', base_url: mock.url })],
  ['Azure', () => ({ model: 'azure/gpt-4o', base_url: mock.url })],
  ['Bedrock', () => ({ model: 'bedrock/anthropic.claude-sonnet-4-5', base_url: mock.url })],
]

/** Each interface has its own names for the same numbers. */
const usage = {
  ...{ prompt_tokens: 120, completion_tokens: 30, total_tokens: 150 },
  ...{ input_tokens: 120, output_tokens: 30 },
  ...{ inputTokens: 120, outputTokens: 30, totalTokens: 150 },
  ...{ promptTokenCount: 120, candidatesTokenCount: 30, totalTokenCount: 150 },
}

const tools: readonly ModelTool[] = [
  {
    name: 'weather',
    description: 'Weather of a town',
    parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] },
  },
]

function open(settings: Record<string, unknown>): Model {
  return openModel(llm.parse({ api_key: 'sk-very-secret-key', num_retries: 0, ...settings }))
}

function user(text: string): Message {
  return { role: 'user', content: [{ type: 'text', text, cache_prompt: false }], thinking_blocks: [] }
}

async function generateReply(
  model: Model,
  messages: readonly Message[],
  onDelta?: (delta: ModelDelta) => void,
) {
  const answer = await model.generate(
    { messages, tools, ...(onDelta === undefined ? {} : { onDelta }) },
    new AbortController().signal,
  )
  expect(answer).toMatchObject({ kind: 'reply' })
  return answer as ModelReply // said by the line before
}

test.each(models)('%s: a text comes in pieces and as a whole', async (_, settings) => {
  const content = 'The sky over the harbour is grey, and the wind has turned to the west.'
  mock.onMessage('sky?', { content, usage })
  const deltas: ModelDelta[] = []
  const { message, ...rest } = await generateReply(open(settings()), [user('sky?')], (delta) =>
    deltas.push(delta),
  )
  expect(message.content).toEqual([{ type: 'text', text: content, cache_prompt: false }])
  expect(deltas.map((delta) => delta.content).join('')).toBe(content)
  expect(rest).toMatchObject({ stop: 'stop', usageId: 'default', model: settings().model })
  expect(rest.usage).toMatchObject({ prompt_tokens: 120, completion_tokens: 30, per_turn_token: 150 })
  expect(rest.usage.response_id).toBe(rest.responseId)
})

test.each(models)(
  '%s: parallel tool calls keep their order, and their results go back with their ids',
  async (_, settings) => {
    mock.onMessage('two towns', {
      toolCalls: [
        { name: 'weather', arguments: '{"town": "Kiel"}', id: 'call_one_1234' },
        { name: 'nobody_knows_it', arguments: '{"town":"Oslo"}', id: 'call_two_1234' },
      ],
    })
    const model = open(settings())
    const first = await generateReply(model, [user('two towns')])
    const calls = first.message.tool_calls ?? []
    expect(first.stop).toBe('tool_calls')
    expect(calls.map(({ name }) => name)).toEqual(['weather', 'nobody_knows_it'])
    expect(calls.map((call) => JSON.parse(call.arguments))).toEqual([{ town: 'Kiel' }, { town: 'Oslo' }])
    mock.prependFixture({
      match: {
        predicate: (request) =>
          request.messages.at(-1)?.role === 'tool' && `${request.messages.at(-1)?.content}`.includes('rain'),
      },
      response: { content: 'Both are wet.' },
    })
    const results = calls.map(
      ({ id, name }): Message => ({
        role: 'tool',
        tool_call_id: id,
        name,
        content: [{ type: 'text', text: `rain in ${name}`, cache_prompt: false }],
        thinking_blocks: [],
      }),
    )
    const second = await generateReply(model, [user('two towns'), first.message, ...results])
    expect(second.message.content).toMatchObject([{ text: 'Both are wet.' }])
  },
)

test.each(models.slice(0, 3))('%s: broken arguments come as they were sent', async (_, settings) => {
  mock.onMessage('broken', {
    toolCalls: [{ name: 'weather', arguments: '{"town": "Ki', id: 'call_broken_12' }],
  })
  const { message } = await generateReply(open(settings()), [user('broken')])
  expect(message.tool_calls).toMatchObject([{ name: 'weather', arguments: '{"town": "Ki' }])
})

test.each(models.filter(([name]) => name !== 'OpenAI responses'))(
  '%s: an answer cut at its limit says so',
  async (_, settings) => {
    mock.onMessage('very long', {
      content: 'It began long ago and',
      finishReason: 'length',
    })
    const { stop } = await generateReply(open(settings()), [user('very long')])
    expect(stop).toBe('length')
  },
)

test.each(models)('%s: a truncated stream is a failure after all retries', async (_, settings) => {
  mock.onMessage(
    'cut me',
    { content: 'word '.repeat(200) },
    { truncateAfterChunks: 8, chunkSize: 10, latency: 30 },
  )
  mock.clearRequests()
  const answer = await open({
    ...settings(),
    num_retries: 3,
    retry_min_wait: 0,
    retry_multiplier: 0,
  }).generate({ messages: [user('cut me')], tools }, new AbortController().signal)
  expect(answer).toMatchObject({ kind: 'failure', code: 'LLMServiceUnavailableError' })
  expect(mock.getRequests()).toHaveLength(4)
})

test.each(models)('%s: a busy provider is retried after the delay that it names', async (_, settings) => {
  mock.onMessage('busy', { content: 'At last.' })
  mock.nextRequestError(429, { message: 'Slow down.', type: 'rate_limit_error' })
  const waits: number[] = []
  const model = openModel(
    llm.parse({ ...settings(), api_key: 'sk-very-secret-key', num_retries: 2, retry_max_wait: 3 }),
    { clock: { ...systemClock, sleep: async (ms) => void waits.push(ms) } },
  )
  const { message } = await generateReply(model, [user('busy')])
  expect(message.content).toMatchObject([{ text: 'At last.' }])
  expect(waits).toHaveLength(1)
  expect(waits[0]).toBeLessThanOrEqual(3000)
})

test.each(models)('%s: a lasting error is a failure after the last attempt', async (_, settings) => {
  for (let i = 0; i < 3; i += 1) mock.nextRequestError(500, { message: 'The machine is on fire.' })
  const waits: number[] = []
  const model = openModel(llm.parse({ ...settings(), api_key: 'sk-very-secret-key', num_retries: 2 }), {
    clock: { ...systemClock, sleep: async (ms) => void waits.push(ms) },
  })
  const answer = await model.generate({ messages: [user('fire')], tools }, new AbortController().signal)
  expect(answer).toMatchObject({ kind: 'failure', code: 'LLMServiceUnavailableError' })
  expect(answer.kind === 'failure' && answer.detail).toContain('The machine is on fire.')
  expect(waits).toEqual([8000, 16_000])
})

test.each(models)('%s: a rejected key is not retried', async (_, settings) => {
  mock.nextRequestError(401, { message: 'Bad key sk-very-secret-key.', type: 'authentication_error' })
  mock.clearRequests()
  const answer = await open({ ...settings(), num_retries: 3 }).generate(
    { messages: [user('let me in')], tools },
    new AbortController().signal,
  )
  expect(answer).toMatchObject({ kind: 'failure', code: 'LLMAuthenticationError' })
  expect(JSON.stringify(answer)).not.toContain('sk-very-secret-key')
  expect(mock.getRequests()).toHaveLength(1)
})

test.each(models)(
  '%s: a rejected key is fetched again once, and the new one is used',
  async (_, settings) => {
    mock.onMessage('renew', { content: 'With the new key.' })
    const renewals: string[] = []
    const keys: string[] = []
    const { base_url } = settings()
    const model = openModel(llm.parse({ ...settings(), api_key: 'sk-very-secret-key', num_retries: 3 }), {
      fetch: async (input, init) => {
        keys.push(JSON.stringify([...new Headers(init?.headers)]))
        return await fetch(input, init)
      },
      refreshKey: async (baseUrl) => {
        renewals.push(baseUrl)
        return 'sk-the-renewed-key'
      },
    })
    mock.nextRequestError(401, { message: 'Bad key.', type: 'authentication_error' })
    for (const _ of [1, 2])
      expect((await generateReply(model, [user('renew')])).message.content).toMatchObject([
        { text: 'With the new key.' },
      ])
    expect(renewals).toEqual([base_url])
    expect(keys).toHaveLength(3)
    const [first, ...others] = keys
    if (!String(settings().model).startsWith('bedrock/')) expect(first).toContain('sk-very-secret-key')
    for (const other of others) expect(other).toContain('sk-the-renewed-key')
    mock.nextRequestError(401, { message: 'Bad key sk-the-renewed-key.', type: 'authentication_error' })
    const failed = await model.generate({ messages: [user('renew')], tools }, new AbortController().signal)
    expect(failed).toMatchObject({ kind: 'failure', code: 'LLMAuthenticationError' })
    expect(JSON.stringify(failed)).not.toContain('sk-the-renewed-key')
    expect(renewals).toHaveLength(2)
  },
)

test('requests at the same time whose key is rejected share the new one', async () => {
  mock.onMessage('share', { content: 'Shared.' })
  const renewals: string[] = []
  const settings = { model: 'openai/gpt-4o', base_url: `${mock.url}/v1`, api_key: 'sk-old', num_retries: 0 }
  const model = openModel(llm.parse(settings), {
    refreshKey: async (baseUrl) => {
      renewals.push(baseUrl)
      return 'sk-new'
    },
    fetch: async (input, init) =>
      new Headers(init?.headers).get('authorization') === 'Bearer sk-new'
        ? await fetch(input, init)
        : Response.json({ error: { message: 'Bad key.' } }, { status: 401 }),
  })
  await Promise.all([1, 2, 3].map(() => generateReply(model, [user('share')])))
  await generateReply(model, [user('share')])
  expect(renewals.length).toBeLessThanOrEqual(3)
})

test('reasoning of Claude goes back signed and in order, redacted blocks too', async () => {
  mock.onMessage('think', {
    content: 'Done.',
    reasoning: 'First this, then that.',
    reasoningSignature: 'c2lnbmF0dXJl',
    redactedThinking: ['cmVkYWN0ZWQ='],
  })
  const model = open({ model: 'anthropic/claude-opus-4-6', base_url: mock.url, reasoning_effort: 'high' })
  const { message } = await generateReply(model, [user('think')])
  expect(message.thinking_blocks).toEqual(
    expect.arrayContaining([
      { type: 'thinking', thinking: 'First this, then that.', signature: 'c2lnbmF0dXJl' },
      { type: 'redacted_thinking', data: 'cmVkYWN0ZWQ=' },
    ]),
  )
  expect(message.reasoning_content).toBe('First this, then that.')
})

test.each(models)('%s: an abort in the middle of a reply ends it at once', async (_, settings) => {
  mock.onMessage('endless', { content: 'word '.repeat(400) }, { chunkSize: 5, latency: 50 })
  const controller = new AbortController()
  const onDelta = () => controller.abort()
  const request = { messages: [user('endless')], tools, onDelta }
  expect(await open(settings()).generate(request, controller.signal)).toEqual({ kind: 'aborted' })
})

test.each(models)('%s: silence in the middle of a reply ends it after the idle time', async (_, settings) => {
  mock.onMessage('slow', { content: 'word '.repeat(8) }, { chunkSize: 5, latency: 3000 })
  const answer = await open({ ...settings(), timeout: 0.5 }).generate(
    { messages: [user('slow')], tools },
    new AbortController().signal,
  )
  expect(answer).toMatchObject({ kind: 'failure', code: 'LLMTimeoutError' })
})
