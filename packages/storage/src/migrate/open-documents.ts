import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { DocumentStore } from '../documents/document-store.ts'
import { openStorage } from '../sqlite/storage.ts'

/** The documents of an agent server, for a command. */
export interface OpenedDocuments extends AsyncDisposable {
  readonly documents: DocumentStore
}

/**
 * Opens the documents of a data directory that no server uses, or of a database (`postgres://…`), also while
 * servers share it. Rejects with a plain Error.
 */
export async function openDocuments(place: string): Promise<OpenedDocuments> {
  if (/^postgres(ql)?:\/\//.test(place)) {
    const { openPostgresDocuments } = await import('../postgres/documents/open-documents.ts')
    return await openPostgresDocuments(place)
  }
  if (!existsSync(join(place, 'log.db'))) throw new Error(`${place} has no log.db`)
  return await openStorage({ directory: place })
}
