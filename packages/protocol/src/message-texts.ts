/**
 * The texts of a MessageEvent that a `body` search looks at: those of its content, of its extended content, and its
 * reasoning. Takes any JSON value; what is no MessageEvent, or has another shape there, has no texts.
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
