import { asRecord } from '@slipway/shared/json'
import type { ModelCapabilities } from '../capabilities/capabilities.ts'

type Body = Record<string, unknown>

const optionalMembers = [
  ...['reasoning_effort', 'return_token_ids', 'seed', 'stream_options'],
  ...['tool_choice', 'top_k', 'top_p'],
]
const afterToolText = 'These are the results.'

/** Fits the body of a chat request to what its server accepts (the capability table). */
export function fitCompatibleBody(body: Body, capabilities: ModelCapabilities): Body {
  const { members, renamed = {} } = capabilities
  const fitted: Body = {}
  for (const [name, value] of Object.entries(body)) {
    if (members !== 'any' && optionalMembers.includes(name) && !members.some((known) => known === name))
      continue
    const [outer = name, inner] = (renamed[name] ?? name).split('.')
    fitted[outer] = inner === undefined ? value : { ...asRecord(fitted[outer]), [inner]: value }
  }
  if (Array.isArray(body.messages)) fitted.messages = fitMessages(body.messages.map(asRecord), capabilities)
  return fitted
}

function fitMessages(messages: readonly Body[], capabilities: ModelCapabilities): Body[] {
  const fitted: Body[] = []
  for (const message of messages) {
    const next = fitMessage(message, capabilities)
    const last = fitted.at(-1)
    if (next.role === 'system' && last?.role === 'system') {
      last.content = [...contentParts(last.content), ...contentParts(next.content)]
      continue
    }
    if (capabilities.needsAnswerAfterTool && next.role === 'user' && last?.role === 'tool') {
      fitted.push({ role: 'assistant', content: afterToolText })
    }
    fitted.push(next)
  }
  return fitted
}

function fitMessage(message: Body, capabilities: ModelCapabilities): Body {
  const { hasProviderFields, needsContent, content: form } = capabilities
  const { cache_control, ...fitted } = message
  if (needsContent) fitted.content ??= ''
  if (hasProviderFields && Array.isArray(fitted.tool_calls))
    fitted.tool_calls = fitted.tool_calls.map(addFields)
  if (cache_control !== undefined) fitted.content = markLast(fitted.content, cache_control)
  if (form === 'text') fitted.content = contentText(fitted.content)
  return fitted
}

/** LiteLLM's place for Gemini's signature of a call. */
function addFields(call: unknown): unknown {
  const { thought_signature } = asRecord(asRecord(asRecord(call).extra_content).google)
  if (thought_signature === undefined) return call
  return { ...asRecord(call), provider_specific_fields: { thought_signature } }
}

function contentParts(content: unknown): unknown[] {
  return Array.isArray(content) ? content : [{ type: 'text', text: content }]
}

/** A mark of the whole message, as one of its last part. */
function markLast(content: unknown, cache_control: unknown): unknown {
  const parts = contentParts(content)
  return parts.map((part, at) => (at === parts.length - 1 ? { ...asRecord(part), cache_control } : part))
}

function contentText(content: unknown): unknown {
  if (!Array.isArray(content)) return content
  return content
    .map((part) => asRecord(part).text)
    .filter((text) => typeof text === 'string')
    .join('\n\n')
}
