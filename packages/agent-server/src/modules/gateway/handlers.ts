import { randomUUID } from 'node:crypto'
import type { Handlers, Reply } from '@slipway/http'
import {
  type ChatRequest,
  conversationId,
  type GatewayUsage,
  type gatewayRoutes,
  invalidInput,
  Problem,
  type ResponsesRequest,
} from '@slipway/protocol'
import type { Gateway } from './gateway.ts'
import type { GatewayTurn } from './turn.ts'

const idHeader = 'x-openhands-serverconversation-id'

/** Conversations as OpenAI's interface has them. */
export function gatewayHandlers(options: {
  readonly gateway: Gateway
  readonly heartbeatMs: number
}): Handlers<typeof gatewayRoutes> {
  const { gateway, heartbeatMs } = options
  return {
    listModels: async () => ({ json: await gateway.listModels() }),
    async completeChat({ body, header, signal }) {
      const { id, turn } = await gateway.startTurn(
        body,
        parseConversationId(header(idHeader)),
        signal,
        header,
      )
      const headers = { [idHeader]: id }
      try {
        if (body.stream) return await streamReply(body, { turn, headers, heartbeatMs })
        const { text, usage } = await turn.complete()
        return { json: completionResponse(body.model, text, usage), headers }
      } catch (error) {
        if (error instanceof Problem) return { refusal: error, headers }
        throw error
      }
    },
    async createResponse({ body, header, signal }) {
      const createdAt = nowSeconds()
      const { id, turn } = await gateway.startResponse(body, signal, header)
      const headers = { [idHeader]: id }
      try {
        const { text, usage } = await turn.complete()
        return { json: responseObject(body, text, usage, createdAt), headers }
      } catch (error) {
        if (error instanceof Problem) return { refusal: error, headers }
        throw error
      }
    },
  }
}

function parseConversationId(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const { data } = conversationId.safeParse(text)
  if (data !== undefined) return data
  throw invalidInput(['header', idHeader], 'Input should be the id of a conversation', 'uuid_parsing')
}

function completionResponse(model: string, content: string, usage: GatewayUsage) {
  const message = { role: 'assistant', content }
  return {
    ...{ id: hexId('chatcmpl-'), object: 'chat.completion', created: nowSeconds(), model },
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage,
  }
}

function responseObject(
  { model, instructions, metadata = {} }: ResponsesRequest,
  text: string,
  usage: GatewayUsage,
  created_at: number,
) {
  const content = [{ type: 'output_text', text, annotations: [] }]
  return {
    ...{ id: hexId('resp_'), object: 'response', created_at, completed_at: nowSeconds() },
    ...{ status: 'completed', model, instructions: instructions ?? null, metadata },
    output: [{ id: hexId('msg_'), type: 'message', role: 'assistant', status: 'completed', content }],
    ...{ tools: [], tool_choice: 'none', parallel_tool_calls: false },
    usage: {
      input_tokens: usage.prompt_tokens,
      output_tokens: usage.completion_tokens,
      total_tokens: usage.total_tokens,
      input_tokens_details: usage.prompt_tokens_details,
      output_tokens_details: usage.completion_tokens_details,
    },
  }
}

/** Waits for the first piece, so that an earlier failure is answered with a status. */
async function streamReply(
  request: ChatRequest,
  options: {
    readonly turn: GatewayTurn
    readonly headers: Readonly<Record<string, string>>
    readonly heartbeatMs: number
  },
): Promise<Reply> {
  const stream = completionChunks(request, options.turn, options.heartbeatMs)
  const first = await stream.next()
  async function* withFirst() {
    if (!first.done) yield first.value
    yield* stream
  }
  const headers = { ...options.headers, 'cache-control': 'no-cache', 'x-accel-buffering': 'no' }
  return { contentType: 'text/event-stream', headers, chunks: withFirst() }
}

async function* completionChunks(
  { model, stream_options }: ChatRequest,
  turn: GatewayTurn,
  heartbeatMs: number,
): AsyncGenerator<string> {
  const head = {
    id: hexId('chatcmpl-'),
    object: 'chat.completion.chunk',
    created: nowSeconds(),
    model,
  }
  const line = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`
  const chunk = (delta: object, finish_reason: string | null) =>
    line({ ...head, choices: [{ index: 0, delta, finish_reason }] })
  const stream = turn.stream(heartbeatMs)
  let hasBegun = false
  let isFirst = true
  try {
    for (;;) {
      const { done, value } = await stream.next()
      hasBegun = true
      if (value === undefined) yield ': beat\n\n'
      else if (typeof value === 'string') {
        yield chunk(isFirst ? { role: 'assistant', content: value } : { content: value }, null)
        isFirst = false
      }
      if (!done || typeof value !== 'object') continue
      if (isFirst) yield chunk({ role: 'assistant', content: '' }, null)
      yield chunk({}, 'stop')
      if (stream_options?.include_usage) yield line({ ...head, choices: [], usage: value.usage })
      yield 'data: [DONE]\n\n'
      return
    }
  } catch (error) {
    if (!hasBegun || !(error instanceof Problem)) throw error
    yield line({ error: { message: error.message, type: 'server_error', code: error.code } })
  }
}

function hexId(prefix: string): string {
  return prefix + randomUUID().replaceAll('-', '')
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000)
}
