import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm, type Message } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { CallEstimate, CallRefusal, CallUse } from '../spending-guard.ts'
import { openModel } from './open-model.ts'

let answer: (response: ServerResponse) => void = reply
let bodies: Record<string, unknown>[] = []
let url = ''
const server = createServer(async (request, response) => {
  // A server of this machine is asked about its models.
  if (request.method === 'GET') return void response.writeHead(404).end()
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  bodies.push(JSON.parse(Buffer.concat(chunks).toString()))
  answer(response)
})

beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` // it listens on a port
})
afterAll(() => {
  server.closeAllConnections()
  return new Promise((done) => server.close(done))
})

const delta = (content: string) => ({ id: 'c', choices: [{ index: 0, delta: { content } }] })
const usage = { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010 }
const end = { id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage }

function write(response: ServerResponse, ...chunks: object[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const chunk of chunks) response.write(`data: ${JSON.stringify(chunk)}\n\n`)
}

function reply(response: ServerResponse): void {
  write(response, delta('Wet.'), end)
  response.end('data: [DONE]\n\n')
}

/** A request with a guard that allows a number of tokens of output, or refuses. */
function ask(
  allows: number | CallRefusal,
  settings: object = {},
  { signal = new AbortController().signal, fetch: send = fetch } = {},
) {
  bodies = []
  const estimates: CallEstimate[] = []
  const uses: CallUse[] = []
  const spending = {
    async reserve(estimate: CallEstimate) {
      estimates.push(estimate)
      if (typeof allows !== 'number') return allows
      return { maxOutputTokens: allows, settle: async (use: CallUse) => void uses.push(use) }
    },
  }
  const priced = { input_cost_per_token: 0.001, output_cost_per_token: 0.01 }
  const model = openModel(
    llm.parse({ model: 'openai/m', base_url: url, api_key: 'k', num_retries: 0, ...priced, ...settings }),
    { spending, fetch: send },
  )
  const content = [{ type: 'text' as const, text: 'Kiel?', cache_prompt: false }]
  const messages: Message[] = [{ role: 'user', content, thinking_blocks: [] }]
  return { estimates, uses, result: model.generate({ messages, tools: [] }, signal) }
}

test('a request reserves the most that it may cost, is cut to what is allowed, and settles its cost', async () => {
  answer = reply
  const { estimates, uses, result } = ask(500, { max_output_tokens: 2000 })
  expect(await result).toMatchObject({ kind: 'reply', cost: 1.1 })
  const [{ inputTokens = 0, ...estimate } = {}] = estimates
  expect(estimate).toMatchObject({
    maxOutputTokens: 2000,
    outputCost: 20_000_000,
    inputCost: inputTokens * 1000,
  })
  expect(uses).toEqual([{ inputTokens: 1000, outputTokens: 10, cost: 1_100_000 }])
  expect(bodies).toMatchObject([{ max_tokens: 500 }])
})

test('no limit is sent where the budget sets none', async () => {
  answer = reply
  const { estimates, result } = ask(32_768)
  expect(await result).toMatchObject({ kind: 'reply' })
  expect(estimates).toMatchObject([{ maxOutputTokens: 32_768 }])
  expect(bodies[0]).not.toHaveProperty('max_tokens')
})

test('a model without a price says so before and after', async () => {
  answer = reply
  const settings = { input_cost_per_token: undefined, output_cost_per_token: undefined }
  const { estimates, uses, result } = ask(10, settings)
  expect(await result).toMatchObject({ kind: 'reply', cost: 0 })
  expect(estimates[0]).toMatchObject({ inputCost: undefined, outputCost: undefined })
  expect(uses).toEqual([{ inputTokens: 1000, outputTokens: 10, cost: undefined }])
})

test('a refusal is the failure, and nothing is sent', async () => {
  const { uses, result } = ask({ code: 'BudgetExceeded', refusal: 'Ask Ada' }, { num_retries: 3 })
  expect(await result).toEqual({ kind: 'failure', code: 'BudgetExceeded', detail: 'Ask Ada' })
  expect([bodies, uses]).toEqual([[], []])
})

test('each retry and each fallback reserves; a refused request has cost nothing', async () => {
  let count = 0
  answer = (response) => {
    count += 1
    if (count < 4) response.writeHead(503).end('{}')
    else reply(response)
  }
  const fallback = {
    model: 'openai/other',
    base_url: url,
    api_key: 'k',
    num_retries: 0,
    input_cost_per_token: 0.002,
  }
  const { estimates, uses, result } = ask(100, {
    ...{ num_retries: 2, retry_min_wait: 0, retry_max_wait: 0 },
    fallback_strategy: { fallback_llms: [fallback] },
  })
  expect(await result).toMatchObject({ kind: 'reply', cost: 2 })
  expect(estimates.map(({ model }) => model)).toEqual([...Array(3).fill('openai/m'), 'openai/other'])
  expect(uses.map(({ cost }) => cost)).toEqual([0, 0, 0, 2_000_000])
})

test('a reply that breaks off or is stopped counts with its prompt and what was received', async () => {
  answer = (response) => {
    write(response, delta('It rains in Kiel.'))
    setTimeout(() => response.destroy(), 20)
  }
  const broken = ask(100)
  expect(await broken.result).toMatchObject({ kind: 'failure' })
  const prompt = broken.estimates[0]?.inputCost ?? 0
  expect(broken.uses).toMatchObject([{ outputTokens: expect.any(Number) }])
  expect(broken.uses[0]?.cost).toBeGreaterThan(prompt)
  const stop = new AbortController()
  answer = () => setTimeout(() => stop.abort(), 20)
  const stopped = ask(100, {}, { signal: stop.signal })
  expect(await stopped.result).toEqual({ kind: 'aborted' })
  expect(stopped.uses).toMatchObject([{ outputTokens: 0, cost: prompt }])
})

test('prices in the settings come before the cost that a provider reports', async () => {
  answer = (response) => {
    write(response, delta('Wet.'), { ...end, usage: { ...usage, cost: 0 } })
    response.end('data: [DONE]\n\n')
  }
  const own = ask(500)
  expect(await own.result).toMatchObject({ cost: 1.1 })
  expect(own.uses).toMatchObject([{ cost: 1_100_000 }])
})

test.each(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'])(
  'a request that reached no server has cost nothing (%s)',
  async (code) => {
    const cause = Object.assign(new Error(code), { code })
    const unreachable = () => Promise.reject(new TypeError('fetch failed', { cause }))
    const { result, uses } = ask(500, {}, { fetch: unreachable })
    expect(await result).toMatchObject({ kind: 'failure' })
    expect(uses).toMatchObject([{ cost: 0 }])
  },
)

const thinking = { model: 'anthropic/claude-sonnet-4-5', extended_thinking_budget: 32_000 }

test.each([
  ['reserved', { max_output_tokens: 8000 }, 40_000],
  ['kept within what is allowed', { max_output_tokens: 8000 }, 6000],
  ['kept within what is allowed without a limit', {}, 6000],
  [
    'kept within what is allowed, chosen by effort',
    { extended_thinking_budget: 0, reasoning_effort: 'high' },
    6000,
  ],
])('reasoning by a token budget is %s', async (_, settings, allowed) => {
  const sent: { max_tokens: number; thinking?: { budget_tokens: number } }[] = []
  const capture = (_url: unknown, init: RequestInit = {}) => {
    sent.push(JSON.parse(String(init.body)))
    return Promise.resolve(new Response('{}', { status: 400 }))
  }
  const { result, estimates } = ask(allowed, { ...thinking, ...settings }, { fetch: capture as typeof fetch })
  await result
  const [{ maxOutputTokens = 0 } = {}] = estimates
  expect(sent[0]?.max_tokens).toBeLessThanOrEqual(Math.min(maxOutputTokens, allowed))
  expect(sent[0]?.thinking?.budget_tokens).toBeGreaterThan(1000)
})
