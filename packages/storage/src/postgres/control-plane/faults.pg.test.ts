import { afterAll, test, vi } from 'vitest'
import type { ControlPlaneStore } from '../../control-plane/control-plane-store.ts'
import type { Faulty, PointFault } from '../../testing/faults/fault-rounds.ts'
import { storeOperations, storeRounds } from '../../testing/faults/store-operations.ts'
import { DatabaseProxy } from '../testing/database-proxy.ts'
import { createTestSchema, describePostgres } from '../testing/test-database.ts'
import { openPostgresControlPlaneStore } from './control-plane-store.ts'

vi.setConfig({ testTimeout: 300_000, maxConcurrency: 6 })
/** The longest that a client waits for an answer, above what a busy machine takes for one. */
const queryMs = 2_000
/** A lease whose acquisition had no answer is given back at the next renewal. */
const leaseTimes = { leaseMs: 8_000, renewMs: 200 }
const counts: string[] = []
afterAll(() => console.log(`control plane on PostgreSQL, points and rounds: ${counts.join(', ')}`))

describePostgres.concurrent('every statement and commit of a control plane on PostgreSQL', () => {
  test.for(storeOperations)(
    'fails, is cut, done late, or done and reported as failed: $name',
    async (operation) => {
      await using fixture = await open()
      const { points, rounds } = await storeRounds.runAll(fixture, operation, faultsAt)
      counts.push(`${operation.name} ${points} and ${rounds}`)
    },
  )
})

function faultsAt(sql: string): readonly PointFault[] {
  if (!sql.startsWith('COMMIT')) return [{ fault: 'cut' }, { fault: 'fail' }]
  return [{ fault: 'lose' }, { fault: 'late' }, { fault: 'hang' }]
}

async function open(): Promise<Faulty<ControlPlaneStore>> {
  const schema = await createTestSchema()
  const proxy = await DatabaseProxy.open(schema.url)
  const openStore = () =>
    openPostgresControlPlaneStore({ url: proxy.url(queryMs), now: () => 1_000_000, leaseTimes })
  let store = await openStore()
  return {
    faults: proxy,
    get opened() {
      return store
    },
    async reopen() {
      await store[Symbol.asyncDispose]()
      store = await openStore()
      return store
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]()
      await proxy[Symbol.asyncDispose]()
      await schema[Symbol.asyncDispose]()
    },
  }
}
