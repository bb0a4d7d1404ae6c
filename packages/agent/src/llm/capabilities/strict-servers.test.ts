import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm, type Message } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as z from 'zod'
import type { ModelTool } from '../model.ts'
import { openModel } from '../models/open-model.ts'
import { encodeProviderMetadata, googleThoughtBlock } from '../request/provider-metadata.ts'

/**
 * Requests as the providers document them, each object without unknown members. Written from the references
 * of
 * the chat completions of Mistral (docs.mistral.ai/api), Groq (console.groq.com/docs/api-reference), Cerebras
 * (inference-docs.cerebras.ai/api-reference), OpenRouter (openrouter.ai/docs/api-reference), LiteLLM
 * (docs.litellm.ai/docs/completion/input), vLLM (docs.vllm.ai, OpenAI-compatible server) and Ollama
 * (docs.ollama.com/api/openai-compatibility).
 */
const cacheControl = z.strictObject({ type: z.literal('ephemeral') })
const anyId = z.string().min(1)
const nineId = z.string().regex(/^[a-zA-Z0-9]{9}$/)
const anyUrl = z.string().regex(/^(https|data):/)
const dataUrl = z.string().startsWith('data:image/')
const nameOnly = z.enum(['low', 'medium', 'high'])

const optional = {
  reasoning_effort: nameOnly.optional(),
  seed: z.int().optional(),
  stream_options: z.strictObject({ include_usage: z.boolean() }).optional(),
  tool_choice: z.enum(['none', 'auto', 'required']).optional(),
  top_k: z.number().optional(),
  top_p: z.number().optional(),
}

interface Dialect {
  readonly model: string
  readonly members: object
  readonly id?: z.ZodType
  readonly reasoning?: object
  readonly isTextOnly?: boolean
  readonly url?: z.ZodType
  readonly marks?: boolean
}

function requestSchema({ members, id = anyId, reasoning = {}, isTextOnly, url = anyUrl, marks }: Dialect) {
  const mark = marks ? { cache_control: cacheControl.optional() } : {}
  const text = z.strictObject({ type: z.literal('text'), text: z.string().min(1), ...mark })
  const image = z.strictObject({
    type: z.literal('image_url'),
    image_url: z.strictObject({ url }),
    ...mark,
  })
  const texts = isTextOnly ? z.string() : z.union([z.string(), z.array(text).min(1)])
  const parts = isTextOnly ? z.string() : z.union([z.string(), z.array(z.union([text, image])).min(1)])
  const call = z.strictObject({
    id,
    type: z.literal('function'),
    function: z.strictObject({ name: z.string(), arguments: z.string() }),
  })
  const message = z.discriminatedUnion('role', [
    z.strictObject({ role: z.literal('system'), content: texts }),
    z.strictObject({ role: z.literal('user'), content: parts }),
    z.strictObject({
      role: z.literal('assistant'),
      content: texts.nullable(),
      tool_calls: z.array(call).min(1).optional(),
      ...reasoning,
    }),
    z.strictObject({ role: z.literal('tool'), content: texts, tool_call_id: id }),
  ])
  const tool = z.strictObject({
    type: z.literal('function'),
    function: z.strictObject({
      name: z.string(),
      description: z.string(),
      parameters: z.record(z.string(), z.unknown()),
    }),
  })
  return z.strictObject({
    model: z.string(),
    messages: z.array(message),
    stream: z.literal(true),
    temperature: z.number().optional(),
    tools: z.array(tool).optional(),
    ...members,
  })
}

const { reasoning_effort, seed, stream_options, tool_choice, top_k, top_p } = optional
const max_tokens = z.int().optional()
const max_completion_tokens = z.int().optional()
const text = z.string().optional()

const dialects: readonly (readonly [string, Dialect])[] = [
  [
    'Mistral',
    {
      model: 'mistral/mistral-large',
      members: { max_tokens, random_seed: seed, tool_choice, top_p },
      id: nineId,
    },
  ],
  [
    'Groq',
    {
      model: 'groq/qwen3-32b',
      members: { max_completion_tokens, reasoning_effort, seed, stream_options, tool_choice, top_p },
      reasoning: { reasoning: text },
    },
  ],
  [
    'Cerebras',
    {
      model: 'cerebras/gpt-oss-120b',
      members: { max_completion_tokens, reasoning_effort, seed, tool_choice, top_p },
      isTextOnly: true,
    },
  ],
  [
    'OpenRouter',
    {
      model: 'openrouter/anthropic/claude-sonnet-4.5',
      members: {
        max_tokens,
        reasoning: z.strictObject({ effort: nameOnly }).optional(),
        ...{ seed, stream_options, tool_choice, top_k, top_p },
      },
      reasoning: { reasoning_details: z.array(z.looseObject({})).optional() },
      marks: true,
    },
  ],
  [
    'OpenRouter, another model',
    {
      model: 'openrouter/qwen/qwen3',
      members: {
        max_tokens,
        reasoning: z.strictObject({ effort: nameOnly }).optional(),
        seed,
        stream_options,
        tool_choice,
        top_k,
        top_p,
      },
      reasoning: { reasoning_details: z.array(z.looseObject({})).optional() },
    },
  ],
  [
    'LiteLLM',
    {
      model: 'litellm_proxy/claude-sonnet-4-5',
      members: { max_tokens, ...optional },
      reasoning: { reasoning_content: text },
      marks: true,
    },
  ],
  [
    'vLLM',
    { model: 'vllm/qwen', members: { max_tokens, ...optional }, reasoning: { reasoning_content: text } },
  ],
  [
    'Ollama',
    {
      model: 'ollama/qwen3',
      members: { max_tokens, reasoning_effort, seed, stream_options, top_p },
      reasoning: { reasoning: text },
      url: dataUrl,
    },
  ],
]

/** A server that refuses what its schema does not name. */
let server: Server
let url: string
let schema: z.ZodType
let received: { messages: { role: string; content: unknown }[]; [name: string]: unknown }[] = []
let issues: unknown[] = []

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const value = JSON.parse(body)
    received.push(value)
    const parsed = schema.safeParse(value)
    if (!parsed.success) {
      issues.push(...parsed.error.issues)
      response.writeHead(422, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message: 'unknown member' } }))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const call = (index: number) => ({
      ...{ index, id: `call_${received.length}_${index}`, type: 'function' },
      function: { name: 'weather', arguments: '{"town":"Kiel"}' },
    })
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: 'chatcmpl-0123456789', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
    response.write(chunk({ role: 'assistant', reasoning_content: 'Two towns. ' }))
    response.write(chunk({ content: 'I look.' }))
    response.write(chunk({ tool_calls: [call(0), call(1)] }))
    response.end(`${chunk({}, 'tool_calls')}data: [DONE]\n\n`)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` // it listens on a port
})
afterAll(() => new Promise((done) => server.close(done)))

const tools: readonly ModelTool[] = [
  { name: 'weather', description: 'Weather of a town', parameters: { type: 'object', properties: {} } },
]
const part = (value: string, cache_prompt = false) => ({ type: 'text' as const, text: value, cache_prompt })
const image = {
  type: 'image' as const,
  image_urls: ['data:image/png;base64,iVBORw0KGgo=', 'https://h.test/a.png'],
  cache_prompt: false,
}

/** A turn that another provider began, with all that it left. */
const foreignTurn: readonly Message[] = [
  {
    role: 'assistant',
    content: [part('So.')],
    reasoning_content: 'Hm.',
    tool_calls: [
      { id: 'toolu_01A-long.id:with/signs', name: 'weather', arguments: '{}', origin: 'completion' },
    ],
    thinking_blocks: [
      { type: 'thinking', thinking: 'Hm.', signature: 'c2ln' },
      googleThoughtBlock('Hm.', 'google'),
      encodeProviderMetadata('google', 'call', 0, 'google-call'),
      encodeProviderMetadata('openai', 'text', 0, 'commentary'),
    ],
  },
  {
    role: 'tool',
    tool_call_id: 'toolu_01A-long.id:with/signs',
    name: 'weather',
    content: [part('grey'), image],
    thinking_blocks: [],
  },
]

test.each(dialects)(
  '%s: no request has a member that its documentation does not name',
  async (_, dialect) => {
    schema = requestSchema(dialect)
    received = []
    issues = []
    const model = openModel(
      llm.parse({
        model: dialect.model,
        ...{ base_url: url, api_key: 'k', num_retries: 0 },
        ...{
          temperature: 0.5,
          top_p: 0.9,
          top_k: 40,
          seed: 7,
          reasoning_effort: 'low',
          max_output_tokens: 4096,
        },
      }),
    )
    let messages: Message[] = [
      { role: 'system', content: [part('You help.', true), part('It is Monday.')], thinking_blocks: [] },
      { role: 'user', content: [part('Look:'), image], thinking_blocks: [] },
      ...foreignTurn,
      { role: 'user', content: [part('And now?')], thinking_blocks: [] },
    ]
    for (let step = 0; step < 4; step++) {
      const marked = messages.map(
        (message, at): Message =>
          at < messages.length - 1
            ? message
            : { ...message, content: message.content.map((one) => ({ ...one, cache_prompt: true })) },
      )
      const choice = step === 3 ? { toolChoice: 'none' as const } : {}
      const result = await model.generate(
        { messages: marked, tools, ...choice },
        new AbortController().signal,
      )
      expect(issues).toEqual([])
      if (result.kind !== 'reply') throw new Error(JSON.stringify(result))
      const { message } = result
      const results = (message.tool_calls ?? []).map(
        ({ id }): Message => ({
          role: 'tool',
          tool_call_id: id,
          name: 'weather',
          content: step === 1 ? [part('rain'), image] : [part('rain')],
          thinking_blocks: [],
        }),
      )
      messages = [...messages, JSON.parse(JSON.stringify(message)), ...results]
    }
    expect(received).toHaveLength(4)
    for (const { messages: sent } of received) {
      const ids = sent
        .flatMap((message) => Reflect.get(message, 'tool_calls') ?? [])
        .map((call: object) => Reflect.get(call, 'id'))
      const answered = sent.flatMap((message) => Reflect.get(message, 'tool_call_id') ?? [])
      expect(answered).toEqual(ids)
      const marks = JSON.stringify(sent).split('"cache_control"').length - 1
      expect(marks).toBe(dialect.marks ? 2 : 0)
    }
    if (dialect.marks) {
      expect(received[0]?.messages[0]).toEqual({
        role: 'system',
        content: [
          { type: 'text', text: 'You help.', cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'It is Monday.' },
        ],
      })
    }
  },
)

test('Mistral gets no message of the user right after a result', async () => {
  schema = z.unknown()
  received = []
  const model = openModel(llm.parse({ model: 'mistral/m', base_url: url, api_key: 'k', num_retries: 0 }))
  const messages: Message[] = [
    ...foreignTurn,
    { role: 'user', content: [part('Continue.')], thinking_blocks: [] },
  ]
  await model.generate({ messages, tools }, new AbortController().signal)
  const roles = received[0]?.messages.map(({ role }) => role) ?? []
  expect(roles.join(' ')).not.toContain('tool user')
})
