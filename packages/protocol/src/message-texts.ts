/**
 * The texts that a `body` search looks at: content, extended content and reasoning of a MessageEvent. Accepts
 * any JSON value; other kinds and shapes have no texts.
 */
export function messageTexts(event: unknown): string[] {
  if (getMember(event, 'kind') !== 'MessageEvent') return []
  const llmMessage = getMember(event, 'llm_message')
  const texts = [
    ...contentTexts(getMember(llmMessage, 'content')),
    ...contentTexts(getMember(event, 'extended_content')),
  ]
  const reasoning = getMember(llmMessage, 'reasoning_content')
  return typeof reasoning === 'string' ? [...texts, reasoning] : texts
}

/** A content may be a plain text in events of other writers. */
function contentTexts(content: unknown): string[] {
  if (typeof content === 'string') return [content]
  if (!Array.isArray(content)) return []
  return content.flatMap((part) => (typeof part === 'string' ? [part] : (partText(part) ?? [])))
}

function partText(part: unknown): string | undefined {
  const text = getMember(part, 'text')
  return typeof text === 'string' ? text : undefined
}

function getMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined
}
