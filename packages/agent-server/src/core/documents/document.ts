import { Problem, type ProblemCode } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import {
  type Cipher,
  type DocumentStore,
  JsonDocument,
  type UnreadableReason,
  unreadableReasons,
} from '@slipway/storage'
import type { ServerDocuments } from './configured-documents.ts'

/** The version of all documents; members of a later one would be lost with the next change. */
const schemaVersion = 1

export interface JsonForm<T> {
  readonly empty: T
  /** Throws when a value is not what was written. */
  readonly parse: (value: unknown) => T
  readonly cipher?: Cipher
  /** Of the Problem of an unreadable one; `conflict` by default. */
  readonly code?: ProblemCode
  /** What published clients look for in its text. */
  readonly headline?: string
}

/** The sentence about a document that cannot be read, which stays as it is. */
export function unreadableDocument(
  documents: ServerDocuments,
  name: string,
  reason: UnreadableReason,
): string {
  const file = documents.fileOf?.(name)
  if (file !== undefined)
    return `${file} cannot be read: ${unreadableReasons[reason]}. Fix or remove it, and restart the server.`
  return `The stored document ${name} cannot be read: ${unreadableReasons[reason]}. Restore it from a backup with "slipway documents put", or continue without it after "slipway documents rm ${name}".`
}

/**
 * A JSON document of this server in its storage, sealed with a cipher. `name` is that of the file which
 * earlier versions had. An unreadable one is a Problem that names it and the next step; it is never
 * overwritten.
 */
export function openDocument<T>(
  documents: ServerDocuments,
  name: string,
  form: JsonForm<T>,
): JsonDocument<T> {
  const describe = (reason: UnreadableReason) => unreadableDocument(documents, name, reason)
  return openJson({ store: documents, name, describe }, form)
}

/** @param describe the sentence about one that cannot be read. */
export function openJson<T>(
  place: {
    readonly store: DocumentStore
    readonly name: string
    readonly describe: (reason: UnreadableReason) => string
  },
  { cipher, code = 'conflict', headline, empty, parse }: JsonForm<T>,
): JsonDocument<T> {
  const { store, name, describe } = place
  return new JsonDocument({
    ...{ store, name, cipher, empty },
    parse: (value) => {
      if (isRecord(value) && Number(value.schema_version) > schemaVersion)
        throw new Error('of a later version')
      return parse(value)
    },
    unreadable: (reason) => {
      const text = describe(reason)
      return new Problem(code, headline === undefined ? text : `${headline}: ${text}`)
    },
  })
}
