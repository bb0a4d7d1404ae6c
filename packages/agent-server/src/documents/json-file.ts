import { basename, dirname } from 'node:path'
import { Problem } from '@slipway/protocol'
import { type Cipher, FileDocumentStore, JsonDocument } from '@slipway/storage'

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
  /** The Problem of an unreadable file; a `conflict` unless passed. */
  readonly unreadable?: () => Problem
}): JsonDocument<T> {
  const { path, cipher, unreadable = unreadableFile, ...rest } = options
  const encoding = cipher === undefined ? 'utf8' : 'base64'
  return new JsonDocument({
    ...rest,
    cipher,
    store: new FileDocumentStore({ directory: dirname(path), encoding }),
    name: basename(path),
    unreadable,
  })
}

function unreadableFile(): Problem {
  return new Problem('conflict', 'What is stored here is damaged or was sealed with another key.')
}
