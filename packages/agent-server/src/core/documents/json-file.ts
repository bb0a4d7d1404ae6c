import { basename, dirname } from 'node:path'
import { Problem, type ProblemCode } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import {
  type Cipher,
  FileDocumentStore,
  JsonDocument,
  type UnreadableReason,
  unreadableReasons,
} from '@slipway/storage'

/** What to do about a file that cannot be read. */
const nextStep = 'Restore it from a backup, or move it away to go on without what it has.'

/** The sentence about a file that cannot be read, which stays as it is. */
export function unreadableText(path: string, reason: UnreadableReason): string {
  return `${path} cannot be read: ${unreadableReasons[reason]}. ${nextStep}`
}

/** The version of all files; members of a later one would be lost with the next change. */
const schemaVersion = 1

/**
 * A JSON file of this server, base64 when a cipher seals it. An unreadable file is a Problem that names it
 * and the next step; it is never overwritten. The first update creates the directory.
 */
export function openJsonFile<T>(options: {
  readonly path: string
  readonly empty: T
  /** Throws when a value is not what was written. */
  readonly parse: (value: unknown) => T
  readonly cipher?: Cipher
  /** Of the Problem of an unreadable file; `conflict` by default. */
  readonly code?: ProblemCode
  /** What published clients look for in its text. */
  readonly headline?: string
}): JsonDocument<T> {
  const { path, cipher, code = 'conflict', headline, empty, parse } = options
  const encoding = cipher === undefined ? 'utf8' : 'base64'
  return new JsonDocument({
    cipher,
    empty,
    parse: (value) => {
      if (isRecord(value) && Number(value.schema_version) > schemaVersion)
        throw new Error('of a later version')
      return parse(value)
    },
    store: new FileDocumentStore({ directory: dirname(path), encoding }),
    name: basename(path),
    unreadable: (reason) => {
      const text = unreadableText(path, reason)
      return new Problem(code, headline === undefined ? text : `${headline}: ${text}`)
    },
  })
}
