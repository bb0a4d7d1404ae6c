import type { SecretSource } from '@slipway/protocol'
import { findSecretTexts } from '@slipway/shared/redaction'

/** What stands where a secret's value stood. */
export const secretPlaceholder = '<secret-hidden>'
/** Values shorter than this are not hidden: every text would be shredded. */
const minValueLength = 4
/** A lookup that failed is not tried again before this. */
const retryMs = 60_000
const lookupTimeoutMs = 10_000
/** Of at least eight characters without a space, with a digit; `application/json` and `production` are not. */
const secretPattern = /^(?=\S*\d)\S{8,}$/

/**
 * The secrets of one conversation. Values leave by three ways only: `named` for the environment of a command that names
 * them, `expand` for the arguments of an MCP call, and never in anything that was masked.
 */
export class Secrets {
  readonly #sources = new Map<string, SecretSource>()
  readonly #values = new Map<string, string>()
  readonly #failedAt = new Map<string, number>()
  /** Values of no name that have to be hidden too, such as the key of a model. */
  readonly #extraValues = new Set<string>()
  readonly #fetch: typeof fetch
  readonly #resolveServerSecret: (url: string) => Promise<string | undefined>
  readonly #now: () => number
  #pattern: RegExp | undefined
  #sortedForms: readonly string[] | undefined

  constructor(
    sources: Readonly<Record<string, SecretSource>> = {},
    options: {
      readonly fetch?: typeof fetch
      readonly now?: () => number
      /** The value of a secret of the server itself, by its address without a host. */
      readonly resolveServerSecret?: (url: string) => Promise<string | undefined>
    } = {},
  ) {
    this.#fetch = options.fetch ?? fetch
    this.#resolveServerSecret = options.resolveServerSecret ?? (async () => undefined)
    this.#now = options.now ?? Date.now
    this.add(sources)
  }

  /** Adds sources; one of the same name is replaced (its old value stays hidden). */
  add(sources: Readonly<Record<string, SecretSource>>): void {
    for (const [name, source] of Object.entries(sources)) {
      const old = this.#values.get(name)
      if (old !== undefined) this.addValue(old)
      this.#sources.set(name, source)
      this.#values.delete(name)
      this.#failedAt.delete(name)
      if (source.kind === 'StaticSecret' && source.value !== undefined) this.#setValue(name, source.value)
      if (source.kind === 'LookupSecret')
        for (const value of Object.values(source.headers)) this.addValue(value)
    }
  }

  /** Hides a value that is no secret of the conversation. */
  addValue(value: string): void {
    if (value.length < minValueLength) return
    this.#extraValues.add(value)
    this.#invalidate()
  }

  /** Hides the keys, tokens and passwords of a configuration; of its environments and headers what looks like one. */
  addValuesFrom(configuration: unknown): void {
    for (const { text, isNamed: hasSecretName } of findSecretTexts(configuration)) {
      if (hasSecretName || secretPattern.test(text)) this.addValue(text)
    }
  }

  /** Names and descriptions, for the model to know what there is. */
  list(): readonly { readonly name: string; readonly description: string | undefined }[] {
    return [...this.#sources].map(([name, { description }]) => ({ name, description }))
  }

  /** The values of the secrets whose name occurs in a text, in any case. */
  async findMentioned(text: string): Promise<Record<string, string>> {
    const lowerCaseText = text.toLowerCase()
    const found: Record<string, string> = {}
    for (const name of this.#sources.keys()) {
      if (!lowerCaseText.includes(name.toLowerCase())) continue
      const value = await this.#resolveValue(name)
      if (value !== undefined) found[name] = value
    }
    return found
  }

  /** Puts values where a text of a JSON value says `$NAME` or `${NAME}`. */
  async expand(value: unknown): Promise<unknown> {
    if (typeof value === 'string') {
      const values = value.includes('$') ? await this.findMentioned(value) : {}
      return value.replace(
        /\$(?:\{(\w+)\}|(\w+))/g,
        (whole, braced, unbraced) => values[braced ?? unbraced] ?? whole,
      )
    }
    if (Array.isArray(value)) return await Promise.all(value.map((item) => this.expand(item)))
    if (typeof value !== 'object' || value === null) return value
    const members = Object.entries(value).map(async ([name, member]) => [name, await this.expand(member)])
    return Object.fromEntries(await Promise.all(members))
  }

  /** Resolves what has to be looked up, so that `mask` knows the values. Failures are remembered for a minute. */
  async resolveAll(): Promise<void> {
    await Promise.all([...this.#sources.keys()].map((name) => this.#resolveValue(name)))
  }

  /** A text without the values that are known. */
  redact(text: string): string {
    this.#pattern ??= this.#makePattern()
    return text.replace(this.#pattern, secretPlaceholder)
  }

  /** A JSON value in which no text holds a value that is known, names of members included. */
  redactJson<V>(value: V): V {
    return this.hasValues ? (this.#redactValue(value) as V) : value
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
    let buffered = ''
    const flush = (length: number) => {
      const piece = this.redact(buffered.slice(0, length))
      buffered = buffered.slice(length)
      return piece
    }
    return {
      add: (text) => {
        buffered += text
        return flush(this.#decidedLength(buffered))
      },
      end: () => flush(buffered.length),
    }
  }

  /** How much of the beginning of a text can be masked without knowing what comes: no value reaches beyond it. */
  #decidedLength(text: string): number {
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
    if (this.#sortedForms !== undefined) return this.#sortedForms
    const values = [...this.#values.values(), ...this.#extraValues].flatMap((value) => [value, value.trim()])
    const forms = values
      .filter((value) => value.length >= minValueLength)
      .flatMap((value) => [value, jsonText(value), jsonText(jsonText(value))])
    this.#sortedForms = [...new Set(forms)].sort((a, b) => b.length - a.length)
    return this.#sortedForms
  }

  #redactValue(value: unknown): unknown {
    if (typeof value === 'string') return this.redact(value)
    if (Array.isArray(value)) return value.map((item) => this.#redactValue(item))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.redact(name), this.#redactValue(member)]),
    )
  }

  #makePattern(): RegExp {
    const forms = this.#forms()
    if (forms.length === 0) return /(?!)/
    return new RegExp(forms.map((form) => RegExp.escape(form)).join('|'), 'g')
  }

  #setValue(name: string, value: string): void {
    this.#values.set(name, value)
    this.#invalidate()
  }

  #invalidate(): void {
    this.#pattern = undefined
    this.#sortedForms = undefined
  }

  /** Asked for each time, because it costs nothing and changes; what it was stays hidden. */
  async #serverValue(name: string, url: string): Promise<string | undefined> {
    const previous = this.#values.get(name)
    const value = await this.#resolveServerSecret(url).catch(() => undefined)
    if (value === previous) return value
    if (previous !== undefined) this.addValue(previous)
    this.#values.delete(name)
    if (value === undefined) this.#invalidate()
    else this.#setValue(name, value)
    return value
  }

  async #resolveValue(name: string): Promise<string | undefined> {
    const known = this.#values.get(name)
    const source = this.#sources.get(name)
    if (source?.kind === 'LookupSecret' && !URL.canParse(source.url))
      return await this.#serverValue(name, source.url)
    if (known !== undefined || source?.kind !== 'LookupSecret') return known
    const failedAt = this.#failedAt.get(name)
    if (failedAt !== undefined && this.#now() - failedAt < retryMs) return undefined
    try {
      const response = await this.#fetch(source.url, {
        headers: source.headers,
        signal: AbortSignal.timeout(lookupTimeoutMs),
      })
      if (!response.ok) throw new Error(`status ${response.status}`)
      this.#setValue(name, (await response.text()).trim())
    } catch {
      this.#failedAt.set(name, this.#now())
    }
    return this.#values.get(name)
  }
}

/** A text as JSON writes it, without the quotes. */
function jsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
