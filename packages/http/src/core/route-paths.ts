type Segments = readonly string[]

interface Known {
  readonly path: string
  readonly segments: Segments
  readonly methods: readonly string[]
  /** Smaller goes first, as in the router: a literal before a parameter, a parameter before the rest. */
  readonly rank: string
}

/**
 * The paths of a server with the methods of each, for what the router does not find: it is asked for the routes alone, because a route for each
 * refusal too would be most of what it has to build and keep.
 */
export class Paths {
  readonly #methods = new Map<string, string[]>()
  #known: readonly Known[] | undefined

  /** `path` with braces, `{name*}` or `*` at its end for the rest. */
  add(path: string, methods: readonly string[]): void {
    this.#methods.set(path, [...(this.#methods.get(path) ?? []), ...methods])
    this.#known = undefined
  }

  /** As they were added. */
  get all(): readonly string[] {
    return [...this.#methods.keys()]
  }

  of(path: string): readonly string[] {
    return this.#methods.get(path) ?? []
  }

  /** The methods of the path that an address names; undefined when it names none. */
  methodsAt(url: string): readonly string[] | undefined {
    const asked = segmentsOf(decoded(url.split(/[?#]/, 1)[0] ?? ''))
    return this.#list().find(({ segments }) => matches(segments, asked))?.methods
  }

  /** The methods with which this path would be taken for another one, of which it is an example. */
  mistakenFor(path: string): readonly string[] {
    const own = this.of(path)
    const example = segmentsOf(path)
    const others = this.#list().filter((known) => known.path !== path && matches(known.segments, example))
    return [...new Set(others.flatMap(({ methods }) => methods))].filter((method) => !own.includes(method))
  }

  #list(): readonly Known[] {
    this.#known ??= [...this.#methods]
      .map(([path, methods]) => {
        const segments = segmentsOf(path)
        return { path, segments, methods, rank: segments.map(rankOf).join('') }
      })
      .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    return this.#known
  }
}

function segmentsOf(path: string): Segments {
  return path.replace(/^\/+|\/+$/g, '').split('/')
}

function rankOf(segment: string): string {
  if (isRest(segment)) return '2'
  return segment.startsWith('{') ? '1' : '0'
}

function isRest(segment: string): boolean {
  return segment.endsWith('*}') || segment === '*'
}

function matches(pattern: Segments, asked: Segments): boolean {
  const hasRest = isRest(pattern.at(-1) ?? '')
  if (!hasRest && pattern.length !== asked.length) return false
  const fixed = hasRest ? pattern.length - 1 : pattern.length
  for (let at = 0; at < fixed; at++) {
    const segment = pattern[at] ?? ''
    const given = asked[at]
    if (segment !== given && (!segment.startsWith('{') || given === undefined || given === '')) return false
  }
  return asked.length >= fixed
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
