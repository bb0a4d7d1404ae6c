import { randomBytes } from 'node:crypto'
import type { Llm, Message } from '@slipway/protocol'
import type { Secrets } from '../secrets/secrets.ts'
import type { Answered, ModelRequest } from './model.ts'

/** Characters of an image's data that are kept. */
const maxImage = 1000
const leftOut = '<left out>'

/** An answer with its log, when its settings want one: without secrets, encrypted thoughts and most of the images. */
export function withLog(
  answered: Answered,
  options: {
    readonly llm: Llm
    readonly request: ModelRequest
    readonly nowMs: number
    readonly secrets: Secrets
  },
): Answered {
  const { llm, request, nowMs, secrets } = options
  if (!llm.log_completions) return answered
  const { responseId: id, message, stop, usage, cost, latencyMs } = answered
  const record = {
    request: {
      model: llm.model,
      messages: request.messages.map(legible),
      tools: request.tools,
      max_output_tokens: request.maxOutputTokens,
    },
    response: { id, stop, message: legible(message) },
    usage,
    cost,
    latency: latencyMs / 1000,
    timestamp: nowMs / 1000,
  }
  const model = llm.model.replaceAll('/', '__').replaceAll(/[^\w.-]/g, '_')
  const filename = `${model}-${(nowMs / 1000).toFixed(3)}-${randomBytes(2).toString('hex')}.json`
  return { ...answered, log: { filename, data: JSON.stringify(secrets.maskJson(record)) } }
}

function legible(message: Message): Message {
  const { responses_reasoning_item: item } = message
  return {
    ...message,
    content: message.content.map((part) =>
      part.type === 'text' ? part : { ...part, image_urls: part.image_urls.map(shortened) },
    ),
    thinking_blocks: message.thinking_blocks.map((block) =>
      block.type === 'thinking' ? { ...block, signature: leftOut } : { ...block, data: leftOut },
    ),
    ...(item ? { responses_reasoning_item: { ...item, encrypted_content: leftOut } } : {}),
  }
}

function shortened(url: string): string {
  return url.length <= maxImage ? url : `${url.slice(0, maxImage)}… (${url.length} characters)`
}
