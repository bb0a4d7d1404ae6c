import { firstChars } from '@slipway/shared/text'

/** Members of observations that clients can do without on a live socket; REST has all of them. */
const bulkyMembers = ['screenshot_data', 'old_content', 'new_content']
/** Members of a state snapshot that go before the others, the least needed first. */
const droppableMembers = [
  'client_tools',
  'hook_config',
  'secret_registry',
  'agent_state',
  'stats',
  'agent_context',
  'mcp_config',
]

/**
 * The event in fewer than `maxBytes`, for clients that refuse larger frames. In order: bulky members become
 * null, long texts are cut with a note, long lists and objects lose their ends, deep values are dropped. The
 * own members of the event stay.
 */
export function shrinkEvent(bytes: Buffer, maxBytes: number): Buffer {
  let event: unknown = JSON.parse(bytes.toString('utf8'))
  const isSmall = () => jsonBytes(event) < maxBytes
  dropBulkyMembers(event)
  truncateTexts(event, maxBytes)
  if (!isSmall()) emptyDroppableMembers(event, isSmall)
  for (let longest = longestMemberCount(event); longest > 1 && !isSmall(); ) {
    longest = Math.floor(longest / 2)
    event = truncateLists(event, longest, true)
  }
  for (let depth = 16; !isSmall() && depth > 0; depth--) limitDepth(event, depth)
  return Buffer.from(JSON.stringify(isSmall() ? event : minimalEvent(event)))
}

/** What every event is known by, for one that has too many members of its own. */
function minimalEvent(event: unknown): object {
  const { id, timestamp, source, kind } = Object(event)
  return { id, timestamp, source, kind }
}

function dropBulkyMembers(event: unknown): void {
  for (const text of findLongTexts(event)) if (bulkyMembers.includes(text.key)) text.replace(null)
}

function truncateTexts(event: unknown, maxBytes: number): void {
  let size = jsonBytes(event)
  for (const text of findLongTexts(event).sort((a, b) => b.value.length - a.value.length)) {
    if (size < maxBytes) return
    // The note that stands instead takes some of it.
    const maxLength = Math.max(200, lengthToSave(text.value, size - maxBytes + 1000))
    const prefix = firstChars(text.value, maxLength)
    const omitted = text.value.length - prefix.length
    if (omitted === 0) continue
    const replacement = `${prefix}\n[${omitted} characters are left out of this frame; read the event over REST]`
    text.replace(replacement)
    size -= jsonBytes(text.value) - jsonBytes(replacement)
  }
}

/** Length of a text whose JSON is at least this many bytes shorter. */
function lengthToSave(text: string, bytes: number): number {
  let length = text.length
  for (let left = bytes; left > 0 && length > 0; length--) left -= utf8Bytes(text.charCodeAt(length - 1))
  return length
}

/** Fewest JSON bytes of a UTF-16 unit; a surrogate pair takes four bytes. */
function utf8Bytes(code: number): number {
  if (code < 0x80) return 1
  return code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 2 : 3
}

/** The members of a snapshot that take up most and are needed least: empty, of the same kind as before. */
function emptyDroppableMembers(event: unknown, isSmall: () => boolean): void {
  const allContainers = [...iterateContainers(event)]
  for (const name of droppableMembers) {
    for (const container of allContainers) {
      const value: unknown = Reflect.get(container, name)
      if (typeof value !== 'object' || value === null || jsonBytes(value) < 10_000) continue
      Reflect.set(container, name, Array.isArray(value) ? [] : {})
    }
    if (isSmall()) return
  }
}

function longestMemberCount(event: unknown): number {
  let longest = 0
  for (const container of iterateContainers(event)) longest = Math.max(longest, Object.keys(container).length)
  return longest
}

/** The same with a limit for members of lists and objects; the event's own members stay. */
function truncateLists(value: unknown, longest: number, isRoot = false): unknown {
  if (Array.isArray(value)) return value.slice(0, longest).map((item) => truncateLists(item, longest))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  // What has few members has them all by their names.
  const remaining = isRoot || entries.length <= 32 ? entries : entries.slice(0, Math.max(32, longest))
  return Object.fromEntries(remaining.map(([name, member]) => [name, truncateLists(member, longest)]))
}

function limitDepth(node: unknown, depth: number): void {
  if (typeof node !== 'object' || node === null) return
  for (const [name, value] of Object.entries(node)) {
    if (depth > 1 || typeof value !== 'object' || value === null) limitDepth(value, depth - 1)
    else Reflect.set(node, name, Array.isArray(value) ? [] : {})
  }
}

interface LongText {
  readonly key: string
  readonly value: string
  replace(by: string | null): unknown
}

/** Every text of some length below the event's root, with its place. */
function findLongTexts(root: unknown): LongText[] {
  return [...iterateContainers(root)].flatMap((container) =>
    Object.entries(container).flatMap(([key, value]) =>
      typeof value === 'string' && value.length > 1000
        ? { key, value, replace: (by: string | null) => Reflect.set(container, key, by) }
        : [],
    ),
  )
}

/** Every object and list, the root too. Walks without recursion. */
function* iterateContainers(root: unknown): Generator<object> {
  const stack: unknown[] = [root]
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (typeof node !== 'object' || node === null) continue
    yield node
    for (const value of Object.values(node)) if (typeof value === 'object') stack.push(value)
  }
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
