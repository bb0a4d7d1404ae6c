import type { Handlers } from '@slipway/http'
import {
  type ChatRequest,
  conversationId,
  type gatewayRoutes,
  invalidInput,
  Problem,
} from '@slipway/protocol'
import type { Gateway, StartedTurn } from './gateway.ts'
import { readChatRequest } from './request.ts'
import type { OutputItem } from './response-log.ts'
import { hexId, pieces } from './response-stream.ts'
import { idHeader, startStream } from './stream-reply.ts'
import type { TurnResult } from './turn.ts'

type ChatRoutes = Pick<typeof gatewayRoutes, 'listModels' | 'getModel' | 'completeChat'>

/** Models, and conversations as chats. */
export function chatHandlers(options: {
  readonly gateway: Gateway
  readonly heartbeatMs: number
}): Handlers<ChatRoutes> {
  const { gateway, heartbeatMs } = options
  return {
    listModels: async () => ({ json: await gateway.listModels() }),
    getModel: async ({ params }) => ({ json: await gateway.getModel(params.model) }),
    async completeChat({ body, header, signal }) {
      const started = await gateway.startTurn(readChatRequest(body), {
        conversationId: parseConversationId(header(idHeader)),
        ...{ signal, header },
      })
      const headers = { [idHeader]: started.id }
      try {
        if (body.stream) return await startStream(completionChunks(body, started, heartbeatMs), headers)
        const result = await started.turn.complete().finally(() => started.finish())
        return { json: completionResponse(body.model, result), headers }
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

function completionResponse(model: string, { text, calls, stop, usage }: TurnResult) {
  const message =
    calls.length === 0
      ? { role: 'assistant', content: text }
      : { role: 'assistant', content: text || null, tool_calls: calls.map(toToolCall) }
  return {
    ...{ id: hexId('chatcmpl-'), object: 'chat.completion', created: nowSeconds(), model },
    choices: [{ index: 0, message: { ...message, refusal: null }, logprobs: null, finish_reason: stop }],
    usage,
  }
}

function toToolCall({ call_id: id, name, arguments: args }: OutputItem) {
  return { id, type: 'function', function: { name, arguments: args } }
}

async function* completionChunks(
  { model, stream_options }: ChatRequest,
  { turn, finish }: StartedTurn,
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
      await finish()
      if (isFirst) yield chunk({ role: 'assistant', content: value.calls.length > 0 ? null : '' }, null)
      for (const delta of toolCallDeltas(value.calls)) yield chunk({ tool_calls: [delta] }, null)
      yield chunk({}, value.stop)
      if (stream_options?.include_usage) yield line({ ...head, choices: [], usage: value.usage })
      yield 'data: [DONE]\n\n'
      return
    }
  } catch (error) {
    if (!hasBegun || !(error instanceof Problem)) throw error
    yield line({ error: { message: error.message, type: 'server_error', param: null, code: error.code } })
  } finally {
    await finish()
  }
}

function toolCallDeltas(calls: readonly OutputItem[]): object[] {
  return calls.flatMap((call, index) => {
    const { function: made, ...members } = toToolCall(call)
    const begin = { index, ...members, function: { name: made.name, arguments: '' } }
    const rest = pieces(String(made.arguments)).map((args) => ({ index, function: { arguments: args } }))
    return [begin, ...rest]
  })
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000)
}
