import FindMyWay from 'find-my-way'

/** What serves one path. */
interface PathEntry<T> {
  /** With braces; `{name*}` or `*` at its end for the rest. */
  readonly path: string
  readonly methods: Map<string, T>
  /** Serves all other methods. */
  readonly fallback: T
}

interface RouteMatch<T> {
  readonly entry: PathEntry<T>
  /** Decoded. */
  readonly params: Readonly<Record<string, string>>
}

/** Longest value of a path parameter; a longer one makes the address invalid. */
const maxParamLength = 4_096
const ignore = () => {}

/**
 * Finds the entry of an address. All methods of a path share one entry of the tree, so a literal path is
 * never matched as an example of a path with parameters that has another method.
 */
export class Router<T> {
  readonly #tree = FindMyWay({
    ignoreTrailingSlash: true,
    maxParamLength,
    querystringParser: ignore,
    onBadUrl: ignore,
    onMaxParamLength: ignore,
  })
  readonly #entries = new Map<string, PathEntry<T>>()

  /** Adds methods to a path. `createFallback` is called when the path is new. */
  add(
    path: string,
    methods: readonly string[],
    target: T,
    createFallback: (entry: Omit<PathEntry<T>, 'fallback'>) => T,
  ): void {
    let entry = this.#entries.get(path)
    if (entry === undefined) {
      const base = { path, methods: new Map<string, T>() }
      entry = { ...base, fallback: createFallback(base) }
      this.#entries.set(path, entry)
      const pattern = path.replace(/\{\w+\*\}$/, '*').replaceAll(/\{(\w+)\}/g, ':$1')
      this.#tree.on('GET', pattern, ignore, entry)
    }
    for (const method of methods) entry.methods.set(method, target)
  }

  /**
   * Undefined for an unknown path, 'invalid' for an address that cannot be decoded or has a parameter that is
   * too long.
   */
  find(url: string): RouteMatch<T> | 'invalid' | undefined {
    // The asterisk of `OPTIONS *` is no path, but the tree takes one character for the root.
    const found = url === '*' ? null : this.#tree.find('GET', url)
    if (found === null) return undefined
    const entry: PathEntry<T> | null = found.store
    if (entry === null) return 'invalid'
    const wildcard = /\{(\w+)\*\}$/.exec(entry.path)?.[1]
    const params = wildcard === undefined ? found.params : renameWildcard(found.params, wildcard)
    return { entry, params: params as RouteMatch<T>['params'] }
  }
}

/** The tree calls the rest of an address `*`. */
function renameWildcard({ '*': rest, ...others }: Readonly<Record<string, unknown>>, name: string): unknown {
  return { ...others, [name]: rest }
}
