import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, test, vi } from 'vitest'
import type { ControlPlaneStore } from '../../control-plane/control-plane-store.ts'
import type { Faulty, PointFault } from '../../testing/faults/fault-rounds.ts'
import { storeOperations, storeRounds } from '../../testing/faults/store-operations.ts'
import { injectFaults } from '../testing/sqlite-faults.ts'
import { openControlPlaneStore } from './control-plane-store.ts'

vi.setConfig({ testTimeout: 120_000, maxConcurrency: 12 })
const now = () => 1_000_000
const counts: string[] = []
afterAll(() => console.log(`control plane on SQLite, points and rounds: ${counts.join(', ')}`))

describe.concurrent('every statement and commit of a control plane on SQLite', () => {
  test.for(storeOperations)('fails, or is done and reported as failed: $name', async (operation) => {
    await using fixture = await open()
    const { points, rounds } = await storeRounds.runAll(fixture, operation, faultsAt)
    counts.push(`${operation.name} ${points} and ${rounds}`)
  })
})

function faultsAt(sql: string): readonly PointFault[] {
  const atEach = [{ fault: 'fail' }, { fault: 'full' }] as const
  return sql === 'COMMIT' ? [...atEach, { fault: 'lose' }, { fault: 'lose', isLasting: true }] : atEach
}

async function open(): Promise<Faulty<ControlPlaneStore>> {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-faults-'))
  const faults = injectFaults(join(directory, 'control.db'))
  let store = await openControlPlaneStore({ directory, now })
  return {
    faults,
    get opened() {
      return store
    },
    async reopen() {
      await store[Symbol.asyncDispose]()
      store = await openControlPlaneStore({ directory, now })
      return store
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]()
      faults[Symbol.dispose]()
      rmSync(directory, { recursive: true })
    },
  }
}
