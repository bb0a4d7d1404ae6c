import { basename, dirname } from 'node:path'
import { Problem } from '@slipway/protocol'
import { type Cipher, FileDocumentStore, JsonDocument } from '@slipway/storage'

const unreadableText = 'What is stored here is damaged or was sealed with another key.'

/**
 * A JSON file of this server, base64 when a cipher seals it. An unreadable file is a Problem `conflict`. The
 * first update creates the directory.
 */
export function openJsonFile<T>(options: {
  readonly path: string
  readonly empty: T
  /** Throws when a value is not what was written. */
  readonly parse: (value: unknown) => T
  readonly cipher?: Cipher
  /** The Problem of an unreadable file, or the text of a `conflict`. */
  readonly unreadable?: (() => Problem) | string
}): JsonDocument<T> {
  const { path, cipher, unreadable = unreadableText, ...rest } = options
  const encoding = cipher === undefined ? 'utf8' : 'base64'
  return new JsonDocument({
    ...rest,
    cipher,
    store: new FileDocumentStore({ directory: dirname(path), encoding }),
    name: basename(path),
    unreadable: typeof unreadable === 'string' ? () => new Problem('conflict', unreadable) : unreadable,
  })
}
