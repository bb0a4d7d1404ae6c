import { setTimeout as pause } from 'node:timers/promises'
import { Problem } from '@slipway/protocol'
import { expect } from 'vitest'
import { type Fault, FaultAt, type FaultSource, noFaults, Trace } from './fault-plan.ts'

/** Something that stores, whose statements and commits ask a plan. */
export interface Faulty<S> extends AsyncDisposable {
  readonly opened: S
  readonly faults: FaultSource
  /** Closes it and opens it again. */
  reopen(): Promise<S>
}

/** A call as a client makes it, and makes it again after a refusal. */
export interface Operation<S, I> {
  readonly name: string
  run(opened: S, ids: I): Promise<unknown>
}

/** What operations have in common: each round has its own ids. */
export interface Setting<S, I> {
  newIds(): I
  setUp(opened: S, ids: I): Promise<void>
  /** What comes after the operation; may be repeated. */
  goOn(opened: S, ids: I): Promise<void>
  observe(opened: S, ids: I): Promise<State>
  /** Watches a round from its set-up on. */
  watch?(opened: S, ids: I): Watcher
  /** What is slow to observe, at the end of a round whose fault left an answer out. */
  observeAtEnd?(opened: S, ids: I): Promise<unknown>
}

export interface State {
  /** By each way to read it. */
  readonly seen: object
  /** What follows somewhat later. */
  readonly later?: object
}

export interface Watcher extends AsyncDisposable {
  /** Rejects unless it has seen everything that there is now. */
  assertComplete(label: string): Promise<void>
}

/** What an operation does without a fault: its points, and what readers see. */
export interface Recording {
  readonly points: readonly string[]
  readonly before: State
  readonly after: State
  /** After `goOn`. */
  readonly last: State
  readonly end: unknown
}

const retryMs = 10
const patienceMs = 20_000
/** Longer than a statement of a lost connection waits. */
const lateMs = 200

/** The rounds of one setting. */
export class FaultRounds<S, I> {
  readonly #setting: Setting<S, I>

  constructor(setting: Setting<S, I>) {
    this.#setting = setting
  }

  /** Runs an operation twice: what is made once, like numbers of kinds, is no part of the recording. */
  async record(fixture: Faulty<S>, operation: Operation<S, I>): Promise<Recording> {
    await this.#recordOnce(fixture, operation)
    return await this.#recordOnce(fixture, operation)
  }

  async #recordOnce({ opened, faults }: Faulty<S>, operation: Operation<S, I>): Promise<Recording> {
    const { newIds, setUp, goOn, observe, observeAtEnd } = this.#setting
    const ids = newIds()
    await setUp(opened, ids)
    const before = await observe(opened, ids)
    const trace = new Trace()
    faults.plan = trace
    await operation.run(opened, ids)
    await trace.untilQuiet()
    faults.plan = noFaults
    const after = await observe(opened, ids)
    await goOn(opened, ids)
    const last = await observe(opened, ids)
    return { points: trace.points, before, after, last, end: await observeAtEnd?.(opened, ids) }
  }

  /**
   * Runs an operation with each of these faults at each point, opens the storage again and compares all of
   * them. Resolves with the numbers of points and rounds.
   */
  async runAll(
    fixture: Faulty<S>,
    operation: Operation<S, I>,
    faultsAt: (sql: string) => readonly PointFault[],
  ): Promise<{ readonly points: number; readonly rounds: number }> {
    const recording = await this.record(fixture, operation)
    const rounds: { readonly ids: I; readonly label: string }[] = []
    for (const [at, sql] of recording.points.entries())
      for (const fault of faultsAt(sql)) {
        const ids = await this.#runWithFault(fixture, operation, { recording, at, ...fault })
        rounds.push({ ids, label: `${operation.name}, ${fault.fault} at ${at}: ${sql}: reopened` })
      }
    const opened = await fixture.reopen()
    for (const { ids, label } of rounds) {
      const { seen } = await eventually(() => this.#setting.observe(opened, ids))
      expect(seen, label).toEqual(recording.last.seen)
    }
    return { points: recording.points.length, rounds: rounds.length }
  }

  /** Runs an operation with a fault at one point, and again as a client repeats it. */
  async #runWithFault(
    { opened, faults }: Faulty<S>,
    operation: Operation<S, I>,
    { recording, at, fault, isLasting = false }: FaultRound,
  ): Promise<I> {
    const { newIds, setUp, watch, observeAtEnd } = this.#setting
    const ids = newIds()
    await setUp(opened, ids)
    await using watcher = watch?.(opened, ids)
    const plan = new FaultAt(at, fault, isLasting)
    faults.plan = plan
    const error: unknown = await operation.run(opened, ids).then(
      () => undefined,
      (reason: unknown) => reason,
    )
    const label = `${operation.name}, ${fault}${isLasting ? ' and everything after it' : ''} at ${at}: ${recording.points[at]}`
    await until(() => plan.isReached, label)
    faults.plan = noFaults
    if (error !== undefined) assertRefusal(error, label)
    const allowed = error === undefined ? [recording.after] : [recording.before, recording.after]
    // What is done late is done between two reads.
    if (fault === 'late') await this.#untilSeen(opened, ids, { allowed, label })
    await this.assertState(opened, ids, { allowed, label })
    await this.repeatAndGoOn(opened, operation, { recording, ids, label })
    await watcher?.assertComplete(label)
    if (fault === 'lose') expect(await observeAtEnd?.(opened, ids), label).toEqual(recording.end)
    return ids
  }

  async #untilSeen(
    opened: S,
    ids: I,
    { allowed, label }: { readonly allowed: readonly State[]; readonly label: string },
  ): Promise<void> {
    const states = allowed.map(({ seen }) => seen)
    for (const endMs = performance.now() + patienceMs; ; await pause(lateMs)) {
      const state = await this.#setting.observe(opened, ids).catch(() => undefined)
      if (state !== undefined && isOneOf(state.seen, states)) return
      if (performance.now() > endMs) throw new Error(`${label}: another state than allowed`)
    }
  }

  /** Readers see one of these states at once, and what follows is right somewhat later. */
  async assertState(
    opened: S,
    ids: I,
    { allowed, label }: { readonly allowed: readonly State[]; readonly label: string },
  ): Promise<void> {
    const look = () => eventually(() => this.#setting.observe(opened, ids))
    let state = await look()
    const seen = allowed.map((each) => each.seen)
    if (!isOneOf(state.seen, seen)) expect(state.seen, label).toEqual(seen[0])
    for (const endMs = performance.now() + patienceMs; !isOneOf(state, allowed); state = await look()) {
      if (performance.now() > endMs) expect(state, label).toEqual(allowed[0])
      await pause(retryMs)
    }
  }

  /** Repeats the operation, and continues after it. */
  async repeatAndGoOn(
    opened: S,
    operation: Operation<S, I>,
    { recording, ids, label }: { readonly recording: Recording; readonly ids: I; readonly label: string },
  ): Promise<void> {
    await eventually(() => operation.run(opened, ids))
    await eventually(() => this.#setting.goOn(opened, ids))
    await this.assertState(opened, ids, { allowed: [recording.last], label: `${label}: repeated` })
  }
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
export async function eventually<T>(call: () => Promise<T>): Promise<T> {
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
