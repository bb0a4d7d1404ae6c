import { isStorageFailure, Problem } from '@slipway/protocol'
import type { PostgresDatabase, Session } from '../database/database.ts'
import { lockName } from '../database/lock-name.ts'

interface Job {
  readonly work: (session: Session) => Promise<unknown>
  readonly fences: readonly Fence[]
  resolve(result: unknown): void
  reject(error: unknown): void
}

type Outcome = { readonly result: unknown } | { readonly error: unknown }

/** A lease on which a change depends. */
export interface Fence {
  readonly name: string
  readonly replica: string
  readonly epoch: number
}

const maxChangesPerTransaction = 200
/** One writer at a time, of all replicas; one that freezes loses the lock with its connection. */
const beginSql = `SELECT pg_advisory_xact_lock(${lockName('ledger')})`
const heldSql = `SELECT lease.name FROM unnest($1::text[], $2::text[], $3::bigint[]) AS held (name, replica, epoch)
  JOIN lease ON lease.name = held.name AND lease.replica = held.replica AND lease.epoch = held.epoch`

/**
 * Changes of the control-plane store. What waits shares a transaction, and each change sees the earlier ones.
 * A change that throws is rolled back and rejects alone, as does one whose lease was lost; a failed
 * transaction rejects all.
 */
export class ChangeQueue {
  readonly #db: PostgresDatabase
  readonly #getFences: () => readonly Fence[]
  #queue: Job[] = []
  #flushing: Promise<void> | undefined
  #isClosed = false

  /** `getFences`: the leases on which the change depends that is being called for. */
  constructor(db: PostgresDatabase, getFences: () => readonly Fence[]) {
    this.#db = db
    this.#getFences = getFences
  }

  /**
   * Resolves with the result of `work` when its writes are durable. It may run again in another transaction.
   */
  write<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) {
        reject(new Problem('unavailable', 'The storage is closed'))
        return
      }
      const job = { work, fences: this.#getFences(), resolve: resolve as (result: unknown) => void, reject }
      this.#queue.push(job)
      this.#flushing ??= this.#flushAll()
    })
  }

  /** Writes the queued changes, and rejects later ones. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#flushing
  }

  async #flushAll(): Promise<void> {
    // Changes of one turn of the event loop share a transaction.
    await new Promise(setImmediate)
    while (this.#queue.length > 0) await this.#flush(this.#queue.splice(0, maxChangesPerTransaction))
    this.#flushing = undefined
  }

  async #flush(group: readonly Job[]): Promise<void> {
    try {
      const outcomes = await this.#db.transaction(beginSql, async (session) => {
        const held = await findHeld(session, group)
        const outcomes: Outcome[] = []
        for (const job of group) outcomes.push(await attempt(session, job, held))
        return outcomes
      })
      for (const [index, job] of group.entries()) {
        const outcome = outcomes[index]
        if (outcome !== undefined && 'result' in outcome) job.resolve(outcome.result)
        else job.reject(outcome?.error)
      }
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }
}

/** The names of the leases of the group that are held as the changes expect. */
async function findHeld(session: Session, group: readonly Job[]): Promise<ReadonlySet<string>> {
  const fences = group.flatMap((job) => job.fences)
  if (fences.length === 0) return new Set()
  const { rows } = await session.run<[string]>(heldSql, [
    fences.map(({ name }) => name),
    fences.map(({ replica }) => replica),
    fences.map(({ epoch }) => epoch),
  ])
  return new Set(rows.map(([name]) => name))
}

async function attempt(session: Session, job: Job, held: ReadonlySet<string>): Promise<Outcome> {
  if (!job.fences.every(({ name }) => held.has(name)))
    return { error: new Problem('unavailable', 'Another server has taken over this work') }
  await session.run('SAVEPOINT change')
  try {
    const result = await job.work(session)
    await session.run('RELEASE change')
    return { result }
  } catch (error) {
    if (isStorageFailure(error)) throw error
    await session.run('ROLLBACK TO change')
    return { error }
  }
}
