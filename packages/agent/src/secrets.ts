import { type SecretSource, secretTexts } from '@slipway/protocol'

/** What stands where a secret's value stood. */
export const hidden = '<secret-hidden>'
/** Values shorter than this are not hidden: every text would be shredded. */
const minLength = 4
/** A lookup that failed is not tried again before this. */
const retryMs = 60_000
const lookupTimeoutMs = 10_000
/** Of at least eight characters without a space, with a digit; `application/json` and `production` are not. */
const looksSecret = /^(?=\S*\d)\S{8,}$/

/**
 * The secrets of one conversation. Values leave by three ways only: `named` for the environment of a command that names
 * them, `expand` for the arguments of an MCP call, and never in anything that was masked.
 */
export class Secrets {
  readonly #sources = new Map<string, SecretSource>()
  readonly #values = new Map<string, string>()
  readonly #failedAt = new Map<string, number>()
  /** Values of no name that have to be hidden too, such as the key of a model. */
  readonly #others = new Set<string>()
  readonly #fetch: typeof fetch
  readonly #now: () => number
  #pattern: RegExp | undefined

  constructor(
    sources: Readonly<Record<string, SecretSource>> = {},
    options: { readonly fetch?: typeof fetch; readonly now?: () => number } = {},
  ) {
    this.#fetch = options.fetch ?? fetch
    this.#now = options.now ?? Date.now
    this.add(sources)
  }

  /** Adds sources; one of the same name is replaced (its old value stays hidden). */
  add(sources: Readonly<Record<string, SecretSource>>): void {
    for (const [name, source] of Object.entries(sources)) {
      const old = this.#values.get(name)
      if (old !== undefined) this.hide(old)
      this.#sources.set(name, source)
      this.#values.delete(name)
      this.#failedAt.delete(name)
      if (source.kind === 'StaticSecret' && source.value !== undefined) this.#keep(name, source.value)
      if (source.kind === 'LookupSecret') for (const value of Object.values(source.headers)) this.hide(value)
    }
  }

  /** Hides a value that is no secret of the conversation. */
  hide(value: string): void {
    if (value.length < minLength) return
    this.#others.add(value)
    this.#pattern = undefined
  }

  /** Hides the keys, tokens and passwords of a configuration; of its environments and headers what looks like one. */
  hideIn(configuration: unknown): void {
    for (const { text, isNamed } of secretTexts(configuration)) {
      if (isNamed || looksSecret.test(text)) this.hide(text)
    }
  }

  /** Names and descriptions, for the model to know what there is. */
  list(): readonly { readonly name: string; readonly description: string | undefined }[] {
    return [...this.#sources].map(([name, { description }]) => ({ name, description }))
  }

  /** The values of the secrets whose name occurs in a text, in any case. */
  async named(text: string): Promise<Record<string, string>> {
    const folded = text.toLowerCase()
    const found: Record<string, string> = {}
    for (const name of this.#sources.keys()) {
      if (!folded.includes(name.toLowerCase())) continue
      const value = await this.#value(name)
      if (value !== undefined) found[name] = value
    }
    return found
  }

  /** Puts values where a text of a JSON value says `$NAME` or `${NAME}`. */
  async expand(value: unknown): Promise<unknown> {
    if (typeof value === 'string') {
      const values = value.includes('$') ? await this.named(value) : {}
      return value.replace(/\$(?:\{(\w+)\}|(\w+))/g, (whole, braced, bare) => values[braced ?? bare] ?? whole)
    }
    if (Array.isArray(value)) return await Promise.all(value.map((item) => this.expand(item)))
    if (typeof value !== 'object' || value === null) return value
    const members = Object.entries(value).map(async ([name, member]) => [name, await this.expand(member)])
    return Object.fromEntries(await Promise.all(members))
  }

  /** Resolves what has to be looked up, so that `mask` knows the values. Failures are remembered for a minute. */
  async resolve(): Promise<void> {
    await Promise.all([...this.#sources.keys()].map((name) => this.#value(name)))
  }

  /** A text without the values that are known. */
  mask(text: string): string {
    this.#pattern ??= this.#makePattern()
    return text.replace(this.#pattern, hidden)
  }

  /** A JSON value in which no text holds a value that is known, names of members included. */
  maskJson<V>(value: V): V {
    return this.#known().length === 0 ? value : (this.#copy(value) as V)
  }

  /** Masks a text that comes in pieces: a piece that may be the beginning of a value is held back until it is clear. */
  stream(): { add(text: string): string; end(): string } {
    let held = ''
    return {
      add: (text) => {
        const masked = this.mask(held + text)
        const start = this.#openStart(masked)
        held = masked.slice(start)
        return masked.slice(0, start)
      },
      end: () => {
        const rest = held
        held = ''
        return rest
      },
    }
  }

  /** Where the longest end of a text starts that begins a value; its length when none does. */
  #openStart(text: string): number {
    let longest = 0
    for (const value of this.#known()) {
      for (let length = Math.min(value.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(value.slice(0, length))) longest = length
      }
    }
    return text.length - longest
  }

  #known(): string[] {
    return [...new Set([...this.#values.values(), ...this.#others])].filter((v) => v.length >= minLength)
  }

  #copy(value: unknown): unknown {
    if (typeof value === 'string') return this.mask(value)
    if (Array.isArray(value)) return value.map((item) => this.#copy(item))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.mask(name), this.#copy(member)]),
    )
  }

  #makePattern(): RegExp {
    const values = [...new Set([...this.#values.values(), ...this.#others])].filter(
      (v) => v.length >= minLength,
    )
    if (values.length === 0) return /(?!)/
    values.sort((a, b) => b.length - a.length)
    return new RegExp(values.map((value) => RegExp.escape(value)).join('|'), 'g')
  }

  #keep(name: string, value: string): void {
    this.#values.set(name, value)
    this.#pattern = undefined
  }

  async #value(name: string): Promise<string | undefined> {
    const known = this.#values.get(name)
    const source = this.#sources.get(name)
    if (known !== undefined || source?.kind !== 'LookupSecret') return known
    const failedAt = this.#failedAt.get(name)
    if (failedAt !== undefined && this.#now() - failedAt < retryMs) return undefined
    try {
      const response = await this.#fetch(source.url, {
        headers: source.headers,
        signal: AbortSignal.timeout(lookupTimeoutMs),
      })
      if (!response.ok) throw new Error(`status ${response.status}`)
      this.#keep(name, (await response.text()).trim())
    } catch {
      this.#failedAt.set(name, this.#now())
    }
    return this.#values.get(name)
  }
}
