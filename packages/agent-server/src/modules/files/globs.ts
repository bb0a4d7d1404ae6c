/**
 * Whether a path, or what it ends with after a slash, matches one of the patterns. An asterisk takes any
 * characters, slashes too; a question mark takes one that is no slash.
 *
 * Patterns come from callers. A regular expression would go back for each asterisk, so that `*a*a*a*b` takes
 * minutes for one path; here each character of a path moves all places of a pattern at once.
 */
export function compileGlobs(patterns: readonly string[]): (path: string) => boolean {
  const names = new Set(patterns.filter((pattern) => !/[*?]/.test(pattern)))
  const globs = patterns.filter((pattern) => /[*?]/.test(pattern)).map((pattern) => new Glob(pattern))
  return (path) => endings(path).some((ending) => names.has(ending)) || globs.some((glob) => glob.test(path))
}

/** The path, and what follows each of its slashes. */
function endings(path: string): string[] {
  const found = [path]
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) found.push(path.slice(at + 1))
  return found
}

class Glob {
  readonly #pattern: string
  /** The character at which a place was reached last. */
  readonly #reachedAt: Int32Array
  #places: number[] = []

  constructor(pattern: string) {
    this.#pattern = pattern
    this.#reachedAt = new Int32Array(pattern.length + 1)
  }

  test(path: string): boolean {
    this.#reachedAt.fill(-1)
    this.#places = []
    this.#reach(0, 0)
    for (let at = 0; at < path.length; at++) {
      const character = path[at]
      const places = this.#places
      this.#places = []
      for (const place of places) {
        const token = this.#pattern[place]
        if (token === '*') this.#reach(place, at + 1)
        else if (token === character || (token === '?' && character !== '/')) this.#reach(place + 1, at + 1)
      }
      if (character === '/') this.#reach(0, at + 1)
    }
    return this.#reachedAt[this.#pattern.length] === path.length
  }

  /** An asterisk may also take nothing. */
  #reach(place: number, at: number): void {
    for (let next = place; this.#reachedAt[next] !== at; next++) {
      this.#reachedAt[next] = at
      this.#places.push(next)
      if (this.#pattern[next] !== '*') return
    }
  }
}
