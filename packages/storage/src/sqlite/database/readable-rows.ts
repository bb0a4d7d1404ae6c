import type { Database, Value } from './database.ts'
import { isDamaged } from './storage-failure.ts'

/** The index has them. */
const ordinalsSql = 'SELECT ordinal FROM conversation INDEXED BY conversation_created WHERE is_visible = 1'

/**
 * Rows of a query over `conversation`, without those of records on damaged pages. `sql` gets a condition,
 * whose value is the last.
 */
export function readableRows<R extends readonly unknown[]>(
  db: Database,
  sql: (condition: string) => string,
  ...values: Value[]
): R[] {
  try {
    return db.all<R>(sql('?'), ...values, 1)
  } catch (error) {
    if (!isDamaged(error)) throw error
  }
  const single = sql('conversation.ordinal = ?')
  return db.all<[number]>(ordinalsSql).flatMap(([ordinal]) => {
    try {
      return db.all<R>(single, ...values, ordinal)
    } catch (error) {
      if (!isDamaged(error)) throw error
      return []
    }
  })
}

/** The sum of the first columns. */
export function sumRows(rows: readonly (readonly [number])[]): number {
  return rows.reduce((sum, [value]) => sum + value, 0)
}
