import { afterAll, test, vi } from 'vitest'
import type { Faulty, PointFault } from '../testing/faults/fault-rounds.ts'
import { logOperations } from '../testing/faults/log-operations.ts'
import { logRounds } from '../testing/faults/log-setting.ts'
import { openPostgresStorage, type PostgresStorage } from './storage.ts'
import { DatabaseProxy } from './testing/database-proxy.ts'
import { createTestSchema, describePostgres } from './testing/test-database.ts'

/** At night every fault at every point; otherwise those that differ there. */
const isThorough = Number(process.env.SLIPWAY_FAULT_ROUNDS ?? 0) > 0
vi.setConfig({ testTimeout: isThorough ? 600_000 : 300_000, maxConcurrency: 6 })

/** The longest that a client waits for an answer, above what a busy machine takes for one. */
const queryMs = 2_000
const counts: string[] = []
afterAll(() => console.log(`PostgreSQL, points and rounds: ${counts.join(', ')}`))

describePostgres.concurrent('every statement and commit of a log on PostgreSQL', () => {
  test.for(logOperations)(
    'fails, is cut, done late, or done and reported as failed: $name',
    async (operation) => {
      await using fixture = await open()
      const { points, rounds } = await logRounds.runAll(fixture, operation, faultsAt)
      counts.push(`${operation.name} ${points} and ${rounds}`)
    },
  )
})

function faultsAt(sql: string): readonly PointFault[] {
  const atCommit = [
    { fault: 'lose' },
    { fault: 'lose', isLasting: true },
    { fault: 'late' },
    { fault: 'hang' },
    { fault: 'cut' },
  ] as const
  if (isThorough) return [{ fault: 'fail' }, ...atCommit]
  return sql.startsWith('COMMIT') ? atCommit : [{ fault: sql.startsWith('SELECT') ? 'cut' : 'late' }]
}

/** A storage in its own schema, whose statements ask a plan. */
async function open(): Promise<Faulty<PostgresStorage>> {
  const schema = await createTestSchema()
  const proxy = await DatabaseProxy.open(schema.url)
  const openStorage = () =>
    openPostgresStorage({ url: proxy.url(queryMs), directUrl: schema.url, now: () => 1_000_000 })
  let storage = await openStorage()
  return {
    faults: proxy,
    get opened() {
      return storage
    },
    async reopen() {
      await storage[Symbol.asyncDispose]()
      storage = await openStorage()
      return storage
    },
    async [Symbol.asyncDispose]() {
      await storage[Symbol.asyncDispose]()
      await proxy[Symbol.asyncDispose]()
      await schema[Symbol.asyncDispose]()
    },
  }
}
