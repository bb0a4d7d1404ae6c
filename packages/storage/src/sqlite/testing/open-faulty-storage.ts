import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Faulty } from '../../testing/faults/fault-rounds.ts'
import { verifyLog } from '../maintenance/verify-log.ts'
import { openStorage, type SqliteStorage } from '../storage.ts'
import { injectFaults } from './sqlite-faults.ts'

export interface FaultySqliteStorage extends Faulty<SqliteStorage> {
  readonly directory: string
  readonly faults: ReturnType<typeof injectFaults>
  /** Closes the storage and verifies the file. */
  verify(): Promise<void>
}

/** A clock that does not move: times of the log come from its order. */
export const now = () => 1_000_000

/** A storage in its own directory, whose log asks a plan. @param isFast of `injectFaults`. */
export async function openFaultyStorage(isFast = false): Promise<FaultySqliteStorage> {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-faults-'))
  const path = join(directory, 'log.db')
  const faults = injectFaults(path, isFast)
  let storage = await openStorage({ directory, now })
  return {
    faults,
    directory,
    get opened() {
      return storage
    },
    async reopen() {
      await storage[Symbol.asyncDispose]()
      storage = await openStorage({ directory, now })
      return storage
    },
    async verify() {
      await storage[Symbol.asyncDispose]()
      assertWhole(path)
    },
    async [Symbol.asyncDispose]() {
      await storage[Symbol.asyncDispose]()
      faults[Symbol.dispose]()
      rmSync(directory, { recursive: true })
    },
  }
}

/** Every event is right and in its place, and nothing is left behind. */
export function assertWhole(path: string): void {
  const { damaged, records, problems } = verifyLog(path, { isThorough: true })
  expect({ damaged, records, problems }).toEqual({ damaged: [], records: [], problems: [] })
}
