import type { DatabaseSync } from 'node:sqlite'

/**
 * A part of the open transaction, which rolls back its own writes when it throws. Without a transaction,
 * reads of the same state.
 *
 * @param rollBack where a part of the transaction cannot be rolled back, and nothing of it may be committed.
 */
export function inSavepoint<T>(db: DatabaseSync, work: () => T, rollBack: () => void): T {
  try {
    db.exec('SAVEPOINT nested')
    const result = work()
    db.exec('RELEASE nested')
    return result
  } catch (error) {
    try {
      // A full disk rolls back the whole transaction, and the savepoint with it.
      if (db.isOpen && db.isTransaction) db.exec('ROLLBACK TO nested; RELEASE nested')
    } catch {
      rollBack()
    }
    throw error
  }
}
