import { asRecord, isRecord } from '@slipway/shared/json'

/** The kind of the events that hold entries of sessions of the Claude Agent SDK. */
export const sessionEntryKind = 'SessionStoreEntry'

/**
 * Whether a `body` search looks at events of a kind. Stored logs depend on it: a kind never changes sides.
 */
export function hasMessageTexts(kind: unknown): boolean {
  return kind === 'MessageEvent' || kind === sessionEntryKind
}

/**
 * The texts that a `body` search looks at: content, extended content and reasoning of a MessageEvent, and
 * what an entry of a session says. Accepts any JSON value; other kinds and shapes have no texts.
 */
export function messageTexts(event: unknown): string[] {
  const { kind, llm_message, extended_content, entry } = asRecord(event)
  if (kind === sessionEntryKind) return entryTexts(entry)
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

/** Members of entries, at any level, that no one reads: identifiers, and bytes as text. */
const silentMembers = new Set(
  'data id leafUuid parentUuid requestId sessionId signature timestamp tool_use_id type uuid version'.split(
    ' ',
  ),
)

function entryTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(entryTexts)
  if (!isRecord(value)) return []
  return Object.entries(value).flatMap(([name, item]) => (silentMembers.has(name) ? [] : entryTexts(item)))
}
