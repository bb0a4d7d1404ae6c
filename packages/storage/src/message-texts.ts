/**
 * The texts of a MessageEvent that the `body` filter looks into, each on its own: message content, extended content,
 * reasoning. The same as `messageTexts` of the protocol, without its schemas, which would cost the index thread more
 * memory than everything else in it.
 */
export function messageTexts(event: unknown): string[] {
  if (member(event, 'kind') !== 'MessageEvent') return []
  const message = member(event, 'llm_message')
  const contents = [member(message, 'content'), member(event, 'extended_content')]
  const reasoning = member(message, 'reasoning_content')
  return [...contents.flatMap(textsOf), reasoning].filter((text) => typeof text === 'string')
}

/** A content of other writers may be a plain text, or have plain texts in it. */
function textsOf(content: unknown): unknown[] {
  if (!Array.isArray(content)) return [content]
  return content.map((part) => (typeof part === 'string' ? part : member(part, 'text')))
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined
}
