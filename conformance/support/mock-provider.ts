import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** One reply of a model. */
export interface ModelReply {
  readonly text?: string
  readonly reasoning?: string
  /** `arguments` that are a string are sent unchanged. */
  readonly calls?: readonly { readonly name: string; readonly arguments: object | string }[]
}

export interface ProviderRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Record<string, unknown>
}

/** A reply, or a function that writes the response. */
export type ScriptedReply = ModelReply | ((response: ServerResponse, request: ProviderRequest) => unknown)

/** The interfaces of providers, with the settings of a model that uses each. */
export const providers = {
  chat: { model: 'openai/gpt-4o', base: '/v1' },
  compatible: { model: 'openai-compatible/m', base: '/v1' },
  responses: { model: 'openai/gpt-5', base: '/v1', api_mode: 'responses' },
  anthropic: { model: 'anthropic/claude-sonnet-4-5', base: '' },
  gemini: { model: 'gemini/gemini-2.5-flash', base: '' },
} as const
export type Provider = keyof typeof providers

/**
 * A model provider on loopback: it streams replies in the interface of each request. Requests with tools
 * receive `replies` in order, the last one repeatedly; requests without tools receive `replyWithoutTools`.
 */
export class MockProvider implements AsyncDisposable {
  readonly requests: ProviderRequest[] = []
  replies: ScriptedReply[] = []
  replyWithoutTools: ScriptedReply = { text: 'Aside.' }
  /** The reply to a GET, which no model request uses. */
  bodyForGet = ''
  readonly gets: Omit<ProviderRequest, 'body'>[] = []
  readonly #server: Server
  #count = 0

  private constructor() {
    this.#server = createServer(async (request, response) => {
      let text = ''
      for await (const chunk of request) text += chunk
      const { url: path = '', headers } = request
      if (request.method !== 'POST') {
        this.gets.push({ path, headers })
        return response.writeHead(this.bodyForGet === '' ? 404 : 200).end(this.bodyForGet)
      }
      const received = { path, headers, body: JSON.parse(text || '{}') }
      this.requests.push(received)
      const reply = received.body.tools === undefined ? this.replyWithoutTools : this.#nextReply()
      if (typeof reply === 'function') await reply(response, received)
      else this.sendReply(response, received, reply)
    })
    this.#server.on('clientError', (_, socket) => socket.destroy())
  }

  static async open(): Promise<MockProvider> {
    const provider = new MockProvider()
    await new Promise<void>((done) => provider.#server.listen(0, '127.0.0.1', done))
    return provider
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on a port
  }

  /** The settings of a model of this provider; retries do not wait. */
  llm(provider: Provider, more: object = {}): object {
    const { base, ...settings } = providers[provider]
    // Whole seconds, as the reference demands; the multiplier keeps the waits short.
    const fast = { num_retries: 2, retry_multiplier: 0.01, retry_min_wait: 0, retry_max_wait: 1 }
    return {
      ...settings,
      base_url: `${this.url}${base}`,
      api_key: 'sk-far',
      usage_id: 'agent',
      ...fast,
      ...more,
    }
  }

  /**
   * Replies in the interface of the request; after `maxChunks` chunks the connection is cut. A chat request
   * that asks for no stream receives one JSON object.
   */
  sendReply(
    response: ServerResponse,
    { path, body }: ProviderRequest,
    reply: ModelReply,
    maxChunks = Number.POSITIVE_INFINITY,
  ): void {
    const n = String(++this.#count).padStart(16, '0')
    if (path.includes('chat/completions') && body.stream !== true) {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(chatCompletion(reply, n)))
      return
    }
    const chunks = replyChunks(path, reply, n)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const chunk of chunks.slice(0, maxChunks)) {
      const { type } = chunk as { type?: string } // Anthropic and Responses name their events
      response.write(`${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(chunk)}\n\n`)
    }
    if (maxChunks < chunks.length) setTimeout(() => response.destroy(), 20)
    else response.end(path.includes('chat/completions') ? 'data: [DONE]\n\n' : '')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  #nextReply(): ScriptedReply {
    const reply = this.replies.length > 1 ? this.replies.shift() : this.replies[0]
    return reply ?? { text: 'Nothing is planned.' }
  }
}

/** An error response as JSON. */
export function errorReply(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): ScriptedReply {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
}

function replyChunks(path: string, reply: ModelReply, n: string): object[] {
  if (path.includes('chat/completions')) return chatChunks(reply, n)
  if (path.includes('/responses')) return responsesChunks(reply, n)
  if (path.includes('/messages')) return anthropicChunks(reply, n)
  return geminiChunks(reply)
}

function argumentsText(args: object | string): string {
  return typeof args === 'string' ? args : JSON.stringify(args)
}

/** A text in two chunks. */
function splitInHalf(text: string): string[] {
  const middle = Math.ceil(text.length / 2)
  return [text.slice(0, middle), text.slice(middle)].filter((half) => half !== '')
}

function chatChunks({ text = '', reasoning = '', calls = [] }: ModelReply, n: string): object[] {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: `chatcmpl-${n}`,
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  })
  return [
    chunk({ role: 'assistant', content: '' }),
    ...splitInHalf(reasoning).map((reasoning_content) => chunk({ reasoning_content })),
    ...splitInHalf(text).map((content) => chunk({ content })),
    ...calls.flatMap(({ name, arguments: args }, index) => {
      const first = { index, id: `call_${n}_${index}`, type: 'function', function: { name, arguments: '' } }
      const rest = splitInHalf(argumentsText(args)).map((piece) => ({
        index,
        function: { arguments: piece },
      }))
      return [first, ...rest].map((one) => chunk({ tool_calls: [one] }))
    }),
    chunk({}, calls.length > 0 ? 'tool_calls' : 'stop'),
    { ...chunk({}), choices: [], usage: { prompt_tokens: 90, completion_tokens: 10, total_tokens: 100 } },
  ]
}

function chatCompletion({ text = '', reasoning = '', calls = [] }: ModelReply, n: string): object {
  const tool_calls = calls.map(({ name, arguments: args }, index) => ({
    ...{ id: `call_${n}_${index}`, type: 'function' },
    function: { name, arguments: argumentsText(args) },
  }))
  const message = {
    ...{ role: 'assistant', content: text },
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls }),
  }
  return {
    ...{ id: `chatcmpl-${n}`, object: 'chat.completion', created: 1, model: 'm' },
    choices: [{ index: 0, message, finish_reason: calls.length > 0 ? 'tool_calls' : 'stop' }],
    usage: { prompt_tokens: 90, completion_tokens: 10, total_tokens: 100 },
  }
}

function responsesChunks({ text = '', calls = [] }: ModelReply, n: string): object[] {
  const response = { id: `resp_${n}`, object: 'response', created_at: 1, model: 'm', status: 'in_progress' }
  const items: { readonly item: Record<string, unknown>; readonly deltas: object[] }[] = []
  if (text !== '') {
    const id = `msg_${n}`
    const output_text = { type: 'output_text', text, annotations: [] }
    items.push({
      item: { type: 'message', id, role: 'assistant', status: 'completed', content: [output_text] },
      deltas: splitInHalf(text).map((delta) => ({
        type: 'response.output_text.delta',
        item_id: id,
        content_index: 0,
        delta,
      })),
    })
  }
  for (const [index, { name, arguments: args }] of calls.entries()) {
    const id = `fc_${n}_${index}`
    items.push({
      item: {
        type: 'function_call',
        id,
        call_id: `call_${n}_${index}`,
        name,
        arguments: argumentsText(args),
        status: 'completed',
      },
      deltas: splitInHalf(argumentsText(args)).map((delta) => ({
        type: 'response.function_call_arguments.delta',
        item_id: id,
        delta,
      })),
    })
  }
  const usage = {
    input_tokens: 90,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 10,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 100,
  }
  const empty = (item: Record<string, unknown>) =>
    item.type === 'message' ? { ...item, content: [], status: 'in_progress' } : { ...item, arguments: '' }
  return [
    { type: 'response.created', response },
    ...items.flatMap(({ item, deltas }, output_index) => [
      { type: 'response.output_item.added', output_index, item: empty(item) },
      ...deltas.map((delta) => ({ ...delta, output_index })),
      { type: 'response.output_item.done', output_index, item },
    ]),
    {
      type: 'response.completed',
      response: { ...response, status: 'completed', output: items.map(({ item }) => item), usage },
    },
  ]
}

function anthropicChunks({ text = '', calls = [] }: ModelReply, n: string): object[] {
  const message = {
    id: `msg_${n}`,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 90, output_tokens: 1 },
  }
  const blocks: { readonly block: object; readonly deltas: object[] }[] = [
    ...(text === ''
      ? []
      : [
          {
            block: { type: 'text', text: '' },
            deltas: splitInHalf(text).map((piece) => ({ type: 'text_delta', text: piece })),
          },
        ]),
    ...calls.map(({ name, arguments: args }, index) => ({
      block: { type: 'tool_use', id: `toolu_${n}_${index}`, name, input: {} },
      deltas: splitInHalf(argumentsText(args)).map((partial_json) => ({
        type: 'input_json_delta',
        partial_json,
      })),
    })),
  ]
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn'
  return [
    { type: 'message_start', message },
    ...blocks.flatMap(({ block, deltas }, index) => [
      { type: 'content_block_start', index, content_block: block },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 10 } },
    { type: 'message_stop' },
  ]
}

/** Gemini sends arguments as objects, so they always parse. */
function geminiChunks({ text = '', calls = [] }: ModelReply): object[] {
  const usageMetadata = { promptTokenCount: 90, candidatesTokenCount: 10, totalTokenCount: 100 }
  const chunk = (parts: object[], more: object = {}) => ({
    candidates: [{ content: { role: 'model', parts }, index: 0, ...more }],
    usageMetadata,
    modelVersion: 'm',
  })
  const parts = calls.map(({ name, arguments: args }) => ({
    functionCall: { name, args: typeof args === 'string' ? {} : args },
  }))
  return [
    ...splitInHalf(text).map((piece) => chunk([{ text: piece }])),
    ...parts.map((part) => chunk([part])),
    chunk([], { finishReason: 'STOP' }),
  ]
}
