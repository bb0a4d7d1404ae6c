import { randomBytes } from 'node:crypto'
import { type Instant, type LogFunction, must, type Problem } from '@slipway/protocol'
import type { ControlPlaneStore } from '../../control-plane/control-plane-store.ts'
import { openRows } from '../../control-plane/stores/open-rows.ts'
import { PostgresDatabase } from '../database/database.ts'
import { prepareDatabase } from '../database/prepare-database.ts'
import { PostgresSession } from '../rows/session.ts'
import { type LeaseTimes, PostgresLeases } from './leases.ts'

const insertIdSql = 'INSERT INTO ledger SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM ledger)'

interface PostgresControlPlaneOptions {
  /** `postgres://user:password@host/database?sslmode=verify-full`. */
  readonly url: string
  readonly log?: LogFunction
  /** The clock, in microseconds. */
  readonly now?: () => Instant
  readonly leaseTimes?: LeaseTimes | undefined
}

interface PostgresControlPlaneStore extends ControlPlaneStore {
  /** Why the database cannot be used at the moment. */
  readonly problem: Problem | undefined
}

/** Opens the control plane of a database, and creates or migrates its tables. Any number of servers may. */
export async function openPostgresControlPlaneStore({
  url,
  log = () => {},
  now = () => Date.now() * 1000,
  leaseTimes,
}: PostgresControlPlaneOptions): Promise<PostgresControlPlaneStore> {
  const db = new PostgresDatabase(url, log)
  try {
    await prepareDatabase(db, log)
    const leases = await PostgresLeases.open(db, log, leaseTimes)
    const { changes } = leases
    await changes.write((session) => session.run(insertIdSql, [randomBytes(16).toString('hex')]))
    const [ledger] = await db.query<[string]>('SELECT id FROM ledger')
    return {
      id: must(ledger, 'the id of the store')[0],
      ...openRows(new PostgresSession(db, changes), now),
      leases,
      overwriteRemoved: async () => {},
      get problem() {
        return db.problem
      },
      async [Symbol.asyncDispose]() {
        await leases[Symbol.asyncDispose]()
        await db.close()
      },
    }
  } catch (error) {
    await db.close()
    throw error
  }
}
