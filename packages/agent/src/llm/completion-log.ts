import { randomBytes } from 'node:crypto'
import type { Llm, Message } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import type { Secrets } from '../secrets/secrets.ts'
import type { ModelReply, ModelRequest } from './model.ts'

/** Most characters of an image in the log. */
const maxImage = 1000
const omittedText = '<left out>'

/** Adds a completion log, without secrets and encrypted reasoning, when the settings ask for it. */
export function attachCompletionLog(
  reply: ModelReply,
  options: {
    readonly llm: Llm
    readonly request: ModelRequest
    readonly nowMs: number
    readonly secrets: Secrets
  },
): ModelReply {
  const { llm, request, nowMs, secrets } = options
  if (!llm.log_completions) return reply
  const { responseId: id, message, stop, usage, cost, latencyMs } = reply
  const record = {
    request: {
      model: llm.model,
      messages: request.messages.map(loggableMessage),
      tools: request.tools,
      max_output_tokens: request.maxOutputTokens,
    },
    response: { id, stop, message: loggableMessage(message) },
    usage,
    cost,
    latency: latencyMs / 1000,
    timestamp: nowMs / 1000,
  }
  const model = llm.model.replaceAll('/', '__').replaceAll(/[^\w.-]/g, '_')
  const filename = `${model}-${(nowMs / 1000).toFixed(3)}-${randomBytes(2).toString('hex')}.json`
  return { ...reply, completionLog: { filename, data: JSON.stringify(secrets.redactJson(record)) } }
}

function loggableMessage(message: Message): Message {
  const { responses_reasoning_item: item } = message
  return {
    ...message,
    content: message.content.map((part) =>
      part.type === 'text' ? part : { ...part, image_urls: part.image_urls.map(truncateImageUrl) },
    ),
    thinking_blocks: message.thinking_blocks.map((block) =>
      block.type === 'thinking' ? { ...block, signature: omittedText } : { ...block, data: omittedText },
    ),
    ...(item ? { responses_reasoning_item: { ...item, encrypted_content: omittedText } } : {}),
  }
}

function truncateImageUrl(url: string): string {
  return url.length <= maxImage ? url : `${firstChars(url, maxImage)}… (${url.length} characters)`
}
