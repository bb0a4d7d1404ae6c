import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { llm, type Message } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { ModelResult, ModelTool } from '../model.ts'
import { openModel } from './open-model.ts'

type ScriptedResponse = (response: ServerResponse) => unknown

/** The far side: each request is answered by the next play; the last one plays again. */
let plays: ScriptedResponse[] = []
const receivedRequests: { headers: IncomingHttpHeaders; body: Record<string, unknown> }[] = []
let server: Server
let url: string

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    if (request.method === 'GET') {
      response.statusCode = request.url?.endsWith('/models') ? 200 : 404
      response.end(JSON.stringify({ data: [{ id: 'smollm2' }, { id: 'qwen3' }] }))
      return
    }
    receivedRequests.push({ headers: request.headers, body: JSON.parse(text) })
    const play = plays.length > 1 ? plays.shift() : plays[0]
    await play?.(response)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a port
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
})
beforeEach(() => {
  receivedRequests.length = 0
})

const key = 'sk-very-secret-key'
const tools: readonly ModelTool[] = [
  { name: 'weather', description: 'Weather of a town', parameters: { type: 'object', properties: {} } },
]
const question: Message = {
  role: 'user',
  content: [{ type: 'text', text: 'Kiel?', cache_prompt: false }],
  thinking_blocks: [],
}

function settings(more: Record<string, unknown> = {}): Record<string, unknown> {
  return { model: 'openai-compatible/m', base_url: url, api_key: key, num_retries: 0, ...more }
}

/** Waits take no time here; their lengths are recorded. */
const waits: number[] = []
/** Comes when the first piece of the answer that is waited for has come. */
let started = Promise.withResolvers<void>()
async function respond(
  more: Record<string, unknown> = {},
  signal = new AbortController().signal,
): Promise<ModelResult> {
  waits.length = 0
  started = Promise.withResolvers<void>()
  const model = openModel(llm.parse(settings(more)), {
    clock: { ...systemClock, sleep: async (ms) => void waits.push(ms) },
  })
  return await model.generate({ messages: [question], tools, onDelta: () => started.resolve() }, signal)
}

function chunk(delta: object, finish_reason: string | null = null): string {
  const body = {
    id: 'chatcmpl-0123456789',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  }
  return `data: ${JSON.stringify(body)}\n\n`
}

function stream(response: ServerResponse): ServerResponse {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
  return response
}

const fine: ScriptedResponse = (response) =>
  stream(response).end(`${chunk({ content: 'Wet.' })}${chunk({}, 'stop')}data: [DONE]\n\n`)
const empty: ScriptedResponse = (response) =>
  stream(response).end(`${chunk({ content: '' })}${chunk({}, 'stop')}`)

function status(code: number, body: unknown, headers: Record<string, string> = {}): ScriptedResponse {
  return (response) => {
    response.writeHead(code, { 'content-type': 'application/json', ...headers })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
}

test('a model that a server does not have is told with those that it has, and not asked for again', async () => {
  plays = [status(404, { error: { message: "model 'm' not found", type: 'api_error' } })]
  const answer = await respond({ model: 'ollama/m', num_retries: 5 })
  expect(answer).toMatchObject({
    code: 'LLMBadRequestError',
    detail: expect.stringMatching(/model 'm' not found.*`ollama pull m`\. The server has smollm2, qwen3\.$/),
  })
  expect(receivedRequests).toHaveLength(1)
  expect(waits).toEqual([])
})

test('a port of this machine at which nothing listens is said at once, and a fallback answers', async () => {
  const other = createServer()
  await new Promise<void>((done) => other.listen(0, '127.0.0.1', done))
  const { port } = other.address() as AddressInfo // it listens on a port
  await new Promise((done) => other.close(done))
  const base_url = `http://127.0.0.1:${port}/v1`
  const detail = expect.stringContaining(`nothing listens at 127.0.0.1:${port}. Is the model server running?`)
  expect(await respond({ base_url, num_retries: 5 })).toMatchObject({
    code: 'LLMServiceUnavailableError',
    detail,
  })
  expect(waits).toEqual([])
  plays = [fine]
  const fallback_strategy = { fallback_llms: [settings()] }
  expect(await respond({ base_url, num_retries: 5, fallback_strategy })).toMatchObject({ kind: 'reply' })
})

test('what the provider asks to wait is waited, but never longer than the settings allow', async () => {
  const busy = (headers: Record<string, string>) => status(429, { error: { message: 'busy' } }, headers)
  const date = new Date(Date.now() + 3_600_000).toUTCString()
  plays = [
    busy({ 'retry-after': '3' }),
    busy({ 'retry-after-ms': '250' }),
    busy({ 'retry-after': date }),
    fine,
  ]
  expect(await respond({ num_retries: 5, retry_max_wait: 20 })).toMatchObject({ kind: 'reply' })
  expect(waits).toEqual([3000, 250, 20_000])
})

test('without such a wish the waits grow up to their bound', async () => {
  plays = [status(503, 'no')]
  await respond({ num_retries: 5, retry_multiplier: 8, retry_min_wait: 10, retry_max_wait: 64 })
  expect(waits).toEqual([10_000, 16_000, 32_000, 64_000, 64_000])
})

test('a silent model is retried, then fails after its time-out', async () => {
  plays = [() => {}, (response) => stream(response)]
  const answer = await respond({ timeout: 0.3, num_retries: 1 })
  expect(answer).toMatchObject({
    kind: 'failure',
    code: 'LLMTimeoutError',
    detail: expect.stringContaining('0.3 s'),
  })
  expect(receivedRequests).toHaveLength(2)
})

test('a model that falls silent in the middle is asked again, then fails', async () => {
  plays = [(response) => void stream(response).write(chunk({ content: 'Wet' }))]
  const answer = await respond({ timeout: 10, stream_stall_timeout: 0.3, num_retries: 1 })
  expect(answer).toMatchObject({
    kind: 'failure',
    code: 'LLMTimeoutError',
    detail: expect.stringContaining('0.3 s'),
    brokenAttempts: { length: 2 },
  })
  expect(receivedRequests).toHaveLength(2)
})

test('a model that thinks longer than its time is waited for as long as its server shows that it lives', async () => {
  plays = [
    async (response) => {
      stream(response)
      for (let i = 0; i < 7; i += 1) {
        response.write(': thinking\n\n')
        await wait(400)
      }
      response.end(`${chunk({ content: 'Wet.' })}${chunk({}, 'stop')}`)
    },
  ]
  expect(await respond({ timeout: 2 })).toMatchObject({ kind: 'reply' })
})

test('an empty reply that is asked again is paid for', async () => {
  const usage = { prompt_tokens: 9, completion_tokens: 1 }
  const counted = `data: ${JSON.stringify({ id: 'c', choices: [], usage })}\n\n`
  plays = [(response) => stream(response).end(`${chunk({}, 'stop')}${counted}data: [DONE]\n\n`), fine]
  const answer = await respond({ num_retries: 1 })
  expect(answer).toMatchObject({ kind: 'reply', brokenAttempts: [{ usage: { prompt_tokens: 9 } }] })
})

test('a call that the provider could not read is asked for again with a word about it', async () => {
  plays = [(response) => stream(response).end(chunk({}, 'malformed_function_call')), fine]
  expect(await respond({ num_retries: 1, temperature: 0 })).toMatchObject({ kind: 'reply' })
  const [first, second] = receivedRequests.map(({ body }) => body)
  expect(JSON.stringify(second?.messages)).toContain('could not be read')
  expect([first?.temperature, second?.temperature]).toEqual([0, 1])
})

test('an empty reply is retried at a higher temperature and fails in the end', async () => {
  plays = [empty, fine]
  expect(await respond({ num_retries: 1, temperature: 0 })).toMatchObject({ kind: 'reply' })
  expect(receivedRequests.map(({ body }) => body.temperature)).toEqual([0, 1])
  plays = [empty]
  expect(await respond({ num_retries: 2 })).toMatchObject({ kind: 'failure', code: 'LLMNoResponseError' })
})

test('reasoning without text is a reply', async () => {
  plays = [(response) => stream(response).end(`${chunk({ reasoning_content: 'Hm.' })}${chunk({}, 'stop')}`)]
  const answer = await respond()
  expect(answer).toMatchObject({
    kind: 'reply',
    stop: 'stop',
    message: { content: [], reasoning_content: 'Hm.' },
  })
})

test('a refusal is an answer that says so', async () => {
  plays = [(response) => stream(response).end(chunk({ refusal: 'No.' }) + chunk({}, 'content_filter'))]
  expect(await respond()).toMatchObject({ kind: 'reply', stop: 'refusal' })
})

test('an error inside a stream is classified by its code, and retried at any time', async () => {
  const error = { error: { message: 'overloaded', type: 'server_error', code: 503 } }
  const broken: ScriptedResponse = (response) => stream(response).end(`data: ${JSON.stringify(error)}\n\n`)
  plays = [broken, fine]
  expect(await respond({ num_retries: 1 })).toMatchObject({ kind: 'reply' })
  plays = [
    async (response) => {
      stream(response).write(chunk({ content: 'We' }))
      await started.promise
      response.end(`data: ${JSON.stringify(error)}\n\n`)
    },
  ]
  expect(await respond({ num_retries: 3 })).toMatchObject({
    kind: 'failure',
    code: 'LLMServiceUnavailableError',
  })
  expect(receivedRequests).toHaveLength(6)
})

test('a chunk that is no JSON is a failure that says so', async () => {
  plays = [(response) => stream(response).end('data: {"id": \n\n')]
  const answer = await respond({ num_retries: 1 })
  expect(answer).toMatchObject({ kind: 'failure', code: 'LLMServiceUnavailableError' })
  expect(receivedRequests).toHaveLength(2)
})

test.each(['openai/m', 'openai/gpt-5', 'anthropic/claude-sonnet-4', 'gemini/gemini-2.5-pro'])(
  'a first chunk of %s that is no JSON is retried',
  async (model) => {
    plays = [(response) => stream(response).end('data: {"type": \n\n')]
    const answer = await respond({ model, num_retries: 2 })
    expect(answer).toMatchObject({ kind: 'failure', code: 'LLMServiceUnavailableError' })
    expect(receivedRequests).toHaveLength(3)
  },
)

test('a server that is missing is a failure after all attempts', async () => {
  const answer = await respond({ model: 'openai/gpt-4o', base_url: 'http://127.0.0.1:9', num_retries: 2 })
  expect(answer).toMatchObject({ kind: 'failure', code: 'LLMServiceUnavailableError' })
  expect(waits).toHaveLength(2)
})

test('redirects are not followed: the key goes to no other host', async () => {
  plays = [(response) => response.writeHead(307, { location: `${url}/elsewhere` }).end()]
  expect(await respond()).toMatchObject({ kind: 'failure', code: 'LLMBadRequestError' })
  expect(receivedRequests).toHaveLength(1)
})

test('no secret stands in a failure, whatever the server says back, wherever the text is cut', async () => {
  for (const length of [0, 480, 1990, 1995]) {
    plays = [status(400, `${'x'.repeat(length)} ${key} gateway-secret-value`)]
    const extra_headers = { 'x-gateway': 'Bearer gateway-secret-value' }
    const answer = await respond({ extra_headers })
    expect(answer).toMatchObject({ kind: 'failure', code: 'LLMBadRequestError' })
    const detail = answer.kind === 'failure' ? answer.detail : ''
    expect(detail.length).toBeLessThanOrEqual(2000)
    expect(detail).not.toMatch(/sk-very|gateway-sec/)
  }
  const { password, answer } = {
    password: 'pass-word-secret',
    answer: await respond({ base_url: 'http://u:pass-word-secret@127.0.0.1:9' }),
  }
  expect(JSON.stringify(answer)).not.toContain(password)
})

test('headers and members of the body that the settings add are sent', async () => {
  plays = [fine]
  await respond({
    extra_headers: { 'x-team': 'harbour' },
    litellm_extra_body: { guided: true, temperature: 0.5 },
    temperature: 0.1,
    top_k: 7,
    seed: 3,
    max_output_tokens: 99,
    reasoning_effort: 'low',
  })
  const [{ headers, body } = { headers: {}, body: {} }] = receivedRequests
  expect(headers).toMatchObject({ 'x-team': 'harbour', authorization: `Bearer ${key}` })
  expect(body).toMatchObject({ guided: true, temperature: 0.5, top_k: 7, seed: 3, max_tokens: 99 })
  expect(body).toMatchObject({ reasoning_effort: 'low', stream: true, model: 'm' })
})

test.each([
  ['before the question', async () => {}, 0],
  ['while nothing comes', async () => await wait(150), 1],
])('an abort %s ends it at once', async (_, until, requests) => {
  plays = [() => {}]
  const controller = new AbortController()
  if (requests === 0) controller.abort()
  const answer = respond({ timeout: null }, controller.signal)
  await until()
  controller.abort()
  expect(await answer).toEqual({ kind: 'aborted' })
  expect(receivedRequests).toHaveLength(requests)
})

test('an abort in the middle of an answer, or of a wait, ends it at once', async () => {
  plays = [(response) => void stream(response).write(chunk({ content: 'Wet' }))]
  const model = openModel(llm.parse(settings({ num_retries: 3, retry_min_wait: 60 })))
  const middle = new AbortController()
  const onDelta = () => middle.abort()
  expect(await model.generate({ messages: [question], tools, onDelta }, middle.signal)).toEqual({
    kind: 'aborted',
  })
  plays = [status(503, 'no')]
  const waiting = new AbortController()
  const answer = model.generate({ messages: [question], tools }, waiting.signal)
  await expect.poll(() => receivedRequests.length).toBe(2)
  await wait(50)
  waiting.abort()
  expect(await answer).toEqual({ kind: 'aborted' })
})

test('fallbacks are tried in order, by settings or by name', async () => {
  const busy = status(503, { error: { message: 'down' } })
  plays = [busy, busy, fine]
  const names: string[] = []
  const second = settings({ model: 'openai-compatible/second', usage_id: 'second' })
  const third = llm.parse(settings({ model: 'openai-compatible/third', usage_id: 'third' }))
  const model = openModel(
    llm.parse(settings({ fallback_strategy: { fallback_llms: [second, 'unknown', 'third'] } })),
    {
      findProfile: async (name) => {
        names.push(name)
        return name === 'third' ? third : undefined
      },
    },
  )
  const request = { messages: [question], tools }
  const answer = await model.generate(request, new AbortController().signal)
  expect(answer).toMatchObject({ kind: 'reply', model: 'openai-compatible/third', usageId: 'third' })
  expect(receivedRequests.map(({ body }) => body.model)).toEqual(['m', 'second', 'third'])
  expect(names).toEqual(['unknown', 'third'])
  plays = [busy]
  const failed = await model.generate(request, new AbortController().signal)
  expect(failed).toMatchObject({ kind: 'failure', code: 'LLMServiceUnavailableError' })
  expect(failed.kind === 'failure' && failed.detail).toContain('openai-compatible/second')
})

test('there is no fallback for an invalid request, and one after the first delta', async () => {
  const fallback_strategy = { fallback_llms: [settings({ model: 'openai-compatible/second' })] }
  plays = [status(400, { error: { message: 'This is wrong.' } })]
  expect(await respond({ fallback_strategy })).toMatchObject({ code: 'LLMBadRequestError' })
  plays = [
    async (response) => {
      stream(response).write(chunk({ content: 'We' }))
      await started.promise
      response.destroy()
    },
    fine,
  ]
  expect(await respond({ fallback_strategy })).toMatchObject({ model: 'openai-compatible/second' })
  expect(receivedRequests.filter(({ body }) => body.model === 'second')).toHaveLength(1)
})

test('settings that lead nowhere are a failure that says what is missing', async () => {
  const signal = new AbortController().signal
  const ask = (more: object) => openModel(llm.parse(more)).generate({ messages: [question], tools }, signal)
  expect(await ask({ model: 'openai/gpt-4o' })).toMatchObject({ code: 'LLMAuthenticationError' })
  expect(await ask({ model: 'bedrock/x', aws_access_key_id: 'a' })).toMatchObject({
    code: 'LLMAuthenticationError',
  })
  expect(await ask({ model: 'nobody/knows' })).toMatchObject({
    code: 'LLMBadRequestError',
    detail: expect.stringContaining('base_url'),
  })
})
