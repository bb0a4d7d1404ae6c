import type { PostgresDatabase } from './database.ts'

interface Use {
  readonly epoch: number
  readonly isControlPlane: boolean
}

export async function findUse(db: PostgresDatabase): Promise<Use> {
  const sql = 'SELECT epoch, EXISTS (SELECT 1 FROM ledger) FROM owner'
  const [row] = await db.query<[number, boolean]>(sql)
  return { epoch: row?.[0] ?? 0, isControlPlane: row?.[1] ?? false }
}

/** The logs of an agent server and those of a control plane have tables of the same names. */
export function assertUse(used: Use, isControlPlane: boolean): void {
  if (used.isControlPlane && !isControlPlane)
    throw new Error('The database belongs to a sandbox server: use another database, or another schema')
  if (isControlPlane && used.epoch > 0)
    throw new Error('The database belongs to an agent server: use another database, or another schema')
}
