import type { DocumentStore } from '../../documents/document-store.ts'
import { PostgresDatabase, type Session } from '../database/database.ts'
import { lockName } from '../database/lock-name.ts'
import { prepareDatabase } from '../database/prepare-database.ts'
import { PostgresDocumentStore } from './documents.ts'

/** Opens the documents of a database alone, beside the servers that use it. */
export async function openPostgresDocuments(
  url: string,
): Promise<AsyncDisposable & { readonly documents: DocumentStore }> {
  const db = new PostgresDatabase(url, () => {})
  try {
    await prepareDatabase(db, () => {})
  } catch (error) {
    await db.close()
    throw error
  }
  const beginSql = `SELECT pg_advisory_xact_lock(${lockName('documents')})`
  return {
    documents: new PostgresDocumentStore(db, {
      write: (work: (session: Session) => Promise<void>) => db.transaction(beginSql, work),
    }),
    [Symbol.asyncDispose]: () => db.close(),
  }
}
