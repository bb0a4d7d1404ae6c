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
  readonly #own: (url: string) => Promise<string | undefined>
  readonly #now: () => number
  #pattern: RegExp | undefined
  #sorted: readonly string[] | undefined

  constructor(
    sources: Readonly<Record<string, SecretSource>> = {},
    options: {
      readonly fetch?: typeof fetch
      readonly now?: () => number
      /** The value of a secret of the server itself, by its address without a host. */
      readonly own?: (url: string) => Promise<string | undefined>
    } = {},
  ) {
    this.#fetch = options.fetch ?? fetch
    this.#own = options.own ?? (async () => undefined)
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
    this.#forget()
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
    return this.hasValues ? (this.#copy(value) as V) : value
  }

  /** Something is known that has to be hidden. */
  get hasValues(): boolean {
    return this.#forms().length > 0
  }

  /**
   * Masks a text that comes in pieces: all pieces together are the whole text as `mask` gives it. What may be the beginning
   * of a value, or of a longer one, is held back until it is clear.
   */
  stream(): { add(text: string): string; end(): string } {
    let held = ''
    const take = (length: number) => {
      const piece = this.mask(held.slice(0, length))
      held = held.slice(length)
      return piece
    }
    return {
      add: (text) => {
        held += text
        return take(this.#clear(held))
      },
      end: () => take(held.length),
    }
  }

  /** How much of the beginning of a text can be masked without knowing what comes: no value reaches beyond it. */
  #clear(text: string): number {
    let length = this.#openStart(text)
    for (;;) {
      const starts = this.#forms().map((form) => text.indexOf(form, Math.max(0, length - form.length + 1)))
      const start = Math.min(...starts.filter((at) => at !== -1), length)
      if (start === length) return length
      length = start
    }
  }

  /** Where the longest end of a text starts that begins a value; its length when none does. */
  #openStart(text: string): number {
    let longest = 0
    for (const form of this.#forms()) {
      for (let length = Math.min(form.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(form.slice(0, length))) longest = length
      }
    }
    return text.length - longest
  }

  /** What is looked for, the longest first: each value, also without blanks around it, in JSON text, and in JSON text in it. */
  #forms(): readonly string[] {
    if (this.#sorted !== undefined) return this.#sorted
    const values = [...this.#values.values(), ...this.#others].flatMap((value) => [value, value.trim()])
    const forms = values
      .filter((value) => value.length >= minLength)
      .flatMap((value) => [value, inJson(value), inJson(inJson(value))])
    this.#sorted = [...new Set(forms)].sort((a, b) => b.length - a.length)
    return this.#sorted
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
    const forms = this.#forms()
    if (forms.length === 0) return /(?!)/
    return new RegExp(forms.map((form) => RegExp.escape(form)).join('|'), 'g')
  }

  #keep(name: string, value: string): void {
    this.#values.set(name, value)
    this.#forget()
  }

  #forget(): void {
    this.#pattern = undefined
    this.#sorted = undefined
  }

  /** Asked for each time, because it costs nothing and changes; what it was stays hidden. */
  async #ownValue(name: string, url: string): Promise<string | undefined> {
    const before = this.#values.get(name)
    const value = await this.#own(url).catch(() => undefined)
    if (value === before) return value
    if (before !== undefined) this.hide(before)
    this.#values.delete(name)
    if (value === undefined) this.#forget()
    else this.#keep(name, value)
    return value
  }

  async #value(name: string): Promise<string | undefined> {
    const known = this.#values.get(name)
    const source = this.#sources.get(name)
    if (source?.kind === 'LookupSecret' && !URL.canParse(source.url))
      return await this.#ownValue(name, source.url)
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

/** A text as JSON writes it, without the quotes. */
function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
