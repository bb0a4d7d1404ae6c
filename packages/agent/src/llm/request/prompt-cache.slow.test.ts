import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm, type Message } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { View } from '../../conversation/view/view.ts'
import { openModel } from '../models/open-model.ts'

interface Block {
  readonly cache_control?: unknown
  readonly [name: string]: unknown
}
interface Body {
  readonly system?: readonly Block[]
  readonly messages: readonly {
    readonly role: string
    readonly content: string | readonly Block[]
    readonly tool_calls?: readonly Block[]
  }[]
  readonly [name: string]: unknown
}

/** The far side keeps what it receives. */
let server: Server
let url: string
let requests: { readonly body: Body; readonly headers: IncomingHttpHeaders }[] = []
beforeAll(async () => {
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    if (request.method === 'POST') requests.push({ body: JSON.parse(text), headers: request.headers })
    // Nothing is left out after it: each request is sent once.
    response.writeHead(403, { 'content-type': 'application/json' })
    response.end('{"error": {"type": "permission_error", "message": "Only recorded."}}')
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a port
})
afterAll(() => new Promise((done) => server.close(done)))

async function send(settings: object, messages: readonly Message[]) {
  const model = openModel(llm.parse({ api_key: 'k', num_retries: 0, ...settings }), {
    cacheKey: 'conversation-1',
  })
  await model.generate({ messages, tools: [] }, new AbortController().signal)
}

const block = (text: string) => ({ type: 'text', text, cache_prompt: false })

/** The messages of each request of a run in which every step has that many parallel calls. */
function runRequests(steps: number, calls: number): (readonly Message[])[] {
  const view = new View()
  view.add({
    id: 's',
    kind: 'SystemPromptEvent',
    source: 'agent',
    system_prompt: block('Help. '.repeat(300)),
    dynamic_context: block('Monday.'),
    tools: [],
  } as never)
  view.add({
    id: 'm',
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: 'user', content: [block('Go.')] },
  } as never)
  const all = [view.messages()]
  for (let step = 0; step < steps; step++) {
    const ids = Array.from({ length: calls }, (_, at) => `${step}-${at}`)
    for (const [at, id] of ids.entries()) {
      view.add({
        ...{
          id: `a${id}`,
          kind: 'ActionEvent',
          source: 'agent',
          llm_response_id: `r${step}`,
          tool_name: 't',
        },
        ...{ thought: at === 0 ? [block('I call.')] : [], action: { kind: 'ThinkAction', thought: id } },
        ...{
          tool_call_id: id,
          tool_call: { id, name: 't', arguments: `{"n": "${id}"}`, origin: 'completion' },
        },
      } as never)
    }
    for (const id of ids) {
      view.add({
        ...{
          id: `o${id}`,
          kind: 'ObservationEvent',
          source: 'environment',
          tool_name: 't',
          tool_call_id: id,
        },
        ...{
          action_id: `a${id}`,
          observation: { kind: 'ThinkObservation', content: [block(`Result ${id}. `.repeat(5))] },
        },
      } as never)
    }
    all.push(view.messages())
  }
  return all
}

/** The blocks of a request in the order in which a cache reads them. */
function blocksOf({ system = [], messages }: Body): { text: string; isMarked: boolean }[] {
  const inner = messages.flatMap(({ role, content, tool_calls = [] }) => [
    ...(typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])).map((one) => ({
      role,
      ...one,
    })),
    ...tool_calls,
  ])
  return [...system, ...inner].map((one) => {
    const { cache_control, ...rest }: Block = one
    return { text: JSON.stringify(rest), isMarked: cache_control !== undefined }
  })
}

const lookBack = 20

/**
 * Anthropic's rules: a mark reads the longest prefix that an earlier mark wrote within 20 blocks before it.
 */
class PromptCache {
  readonly #written = new Set<string>()
  total = 0
  cached = 0

  add(body: Body): void {
    const blocks = blocksOf(body)
    expect(blocks.filter(({ isMarked }) => isMarked).length).toBeLessThanOrEqual(4)
    const prefixes: { key: string; size: number }[] = []
    for (const { text } of blocks) {
      const before = prefixes.at(-1) ?? { key: '', size: 0 }
      prefixes.push({ key: before.key + text, size: before.size + text.length })
    }
    const marks = blocks.flatMap(({ isMarked }, at) => (isMarked ? [at] : []))
    const reached = marks.flatMap((mark) => prefixes.slice(Math.max(0, mark - lookBack + 1), mark + 1))
    this.cached += Math.max(0, ...reached.filter(({ key }) => this.#written.has(key)).map(({ size }) => size))
    this.total += prefixes.at(-1)?.size ?? 0
    for (const mark of marks) this.#written.add(prefixes[mark]?.key ?? '')
  }
}

test.each([
  ['Anthropic', () => ({ model: 'anthropic/claude-sonnet-4-5', base_url: url })],
  ['Claude through OpenRouter', () => ({ model: 'openrouter/anthropic/claude-sonnet-4.5', base_url: url })],
  ['Claude through LiteLLM', () => ({ model: 'litellm_proxy/claude-sonnet-4-5', base_url: url })],
])(
  '%s: at least 95 percent of the input is cached with 1 to 18 parallel calls a step',
  async (_, settings) => {
    for (const calls of [1, 2, 9, 10, 18]) {
      requests = []
      for (const messages of runRequests(50, calls)) await send(settings(), messages)
      const cache = new PromptCache()
      for (const { body } of requests) cache.add(body)
      expect(requests).toHaveLength(51)
      expect(cache.cached / cache.total).toBeGreaterThan(0.95)
    }
  },
  60_000,
)

test('the requests of a conversation have a cache key where the provider knows it', async () => {
  requests = []
  const messages = runRequests(0, 0)[0] ?? []
  const fetched: Body[] = []
  const record: typeof fetch = async (_, init) => {
    fetched.push(JSON.parse(String(init?.body)))
    return new Response('{}', { status: 403 })
  }
  for (const [model, more] of [
    ['openai/gpt-5', { prompt_cache_retention: '24h' }],
    ['openai/gpt-4o', { prompt_cache_retention: '24h' }],
    ['azure/gpt-5', { base_url: 'https://azure.test' }],
    ['openai/gpt-4o', { base_url: 'https://proxy.test' }],
  ] as const) {
    const one = openModel(llm.parse({ model, api_key: 'k', num_retries: 0, ...more }), {
      cacheKey: 'c-1',
      fetch: record,
    })
    await one.generate({ messages, tools: [] }, new AbortController().signal)
  }
  expect(
    fetched.map(({ prompt_cache_key, prompt_cache_retention }) => [prompt_cache_key, prompt_cache_retention]),
  ).toEqual([
    ['c-1', '24h'],
    ['c-1', undefined],
    [undefined, undefined],
    [undefined, undefined],
  ])
})

test('a token budget for reasoning comes with reasoning between calls, beside headers of the settings', async () => {
  requests = []
  const messages = runRequests(0, 0)[0] ?? []
  const settings = {
    base_url: url,
    extended_thinking_budget: 4096,
    extra_headers: { 'anthropic-beta': 'own-beta' },
  }
  await send({ ...settings, model: 'anthropic/claude-sonnet-4-5' }, messages)
  await send({ ...settings, model: 'anthropic/claude-3-7-sonnet-latest' }, messages)
  expect(String(requests[0]?.headers['anthropic-beta']).split(',').sort()).toEqual([
    'interleaved-thinking-2025-05-14',
    'own-beta',
  ])
  expect(requests[0]?.body.thinking).toMatchObject({ type: 'enabled', budget_tokens: 4096 })
  expect(requests[1]?.headers['anthropic-beta']).toBe('own-beta')
})
