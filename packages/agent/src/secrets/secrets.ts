import type { SecretSource } from '@slipway/protocol'
import { readText } from '@slipway/shared/async'
import { encodedForms, findSecretTexts, Redactor, textForms } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import { type Clock, systemClock } from '@slipway/shared/time'
import { isLoopback, sameOriginFetch } from '@slipway/shared/url'

/** Replaces a secret's value in texts. */
export const secretPlaceholder = '<secret-hidden>'
/** Time before a failed lookup is tried again. */
const retryMs = 60_000
const lookupTimeoutMs = 10_000
const maxLookupBytes = 1024 * 1024
/** At least eight characters without a space, with a digit: not `application/json` or `production`. */
const secretPattern = /^(?=\S*\d)\S{8,}$/

interface SecretsOptions {
  readonly fetch?: typeof fetch | undefined
  readonly clock?: Clock | undefined
  /** The value of a secret that the server itself stores, by its URL path. */
  readonly resolveServerSecret?: ((url: string) => Promise<string | undefined>) | undefined
  /** Where the server itself listens. */
  readonly serverPort?: (() => number | undefined) | undefined
  /** Told once for each failed lookup; `reason` has no secret. */
  readonly onFailure?: ((name: string, reason: string) => void) | undefined
}

/**
 * The secrets of one conversation. Values leave in three ways only: `findMentioned` for the environment of a
 * command that names them, `expand` for the arguments of an MCP call, and `resolveValues` for an external
 * agent.
 */
export class Secrets extends Redactor {
  readonly #sources = new Map<string, SecretSource>()
  readonly #values = new Map<string, string>()
  readonly #failedAt = new Map<string, number>()
  readonly #failures = new Map<string, string>()
  readonly #options: SecretsOptions

  constructor(sources: Readonly<Record<string, SecretSource>> = {}, options: SecretsOptions = {}) {
    super({ mark: secretPlaceholder, forms: secretForms })
    this.#options = options
    this.addSources(sources)
  }

  /** Adds sources; one of the same name is replaced. Its old value stays redacted. */
  addSources(sources: Readonly<Record<string, SecretSource>>): void {
    for (const [name, source] of Object.entries(sources)) {
      this.#sources.set(name, source)
      this.#values.delete(name)
      this.#failedAt.delete(name)
      this.#failures.delete(name)
      if (source.kind === 'StaticSecret' && source.value !== undefined) this.#setValue(name, source.value)
      if (source.kind === 'LookupSecret')
        for (const value of Object.values(source.headers)) this.addValue(value)
    }
  }

  /** Its value stays redacted. */
  removeSource(name: string): void {
    this.#sources.delete(name)
    this.#values.delete(name)
    this.#failedAt.delete(name)
    this.#failures.delete(name)
  }

  /** Redacts a value that is not a secret of the conversation, such as the key of a model. */
  addValue(value: string): void {
    this.add(value)
  }

  /** Redacts the keys, tokens and passwords of a configuration, and texts in it that look like one. */
  addValuesFrom(configuration: unknown): void {
    for (const { text, isNamed } of findSecretTexts(configuration)) {
      if (isNamed || secretPattern.test(text)) this.addValue(text)
    }
  }

  list(): readonly { readonly name: string; readonly description: string | undefined }[] {
    return [...this.#sources].map(([name, { description }]) => ({ name, description }))
  }

  /** The values of the secrets whose name occurs in a text, ignoring case. */
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

  /**
   * Why secrets that a value uses as `$NAME` or `${NAME}` have no value, for the caller; undefined when all
   * of them have one. Speaks of the last lookups: call it after `findMentioned` or `expand`.
   */
  lookupFailure(value: unknown): string | undefined {
    const text = this.#failures.size === 0 ? '' : JSON.stringify(value)
    const failed = [...this.#failures].filter(([name]) =>
      new RegExp(`\\$\\{?${RegExp.escape(name)}(?!\\w)`).test(text),
    )
    return failed.length === 0
      ? undefined
      : failed.map(([name, reason]) => `The secret ${name} could not be fetched: ${reason}.`).join(' ')
  }

  /** Replaces `$NAME` and `${NAME}` by values in the texts of a JSON value. */
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

  /** Looks up all values, so that `redact` knows them. Failures are cached for a minute. */
  async resolveAll(): Promise<void> {
    await Promise.all([...this.#sources.keys()].map((name) => this.#resolveValue(name)))
  }

  /** All values by name: for a program that is not known to name what it needs. */
  async resolveValues(): Promise<Record<string, string>> {
    const names = [...this.#sources.keys()]
    const values = await Promise.all(names.map((name) => this.#resolveValue(name)))
    return Object.fromEntries(
      names.flatMap((name, at): [string, string][] => {
        const value = values[at]
        return value === undefined ? [] : [[name, value]]
      }),
    )
  }

  #setValue(name: string, value: string): void {
    this.#values.set(name, value)
    this.add(value)
  }

  /** Read each time: it costs nothing and may change. Earlier values stay redacted. */
  async #serverValue(name: string, url: string): Promise<string | undefined> {
    let reason = 'this server has no such secret'
    const value = await this.#options.resolveServerSecret?.(url).catch((error: unknown) => {
      reason = failureReason(error)
      return undefined
    })
    if (value === undefined) {
      this.#values.delete(name)
      this.#fail(name, reason)
    } else this.#failures.delete(name)
    if (value === undefined) return undefined
    if (value !== this.#values.get(name)) this.#setValue(name, value)
    return value
  }

  #fail(name: string, reason: string): void {
    const shown = this.redact(reason)
    if (this.#failures.get(name) !== shown) this.#options.onFailure?.(name, shown)
    this.#failures.set(name, shown)
  }

  async #resolveValue(name: string): Promise<string | undefined> {
    const known = this.#values.get(name)
    const source = this.#sources.get(name)
    if (source?.kind === 'LookupSecret' && !URL.canParse(source.url))
      return await this.#serverValue(name, source.url)
    if (source?.kind !== 'LookupSecret') return known
    const ownPath = pathOnServer(source.url, this.#options.serverPort?.())
    const own = ownPath === undefined ? undefined : await this.#serverValue(name, ownPath)
    if (own !== undefined) return own
    if (known !== undefined) return known
    const { fetch: fetchUrl = fetch, clock = systemClock } = this.#options
    const failedAt = this.#failedAt.get(name)
    if (failedAt !== undefined && clock.now() - failedAt < retryMs) return undefined
    try {
      const response = await sameOriginFetch(fetchUrl)(source.url, {
        headers: source.headers,
        signal: clock.timeout(lookupTimeoutMs),
      })
      if (!response.ok) throw new Error(`status ${response.status}`)
      this.#setValue(name, (await readText(response, maxLookupBytes)).trim())
      this.#failures.delete(name)
    } catch (error) {
      this.#failedAt.set(name, clock.now())
      this.#fail(name, failureReason(error))
    }
    return this.#values.get(name)
  }
}

/** A reason in few words: a status, a code of the network, or a message. */
function failureReason(error: unknown): string {
  if (!(error instanceof Error)) return 'it failed'
  const { cause, name, message } = error
  const code: unknown = Object(cause).code
  if (name === 'TimeoutError') return 'no answer came in time'
  return typeof code === 'string' ? code : firstChars(message, 200)
}

/** The path of an address of this server on its machine; undefined for any other address. */
function pathOnServer(url: string, serverPort: number | undefined): string | undefined {
  const { protocol, hostname, port, pathname, search, username } = new URL(url)
  const isHere = protocol === 'http:' && isLoopback(hostname)
  if (!isHere || serverPort === undefined || Number(port || 80) !== serverPort) return undefined
  return search === '' && username === '' ? pathname : undefined
}

/** Encodings of shorter values occur in ordinary texts. */
const minEncodedChars = 8

/** A value as texts show it, and as `base64`, `xxd -p` and URLs do. */
function secretForms(value: string): readonly string[] {
  const texts = textForms(value)
  return value.trim().length < minEncodedChars
    ? texts
    : [...new Set([...texts, ...encodedForms(value.trim())])]
}
