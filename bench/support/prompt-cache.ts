/** A request in the order in which a cache reads it. */
interface CacheBlock {
  readonly text: string
  readonly isMarked: boolean
}

/** Shares of one or more requests, in characters. */
export interface CacheUse {
  readonly read: number
  readonly written: number
  readonly plain: number
}

type Body = Readonly<Record<string, unknown>>

/**
 * The rules of Anthropic's cache, also behind gateways: a mark reads the longest prefix that an earlier mark
 * wrote at one of the 20 blocks up to it, and writes its own prefix.
 */
export class MarkedCache {
  readonly #written = new Set<string>()

  add(body: Body): CacheUse {
    const prefixes: { readonly key: string; readonly size: number; readonly isMarked: boolean }[] = []
    for (const { text, isMarked } of blocksOf(body)) {
      const before = prefixes.at(-1) ?? { key: '', size: 0 }
      prefixes.push({ key: before.key + text, size: before.size + text.length, isMarked })
    }
    const marks = prefixes.flatMap(({ isMarked }, at) => (isMarked ? [at] : []))
    const reached = marks.flatMap((mark) => prefixes.slice(Math.max(0, mark - 19), mark + 1))
    const read = Math.max(0, ...reached.filter(({ key }) => this.#written.has(key)).map(({ size }) => size))
    const marked = prefixes[marks.at(-1) ?? -1]?.size ?? 0
    for (const mark of marks) this.#written.add(prefixes[mark]?.key ?? '')
    const written = Math.max(0, marked - read)
    return { read, written, plain: (prefixes.at(-1)?.size ?? 0) - read - written }
  }
}

/**
 * The rule of caches without marks: the longest common beginning with an earlier request of the conversation.
 */
export class PrefixCache {
  #last = ''

  add(body: Body): CacheUse {
    const text = blocksOf(body)
      .map((block) => block.text)
      .join('')
    let read = 0
    while (read < this.#last.length && this.#last[read] === text[read]) read++
    this.#last = text
    return { read, written: 0, plain: text.length - read }
  }
}

function blocksOf({ system, tools, messages, input, tool_choice }: Body): CacheBlock[] {
  const list = (value: unknown): Body[] => (Array.isArray(value) ? value : [])
  const blocks = (role: unknown, content: unknown): Body[] =>
    typeof content === 'string'
      ? [{ role, type: 'text', text: content }]
      : list(content).map((one) => ({ role, ...one }))
  const conversation = [...list(messages), ...list(input)].flatMap((message) => {
    const { role, content, tool_calls, ...rest } = message
    const inner = [...blocks(role, content), ...list(tool_calls)]
    return inner.length > 0 ? inner : [rest]
  })
  const all = [{ tools }, ...blocks('system', system), { tool_choice }, ...conversation]
  return all.map(({ cache_control, ...block }: Body) => ({
    text: JSON.stringify(block),
    isMarked: cache_control !== undefined,
  }))
}
