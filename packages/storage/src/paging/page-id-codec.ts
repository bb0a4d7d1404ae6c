import { invalidInput, type Problem } from '@slipway/protocol'

/**
 * Reads and writes opaque page ids: a prefix that names the format (empty for sandbox specs), and base64url.
 * Clients store page ids, so a change of a format needs a new prefix.
 *
 * Three lists have readable page ids instead, which the wire fixes: conversations (the id without dashes),
 * directories (the name) and bash events (the name of the event's file).
 */
export function createPageIdCodec<P>(
  prefix: string,
  serialize: (position: P) => Buffer | string,
  /** Returns undefined, or throws, for bytes that `serialize` does not return. */
  parse: (bytes: Buffer) => P | undefined,
) {
  const encode = (position: P) => prefix + Buffer.from(serialize(position) as string).toString('base64url')
  /** Undefined for a text that `encode` does not return. */
  const decode = (text: string): P | undefined => {
    if (!text.startsWith(prefix)) return undefined
    try {
      const position = parse(Buffer.from(text.slice(prefix.length), 'base64url'))
      return position !== undefined && encode(position) === text ? position : undefined
    } catch {
      return undefined
    }
  }
  return { encode, decode }
}

/** For a `page_id` that is not of the list: a Problem `invalid` at `["query","page_id"]`. */
export function unknownPageId(): Problem {
  return invalidInput(['query', 'page_id'], 'Unknown page id')
}
