/**
 * Group commit on PostgreSQL: reads, plans and writes the changes that wait as one transaction.
 *
 * Problem: a transaction is several ways over the network and one sync of a disk. A change is decided by what
 * memory knows of the log, and meanwhile another server may have taken over, or a lost connection may have
 * committed or not.
 *
 * Idea: changes wait in a queue. A group of them is read for, planned in memory in the order of the calls
 * (`group-plan.ts`), and written in one transaction. The transaction checks whatever memory took for granted.
 *
 * Invariants:
 * - One transaction is under way at a time (`#flushing`), so no plan is older than a commit of this server.
 * - Memory (heads, kinds, sources) follows the commit, and acknowledgements follow memory (`#commit`,
 *   `settleJob`).
 * - A plan that throws rejects its own change; a failure of the transaction rejects the group.
 * - The epoch of the data is read with the lock `write` shared (`beginSql`). A server that takes over needs
 *   that lock exclusively, so it waits for this transaction, and later ones find another epoch.
 * - After a lost connection the end of its transaction is unknown: the next group waits for its lock, then
 *   reads memory again (`settle`).
 * - Where servers share the data, a group that met other values is planned again, one change at a time, a
 *   limited number of times (`maxReplans`). Where one server owns it, such a group is refused.
 * - A transaction that stands still is ended by PostgreSQL (`idleMs` of its database) before the lease of
 *   its server is over.
 *
 * If you change this: two histories of one conversation, or an acknowledged event that is not stored. The
 * crash and fault tests (`storage.crash.pg.test.ts`, `faults.pg.test.ts`) end servers and connections at any
 * moment.
 *
 * Decision pages: docs/decisions/0022-postgresql.md, docs/decisions/0028-conversation-leases.md
 */

import { hash } from 'node:crypto'
import { type Instant, isStorageFailure, Problem, storageUnavailableProblem } from '@slipway/protocol'
import { HeldElsewhereError } from '../../conversations/leases.ts'
import { CommitMetrics } from '../../event-log/commit-metrics.ts'
import type { StoredEvent } from '../../event-log/event-log.ts'
import type { KindSource, KindSourceNumbers } from '../../event-log/kind-source-numbers.ts'
import type { PostgresDatabase } from '../database/database.ts'
import { isUniqueViolation } from '../database/database-failure.ts'
import { lockName, serverLockName } from '../database/lock-name.ts'
import {
  type EventRow,
  eventColumns,
  eventKey,
  GroupPlan,
  StaleGroupError,
  toStoredEvent,
} from './group-plan.ts'
import type { LogHead, LogHeads, SharedData } from './log-heads.ts'

/** `apply` adds the change to the group; `done` runs after the commit and returns the result. */
export interface PlannedChange<T> {
  apply?(): void
  done?(): T | Promise<T>
}

/** A change, and what it has to read. */
export interface Change<T> {
  /** The conversations whose heads the plan asks for. */
  readonly conversations?: readonly string[]
  /**
   * Stored ids that the plan looks for, in the conversation of `ordinal` or in the first of `conversations`.
   */
  readonly ids?: readonly string[]
  readonly ordinal?: number
  readonly needsOrdinal?: boolean
  plan(group: GroupPlan): PlannedChange<T>
}

interface Job {
  readonly change: Change<unknown>
  resolve(result: unknown): void
  reject(error: unknown): void
}

const maxChangesPerTransaction = 1_000
/** How often a change is planned again because another server was first. */
const maxReplans = 5
const selectFacetsSql = 'SELECT number, kind, source FROM facet'
const selectByIdsSql = `SELECT conversation, ${eventColumns}
  FROM unnest($1::bigint[], $2::bytea[]) AS wanted (ordinal, digest)
  JOIN event ON event.conversation = wanted.ordinal AND sha256(event.id) = wanted.digest`
const ordinalsSql = `SELECT nextval(pg_get_serial_sequence('conversation', 'ordinal')) FROM generate_series(1, $1::integer)`

/** Group commit: the changes that wait share a transaction. */
export class GroupCommit {
  readonly metrics = new CommitMetrics()
  readonly #db: PostgresDatabase
  readonly #heads: LogHeads
  readonly #kindSources: KindSourceNumbers
  readonly #now: () => Instant
  readonly #epoch: number
  readonly #onRefused: (changes: number) => void
  readonly #shared: SharedData | undefined
  #committedKindSources: KindSource[] = []
  #queue: Job[] = []
  #queuedSinceMs = 0
  #flushing: Promise<void> | undefined
  #isClosed = false
  /** A transaction may still be under way on a connection that was lost. */
  #isUnsettled = false

  constructor(options: {
    db: PostgresDatabase
    heads: LogHeads
    kindSources: KindSourceNumbers
    now: () => Instant
    epoch: number
    onRefused: (changes: number) => void
    shared?: SharedData | undefined
  }) {
    this.#db = options.db
    this.#heads = options.heads
    this.#kindSources = options.kindSources
    this.#now = options.now
    this.#epoch = options.epoch
    this.#onRefused = options.onRefused
    this.#shared = options.shared
  }

  /** How many kinds and sources memory has. */
  get kindSourceCount(): number {
    return this.#committedKindSources.length
  }

  /** Reads what memory has of the tables. */
  async load(): Promise<void> {
    const rows = await this.#db.query<[number, Buffer, Buffer]>(selectFacetsSql)
    this.#committedKindSources = rows.map(([number, kind, source]) => [
      number,
      kind.toString(),
      source.toString(),
    ])
    this.#kindSources.load(this.#committedKindSources)
  }

  write<T = void>(change: Change<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) {
        reject(new Problem('unavailable', 'The log is closed'))
        return
      }
      if (this.#queue.length === 0) this.#queuedSinceMs = performance.now()
      this.#queue.push({ change, resolve: resolve as (result: unknown) => void, reject })
      this.#flushing ??= this.#flushAll()
    })
  }

  /** Waits for the end of transactions on lost connections, and reads the database again. */
  async settle(): Promise<void> {
    if (!this.#isUnsettled) return
    const server = this.#shared?.server
    const lock = server === undefined ? lockName('write') : serverLockName(server)
    await this.#db.transaction(`SELECT pg_advisory_xact_lock(${lock})`, async () => {})
    await this.load()
    this.#heads.clear()
    this.#isUnsettled = false
  }

  /** Writes what is queued; later changes are refused. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#flushing
  }

  async #flushAll(): Promise<void> {
    // Changes of one turn of the event loop share a transaction.
    await new Promise(setImmediate)
    while (this.#queue.length > 0) {
      const sinceMs = this.#queuedSinceMs
      const group = this.#queue.splice(0, maxChangesPerTransaction)
      if (this.#queue.length === 0) this.#queuedSinceMs = performance.now()
      if (await this.#flush(group, sinceMs, true)) continue
      // One by one, so that a change whose lease is over takes no others with it.
      for (const job of group)
        for (let replans = 1; !(await this.#flush([job], sinceMs, replans < maxReplans)); replans++);
    }
    this.#flushing = undefined
  }

  /** False when the group has to be planned again. */
  async #flush(group: readonly Job[], sinceMs: number, mayReplan: boolean): Promise<boolean> {
    const outcomes: (readonly [job: Job, change: PlannedChange<unknown> | undefined, error?: unknown])[] = []
    let plan: GroupPlan | undefined
    try {
      this.#db.assertUsable()
      await this.settle()
      plan = await this.#readFor(group)
      for (const job of group) {
        const change = planChange(job, plan)
        outcomes.push([job, ...change])
        change[0]?.apply?.()
      }
      if (!plan.isEmpty) await this.#commit(plan, sinceMs, outcomes.length)
    } catch (error) {
      if (mayReplan && this.#shared !== undefined && isStale(error)) {
        await this.#forget(group)
        return false
      }
      this.#fail(group, plan, isStale(error) ? this.#staleProblem() : error)
      return true
    }
    for (const [job, change, error] of outcomes) settleJob(job, change, error)
    if (plan.changedHeads.size > 0) this.#shared?.notify([...plan.changedHeads.keys()])
    return true
  }

  /** Nothing of the group is stored; a repeated call is planned with what is stored by then. */
  #staleProblem(): Error {
    if (this.#shared !== undefined) return new HeldElsewhereError()
    return storageUnavailableProblem('Another server has written to the log at the same moment')
  }

  async #forget(group: readonly Job[]): Promise<void> {
    const conversations = group.flatMap(({ change }) => change.conversations ?? [])
    this.#shared?.forget(conversations)
    for (const id of conversations) this.#heads.forget(id)
    // What cannot be read now is read for the next plan, which fails for the same reason.
    await this.load().catch(() => {})
  }

  async #commit(plan: GroupPlan, sinceMs: number, changes: number): Promise<void> {
    const beganMs = performance.now()
    const server = this.#shared?.server
    await this.#db.transaction<void, [number]>(beginSql(this.#shared), async (session, [owner]) => {
      if (owner?.[0] !== this.#epoch) {
        const problem = storageUnavailableProblem('Another server has taken over the database')
        this.#db.fence(problem)
        throw problem
      }
      await plan.execute(session)
    })
    this.#committedKindSources.push(...plan.newKindSources)
    // Memory may have been read again since the numbers were made.
    if (plan.newKindSources.length > 0 && server !== undefined)
      this.#kindSources.load(this.#committedKindSources)
    this.#heads.committed(plan.changedHeads)
    const nowMs = performance.now()
    this.metrics.wait.observe((nowMs - sinceMs) / 1000)
    this.metrics.commit.observe((nowMs - beganMs) / 1000)
    this.metrics.changes.observe(changes)
  }

  async #readFor(group: readonly Job[]): Promise<GroupPlan> {
    const changes = group.map(({ change }) => change)
    const visible = await this.#heads.findAll(changes.flatMap(({ conversations = [] }) => conversations))
    const stored = await this.#findEvents(changes, visible)
    const count = changes.filter(({ needsOrdinal }) => needsOrdinal).length
    const ordinals = count === 0 ? [] : await this.#db.query<[number]>(ordinalsSql, [count])
    return new GroupPlan({
      ...{ heads: this.#heads, kindSources: this.#kindSources, now: this.#now, visible, stored },
      server: this.#shared?.server,
      ordinals: ordinals.map(([ordinal]) => ordinal).reverse(),
    })
  }

  async #findEvents(
    changes: readonly Change<unknown>[],
    visible: ReadonlyMap<string, LogHead>,
  ): Promise<Map<string, StoredEvent>> {
    const wanted = changes.flatMap(({ conversations = [], ids = [], ordinal }) => {
      const of = ordinal ?? visible.get(conversations[0] ?? '')?.ordinal
      return of === undefined ? [] : ids.map((id) => [of, id] as const)
    })
    if (wanted.length === 0) return new Map()
    const rows = await this.#db.query<[number, ...EventRow]>(selectByIdsSql, [
      wanted.map(([ordinal]) => ordinal),
      wanted.map(([, id]) => idDigest(id)),
    ])
    return new Map(
      rows.map(([ordinal, ...row]) => [eventKey(ordinal, row[1].toString()), toStoredEvent(row)]),
    )
  }

  #fail(group: readonly Job[], plan: GroupPlan | undefined, error: unknown): void {
    if (plan !== undefined && plan.newKindSources.length > 0)
      this.#kindSources.load(this.#committedKindSources)
    if (plan !== undefined && !plan.isEmpty) {
      this.#isUnsettled = true
      this.#heads.clear()
    }
    if (isStorageFailure(error)) this.#onRefused(group.length)
    for (const { reject } of group) reject(error)
  }
}

function beginSql(shared: SharedData | undefined): string {
  const own = shared === undefined ? '' : `${lockShared(serverLockName(shared.server))};`
  return `${own} ${lockShared(lockName('write'))}; SELECT epoch FROM owner`
}

function lockShared(lock: string): string {
  return `SELECT pg_advisory_xact_lock_shared(${lock})`
}

/** Another server has changed what the plan depends on, or has made the same conversation. */
function isStale(error: unknown): boolean {
  return error instanceof StaleGroupError || isUniqueViolation(error)
}

/** What the index of ids has of a stored id. */
export function idDigest(storedId: string): Buffer {
  return hash('sha256', storedId, 'buffer')
}

function planChange(
  { change }: Job,
  plan: GroupPlan,
): readonly [change: PlannedChange<unknown> | undefined, error?: unknown] {
  try {
    return [change.plan(plan)]
  } catch (error) {
    return [undefined, error]
  }
}

function settleJob(job: Job, change: PlannedChange<unknown> | undefined, error: unknown): void {
  if (change === undefined) {
    job.reject(error)
    return
  }
  try {
    job.resolve(change.done?.())
  } catch (failure) {
    job.reject(failure)
  }
}
