import { asRecord } from '@slipway/shared/json'

/**
 * The texts that a `body` search looks at: content, extended content and reasoning of a MessageEvent. Accepts
 * any JSON value; other kinds and shapes have no texts.
 */
export function messageTexts(event: unknown): string[] {
  const { kind, llm_message, extended_content } = asRecord(event)
  if (kind !== 'MessageEvent') return []
  const { content, reasoning_content: reasoning } = asRecord(llm_message)
  const texts = [...contentTexts(content), ...contentTexts(extended_content)]
  return typeof reasoning === 'string' ? [...texts, reasoning] : texts
}

/** A content may be a plain text in events of other writers. */
function contentTexts(content: unknown): string[] {
  if (typeof content === 'string') return [content]
  if (!Array.isArray(content)) return []
  return content.flatMap((part) => (typeof part === 'string' ? [part] : (partText(part) ?? [])))
}

function partText(part: unknown): string | undefined {
  const { text } = asRecord(part)
  return typeof text === 'string' ? text : undefined
}
