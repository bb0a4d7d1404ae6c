import { invalidInput, type Problem } from '@slipway/protocol'

/**
 * Reads and writes opaque page ids: a prefix that names the format (empty for sandbox specs), and base64url. Clients store page ids, so
 * a change of a format needs a new prefix.
 *
 * Three lists have readable page ids instead, which the wire fixes: conversations (the id without dashes),
 * directories (the name) and bash events (the name of the event's file).
 */
export class PageIdCodec<P> {
  readonly #prefix: string
  readonly #serialize: (position: P) => Buffer | string
  readonly #parse: (bytes: Buffer) => P | undefined

  /** @param parse returns undefined, or throws, for bytes that `serialize` does not return. */
  constructor(
    prefix: string,
    serialize: (position: P) => Buffer | string,
    parse: (bytes: Buffer) => P | undefined,
  ) {
    this.#prefix = prefix
    this.#serialize = serialize
    this.#parse = parse
  }

  encode(position: P): string {
    return this.#prefix + Buffer.from(this.#serialize(position) as string).toString('base64url')
  }

  /** Undefined for a text that `encode` does not return. */
  decode(text: string): P | undefined {
    if (!text.startsWith(this.#prefix)) return undefined
    try {
      const position = this.#parse(Buffer.from(text.slice(this.#prefix.length), 'base64url'))
      return position !== undefined && this.encode(position) === text ? position : undefined
    } catch {
      return undefined
    }
  }
}

/** For a `page_id` that is not of the list: a Problem `invalid` at `["query","page_id"]`. */
export function unknownPageId(): Problem {
  return invalidInput(['query', 'page_id'], 'Unknown page id')
}
