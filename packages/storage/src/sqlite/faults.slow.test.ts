import { copyFileSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, test, vi } from 'vitest'
import { noFaults, Trace } from '../testing/faults/fault-plan.ts'
import type { Operation, PointFault, Recording } from '../testing/faults/fault-rounds.ts'
import { logOperations, newRoundIds, type RoundIds, setUp } from '../testing/faults/log-operations.ts'
import { logRounds } from '../testing/faults/log-setting.ts'
import { openStorage, type SqliteStorage } from './storage.ts'
import {
  assertWhole,
  type FaultySqliteStorage,
  now,
  openFaultyStorage,
} from './testing/open-faulty-storage.ts'

/** At night every fault at every point; otherwise those that differ there. */
const isThorough = Number(process.env.SLIPWAY_FAULT_ROUNDS ?? 0) > 0
// Concurrent tests share one thread: each lasts as long as several.
vi.setConfig({ testTimeout: isThorough ? 600_000 : 300_000, maxConcurrency: 12 })

const counts: string[] = []
afterAll(() => console.log(`SQLite, points and rounds: ${counts.join(', ')}`))

describe.concurrent('every statement and commit of a log on SQLite', () => {
  test.for(logOperations)('fails, or is done and reported as failed: $name', async (operation) => {
    await using fixture = await openFaultyStorage()
    const { points, rounds } = await logRounds.runAll(fixture, operation, faultsAt)
    counts.push(`${operation.name} ${points} and ${rounds}`)
    await fixture.verify()
  })

  test.for(logOperations)('is the last one before a kill: $name', async (operation) => {
    await using fixture = await openFaultyStorage()
    const recording = await logRounds.record(fixture, operation)
    await cutEverywhere(fixture, operation, recording)
  })
})

function faultsAt(sql: string): readonly PointFault[] {
  const atEach = [{ fault: 'fail' }] as const
  const atCommit = [...atEach, { fault: 'lose' }, { fault: 'lose', isLasting: true }] as const
  if (isThorough) return [...atCommit, { fault: 'full' }]
  return sql.startsWith('COMMIT') ? atCommit : sql.startsWith('INSERT') ? [{ fault: 'full' }] : atEach
}

/** The operation once, with copies of the files: each is what a kill would leave at a point. */
async function cutEverywhere(
  { opened, faults, directory }: FaultySqliteStorage,
  operation: Operation<SqliteStorage, RoundIds>,
  recording: Recording,
): Promise<void> {
  const ids = newRoundIds()
  await setUp(opened, ids)
  const copies: { readonly path: string; readonly sql: string }[] = []
  const trace = new Trace()
  faults.plan = {
    next(sql) {
      const isNew = isCut(sql, trace.points.at(-1))
      trace.next(sql)
      return isNew ? 'cut' : undefined
    },
  }
  faults.onCut = () => {
    const path = copyFiles(directory, join(directory, `cut-${copies.length}`))
    copies.push({ path, sql: trace.points.at(-1) ?? '' })
  }
  await operation.run(opened, ids)
  await trace.untilQuiet()
  faults.plan = noFaults
  for (const [at, { path, sql }] of copies.entries()) {
    const label = `${operation.name}, killed at ${at}: ${sql}`
    {
      await using reopened = await openStorage({ directory: path, now })
      await logRounds.assertState(reopened, ids, { allowed: [recording.before, recording.after], label })
      await logRounds.repeatAndGoOn(reopened, operation, { recording, ids, label })
    }
    assertWhole(join(path, 'log.db'))
  }
}

/** Files change at commits. */
function isCut(sql: string, previous: string | undefined): boolean {
  return isThorough || [sql, previous].some((each) => each?.startsWith('COMMIT'))
}

/** Without the index of the write-ahead log, which the next process builds again. */
function copyFiles(from: string, to: string): string {
  mkdirSync(to)
  for (const { name } of readdirSync(from, { withFileTypes: true }).filter((entry) => entry.isFile()))
    if (!name.endsWith('-shm')) copyFileSync(join(from, name), join(to, name))
  return to
}
