/** Members of observations that clients can do without on a live socket; REST has all of them. */
const bulky = ['screenshot_data', 'old_content', 'new_content']

/**
 * The same event in fewer than `maxBytes`, for clients that refuse larger frames: bulky members become null where
 * their record allows it, then the longest texts are cut with a note, then long lists lose their ends. The event's own
 * members stay.
 */
export function slim(bytes: Buffer, maxBytes: number): Buffer {
  const event: unknown = JSON.parse(bytes.toString('utf8'))
  const texts = longTexts(event)
  for (const text of texts) if (bulky.includes(text.key)) text.replace(null)
  let size = sizeOf(event)
  for (const text of texts
    .filter(({ key }) => !bulky.includes(key))
    .sort((a, b) => b.value.length - a.value.length)) {
    if (size < maxBytes) break
    // A character of a JSON text takes at most six bytes, so this much less is enough or leaves a short stub.
    const keep = Math.max(200, text.value.length - (size - maxBytes) - 1000)
    const cut = text.value.length - keep
    if (cut <= 0) continue
    text.replace(
      `${text.value.slice(0, keep)}\n[${cut} characters are left out of this frame; read the event over REST]`,
    )
    size = sizeOf(event)
  }
  const lists = longLists(event)
  for (let longest = Math.max(0, ...lists.map((list) => list.length)); size >= maxBytes && longest > 1; ) {
    longest = Math.floor(longest / 2)
    for (const list of lists) list.length = Math.min(list.length, longest)
    size = sizeOf(event)
  }
  return Buffer.from(JSON.stringify(event))
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

function longLists(root: unknown): unknown[][] {
  return [...holders(root)].filter((holder) => Array.isArray(holder)).filter((list) => list.length > 100)
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
