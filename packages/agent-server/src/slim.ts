/** Members of observations that clients can do without on a live socket; REST has all of them. */
const bulky = ['screenshot_data', 'old_content', 'new_content']

/**
 * The same event in fewer than `maxBytes`, for clients that refuse larger frames: bulky members become null where
 * their record allows it, then the longest texts are cut with a note. The event's own members stay.
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
  return Buffer.from(JSON.stringify(event))
}

interface LongText {
  readonly key: string
  readonly value: string
  replace(by: string | null): unknown
}

/** Every text of some length below the event's root, with its place. Walks without recursion. */
function longTexts(root: unknown): LongText[] {
  const found: LongText[] = []
  const stack: unknown[] = [root]
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (typeof node !== 'object' || node === null) continue
    const holder = node as Record<string, unknown>
    for (const [key, value] of Object.entries(holder)) {
      if (typeof value === 'string' && value.length > 1000) {
        found.push({ key, value, replace: (by) => Reflect.set(holder, key, by) })
      } else if (typeof value === 'object' && value !== null) stack.push(value)
    }
  }
  return found
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
