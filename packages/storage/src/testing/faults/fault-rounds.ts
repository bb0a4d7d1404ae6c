import { setTimeout as pause } from 'node:timers/promises'
import { Problem } from '@slipway/protocol'
import { expect } from 'vitest'
import type { Storage } from '../../conversations/storage.ts'
import type { OpenedStorage } from '../fixtures.ts'
import { type Fault, FaultAt, type FaultSource, noFaults, Trace } from './fault-plan.ts'
import { appendLast, type LogOperation, newRoundIds, type RoundIds, setUp } from './log-operations.ts'
import { type LogState, observeLog, searchTexts } from './observe-log.ts'

/** A storage whose statements and commits ask a plan. */
export interface FaultyStorage extends OpenedStorage {
  readonly faults: FaultSource
}

/** What an operation does without a fault: its points, and what readers see. */
export interface Recording {
  readonly points: readonly string[]
  readonly before: LogState
  readonly after: LogState
  /** With one more event in each conversation. */
  readonly last: LogState
  /** What a search of texts finds then. */
  readonly found: readonly string[]
}

const retryMs = 10
const patienceMs = 20_000

/** Runs an operation twice: what is made once, like numbers of kinds, is no part of the recording. */
export async function record(fixture: FaultyStorage, operation: LogOperation): Promise<Recording> {
  await recordOnce(fixture, operation)
  return await recordOnce(fixture, operation)
}

async function recordOnce({ storage, faults }: FaultyStorage, operation: LogOperation): Promise<Recording> {
  const ids = newRoundIds()
  await setUp(storage, ids)
  const before = await observeLog(storage, ids)
  const trace = new Trace()
  faults.plan = trace
  await operation.run(storage, ids)
  await trace.untilQuiet()
  faults.plan = noFaults
  const after = await observeLog(storage, ids)
  await appendLast(storage, ids)
  const last = await observeLog(storage, ids)
  return { points: trace.points, before, after, last, found: await searchTexts(storage, ids) }
}

/** What happens at a point. */
export interface PointFault {
  readonly fault: Fault
  /** Everything after it fails too, until the operation has its answer. */
  readonly isLasting?: boolean
}

interface FaultRound extends PointFault {
  readonly recording: Recording
  /** Number of the point. */
  readonly at: number
}

/**
 * Runs an operation with a fault at one point, and again as a client repeats it. Resolves with the
 * conversations, whose state is that of the recording, and stays it.
 */
async function runWithFault(
  { storage, faults }: FaultyStorage,
  operation: LogOperation,
  { recording, at, fault, isLasting = false }: FaultRound,
): Promise<RoundIds> {
  const ids = newRoundIds()
  await setUp(storage, ids)
  await using follower = follow(storage, ids.main)
  const plan = new FaultAt(at, fault, isLasting)
  faults.plan = plan
  const error: unknown = await operation.run(storage, ids).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  const label = `${operation.name}, ${fault}${isLasting ? ' and everything after it' : ''} at ${at}: ${recording.points[at]}`
  await until(() => plan.isReached, label)
  faults.plan = noFaults
  if (error !== undefined) assertRefusal(error, label)
  const allowed = error === undefined ? [recording.after] : [recording.before, recording.after]
  await assertState(storage, ids, { allowed, label })
  await repeatAndContinue(storage, operation, { recording, ids, label })
  await follower.assertComplete(label)
  // What was stored without an answer is searchable too.
  if (fault === 'lose') expect(await searchTexts(storage, ids), label).toEqual(recording.found)
  return ids
}

/** Readers see one of these states at once, and what is pending for a receiver follows. */
export async function assertState(
  storage: Storage,
  ids: RoundIds,
  { allowed, label }: { readonly allowed: readonly LogState[]; readonly label: string },
): Promise<void> {
  const see = () => eventually(() => observeLog(storage, ids))
  let seen = await see()
  const conversations = allowed.map((state) => state.conversations)
  if (!isOneOf(seen.conversations, conversations)) expect(seen.conversations, label).toEqual(conversations[0])
  for (const endMs = performance.now() + patienceMs; !isOneOf(seen, allowed); seen = await see()) {
    if (performance.now() > endMs) expect(seen, label).toEqual(allowed[0])
    await pause(retryMs)
  }
}

/**
 * Runs an operation with each of these faults at each point, opens the storage again and compares all of
 * them. Resolves with the numbers of points and rounds.
 */
export async function runAllRounds(
  fixture: FaultyStorage,
  operation: LogOperation,
  faultsAt: (sql: string) => readonly PointFault[],
): Promise<{ readonly points: number; readonly rounds: number }> {
  const recording = await record(fixture, operation)
  const rounds: { readonly ids: RoundIds; readonly label: string }[] = []
  for (const [at, sql] of recording.points.entries())
    for (const fault of faultsAt(sql)) {
      const ids = await runWithFault(fixture, operation, { recording, at, ...fault })
      rounds.push({ ids, label: `${operation.name}, ${fault.fault} at ${at}: ${sql}: reopened` })
    }
  const storage = await fixture.reopen()
  for (const { ids, label } of rounds) {
    const { conversations } = await eventually(() => observeLog(storage, ids))
    expect(conversations, label).toEqual(recording.last.conversations)
  }
  return { points: recording.points.length, rounds: rounds.length }
}

/** Repeats the operation, and appends to each conversation. */
export async function repeatAndContinue(
  storage: Storage,
  operation: LogOperation,
  {
    recording,
    ids,
    label,
  }: { readonly recording: Recording; readonly ids: RoundIds; readonly label: string },
): Promise<void> {
  await eventually(() => operation.run(storage, ids))
  await eventually(() => appendLast(storage, ids))
  await assertState(storage, ids, { allowed: [recording.last], label: `${label}: repeated` })
}

/** Only what a client may repeat. */
function assertRefusal(error: unknown, label: string): void {
  if (error instanceof Problem && ['unavailable', 'storage_full'].includes(error.code)) return
  throw new Error(`${label}: refused without a reason to repeat it`, { cause: error })
}

function isOneOf(seen: unknown, allowed: readonly unknown[]): boolean {
  return allowed.some((state) => JSON.stringify(state) === JSON.stringify(seen))
}

/** Waits for what is done in the background. */
export async function until(condition: () => boolean, label: string): Promise<void> {
  for (const endMs = performance.now() + patienceMs; !condition(); await pause(retryMs))
    if (performance.now() > endMs) throw new Error(`${label}: not in time`)
}

/** Repeats a call that is refused for now, as a client does. */
async function eventually<T>(call: () => Promise<T>): Promise<T> {
  for (const endMs = performance.now() + patienceMs; ; await pause(retryMs)) {
    try {
      return await call()
    } catch (error) {
      const isPassing =
        error instanceof Problem && ['unavailable', 'storage_full', 'busy'].includes(error.code)
      if (!isPassing || performance.now() > endMs) throw error
    }
  }
}

/** A follower, which receives each event once and in order, also when it was told of none. */
function follow(storage: Storage, id: string) {
  const ending = new AbortController()
  const positions: number[] = []
  let problem: unknown
  const read = async () => {
    while (!ending.signal.aborted) {
      try {
        for await (const batch of storage.log.tail(id, positions.length, ending.signal))
          positions.push(...batch.map(({ position }) => position))
        return
      } catch (error) {
        if (!(error instanceof Problem) || error.code === 'not_found') {
          problem = error
          return
        }
        await pause(retryMs)
      }
    }
  }
  const reading = read()
  return {
    async assertComplete(label: string) {
      const [record] = await storage.conversations.get([id])
      const expected = Array.from({ length: record?.head ?? 0 }, (_, n) => n + 1)
      await until(() => positions.length >= expected.length, `${label}: followed`)
      if (record !== undefined) expect(positions, `${label}: followed`).toEqual(expected)
      if (record !== undefined) expect(problem, `${label}: the follower ended`).toBeUndefined()
    },
    async [Symbol.asyncDispose]() {
      ending.abort()
      await reading
    },
  }
}
