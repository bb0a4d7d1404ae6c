import { DocumentRows } from '../../control-plane/stores/documents.ts'
import type { DocumentStore } from '../../documents/document-store.ts'
import { assertUse, findUse } from '../database/assert-use.ts'
import { PostgresDatabase, type Session } from '../database/database.ts'
import { lockName } from '../database/lock-name.ts'
import { prepareDatabase } from '../database/prepare-database.ts'
import { PostgresSession } from '../rows/session.ts'

/** Opens the documents of a database alone, beside the servers that use it. */
export async function openPostgresDocuments(
  url: string,
): Promise<AsyncDisposable & { readonly documents: DocumentStore }> {
  const db = new PostgresDatabase(url, () => {})
  try {
    await prepareDatabase(db, () => {})
    assertUse(await findUse(db), false)
  } catch (error) {
    await db.close()
    throw error
  }
  const beginSql = `SELECT pg_advisory_xact_lock(${lockName('documents')})`
  return {
    documents: new DocumentRows(
      new PostgresSession(db, {
        write: <T>(work: (session: Session) => Promise<T>) => db.transaction<T, []>(beginSql, work),
      }),
    ),
    [Symbol.asyncDispose]: () => db.close(),
  }
}
