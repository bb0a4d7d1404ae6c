/** Members of observations that clients can do without on a live socket; REST has all of them. */
const bulky = ['screenshot_data', 'old_content', 'new_content']
/** Members of a state snapshot that go before the others, the least needed first. */
const needless = [
  'client_tools',
  'hook_config',
  'secret_registry',
  'agent_state',
  'stats',
  'agent_context',
  'mcp_config',
]

/**
 * The same event in fewer than `maxBytes`, for clients that refuse larger frames: bulky members become null where
 * their record allows it, then the longest texts are cut with a note, then long lists and large objects lose their ends, then
 * what is deep. The event's own members stay.
 */
export function slim(bytes: Buffer, maxBytes: number): Buffer {
  let event: unknown = JSON.parse(bytes.toString('utf8'))
  const isSmall = () => sizeOf(event) < maxBytes
  withoutBulk(event)
  cutTexts(event, maxBytes)
  if (!isSmall()) emptyNeedless(event, isSmall)
  for (let longest = longestOf(event); longest > 1 && !isSmall(); ) {
    longest = Math.floor(longest / 2)
    event = withoutEnds(event, longest, true)
  }
  for (let depth = 16; !isSmall() && depth > 0; depth--) cutDepth(event, depth)
  return Buffer.from(JSON.stringify(isSmall() ? event : bareOf(event)))
}

/** What every event is known by, for one that has too many members of its own. */
function bareOf(event: unknown): object {
  const { id, timestamp, source, kind } = Object(event)
  return { id, timestamp, source, kind }
}

function withoutBulk(event: unknown): void {
  for (const text of longTexts(event)) if (bulky.includes(text.key)) text.replace(null)
}

function cutTexts(event: unknown, maxBytes: number): void {
  let size = sizeOf(event)
  for (const text of longTexts(event).sort((a, b) => b.value.length - a.value.length)) {
    if (size < maxBytes) return
    // The note that stands instead takes some of it.
    const keep = Math.max(200, lengthWithout(text.value, size - maxBytes + 1000))
    const kept = text.value.slice(0, keep).replace(/[\ud800-\udbff]$/, '')
    const cut = text.value.length - kept.length
    if (cut === 0) continue
    const short = `${kept}\n[${cut} characters are left out of this frame; read the event over REST]`
    text.replace(short)
    size -= sizeOf(text.value) - sizeOf(short)
  }
}

/** How long a text may be to take so many bytes less in JSON, or even fewer. */
function lengthWithout(text: string, bytes: number): number {
  let length = text.length
  for (let left = bytes; left > 0 && length > 0; length--) left -= bytesOf(text.charCodeAt(length - 1))
  return length
}

/** What a unit of a text takes at least; a pair of surrogates takes four bytes. */
function bytesOf(code: number): number {
  if (code < 0x80) return 1
  return code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 2 : 3
}

/** The members of a snapshot that take up most and are needed least: empty, of the same kind as before. */
function emptyNeedless(event: unknown, isSmall: () => boolean): void {
  const all = [...holders(event)]
  for (const name of needless) {
    for (const holder of all) {
      const value: unknown = Reflect.get(holder, name)
      if (typeof value !== 'object' || value === null || sizeOf(value) < 10_000) continue
      Reflect.set(holder, name, Array.isArray(value) ? [] : {})
    }
    if (isSmall()) return
  }
}

function longestOf(event: unknown): number {
  let longest = 0
  for (const holder of holders(event)) longest = Math.max(longest, Object.keys(holder).length)
  return longest
}

/** The same with at most so many members in its lists and objects; those that an event has itself stay. */
function withoutEnds(value: unknown, longest: number, isRoot = false): unknown {
  if (Array.isArray(value)) return value.slice(0, longest).map((item) => withoutEnds(item, longest))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  // What has few members has them all by their names.
  const kept = isRoot || entries.length <= 32 ? entries : entries.slice(0, Math.max(32, longest))
  return Object.fromEntries(kept.map(([name, member]) => [name, withoutEnds(member, longest)]))
}

/** Nothing stands deeper than so many levels. */
function cutDepth(node: unknown, depth: number): void {
  if (typeof node !== 'object' || node === null) return
  for (const [name, value] of Object.entries(node)) {
    if (depth > 1 || typeof value !== 'object' || value === null) cutDepth(value, depth - 1)
    else Reflect.set(node, name, Array.isArray(value) ? [] : {})
  }
}

interface LongText {
  readonly key: string
  readonly value: string
  replace(by: string | null): unknown
}

/** Every text of some length below the event's root, with its place. */
function longTexts(root: unknown): LongText[] {
  return [...holders(root)].flatMap((holder) =>
    Object.entries(holder).flatMap(([key, value]) =>
      typeof value === 'string' && value.length > 1000
        ? { key, value, replace: (by: string | null) => Reflect.set(holder, key, by) }
        : [],
    ),
  )
}

/** Every object and list, the root too. Walks without recursion. */
function* holders(root: unknown): Generator<object> {
  const stack: unknown[] = [root]
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (typeof node !== 'object' || node === null) continue
    yield node
    for (const value of Object.values(node)) if (typeof value === 'object') stack.push(value)
  }
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
