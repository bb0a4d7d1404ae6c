import { basename, dirname } from 'node:path'
import {
  FileDocumentStore,
  type JsonDocument,
  type UnreadableReason,
  unreadableReasons,
} from '@slipway/storage'
import { type JsonForm, openJson } from './document.ts'

/** What to do about a file that cannot be read. */
const nextStep = 'Restore it from a backup, or move it away to continue without what it has.'

/** The sentence about a file that cannot be read, which stays as it is. */
export function unreadableFile(path: string, reason: UnreadableReason): string {
  return `${path} cannot be read: ${unreadableReasons[reason]}. ${nextStep}`
}

/**
 * A readable JSON file beside what it describes, as the index of a folder of extensions. An unreadable file
 * is a Problem that names it and the next step; it is never overwritten. The first update creates the
 * directory.
 */
export function openJsonFile<T>({
  path,
  ...form
}: Omit<JsonForm<T>, 'cipher'> & { readonly path: string }): JsonDocument<T> {
  const store = new FileDocumentStore({ directory: dirname(path), encoding: 'utf8' })
  return openJson({ store, name: basename(path), describe: (reason) => unreadableFile(path, reason) }, form)
}
