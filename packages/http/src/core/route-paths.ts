type Segments = readonly string[]

interface KnownPath {
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
export class RoutePaths {
  readonly #methods = new Map<string, string[]>()
  #sorted: readonly KnownPath[] | undefined

  /** `path` with braces, `{name*}` or `*` at its end for the rest. */
  add(path: string, methods: readonly string[]): void {
    this.#methods.set(path, [...(this.#methods.get(path) ?? []), ...methods])
    this.#sorted = undefined
  }

  /** As they were added. */
  get list(): readonly string[] {
    return [...this.#methods.keys()]
  }

  methodsOfPath(path: string): readonly string[] {
    return this.#methods.get(path) ?? []
  }

  /** The methods of the path that an address names; undefined when it names none. */
  methodsForUrl(url: string): readonly string[] | undefined {
    const requested = splitPath(decodePath(url.split(/[?#]/, 1)[0] ?? ''))
    return this.#sortedPaths().find(({ segments }) => matchesPattern(segments, requested))?.methods
  }

  /** The methods with which this path would be taken for another one, of which it is an example. */
  conflictingMethods(path: string): readonly string[] {
    const ownMethods = this.methodsOfPath(path)
    const example = splitPath(path)
    const others = this.#sortedPaths().filter(
      (known) => known.path !== path && matchesPattern(known.segments, example),
    )
    return [...new Set(others.flatMap(({ methods }) => methods))].filter(
      (method) => !ownMethods.includes(method),
    )
  }

  #sortedPaths(): readonly KnownPath[] {
    this.#sorted ??= [...this.#methods]
      .map(([path, methods]) => {
        const segments = splitPath(path)
        return { path, segments, methods, rank: segments.map(segmentRank).join('') }
      })
      .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    return this.#sorted
  }
}

function splitPath(path: string): Segments {
  return path.replace(/^\/+|\/+$/g, '').split('/')
}

function segmentRank(segment: string): string {
  if (isWildcard(segment)) return '2'
  return segment.startsWith('{') ? '1' : '0'
}

function isWildcard(segment: string): boolean {
  return segment.endsWith('*}') || segment === '*'
}

function matchesPattern(pattern: Segments, requested: Segments): boolean {
  const hasRest = isWildcard(pattern.at(-1) ?? '')
  if (!hasRest && pattern.length !== requested.length) return false
  const fixed = hasRest ? pattern.length - 1 : pattern.length
  for (let at = 0; at < fixed; at++) {
    const segment = pattern[at] ?? ''
    const value = requested[at]
    if (segment !== value && (!segment.startsWith('{') || value === undefined || value === '')) return false
  }
  return requested.length >= fixed
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
