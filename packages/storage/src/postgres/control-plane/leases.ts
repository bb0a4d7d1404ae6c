import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type LogFunction, Problem } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import type { Lease, Leases } from '../../control-plane/leases.ts'
import type { PostgresDatabase } from '../database/database.ts'
import { encodeText } from '../text/encoded-text.ts'
import { ChangeQueue, type Fence } from './change-queue.ts'

export interface LeaseTimes {
  /** A server that is silent for so long loses its leases. */
  readonly leaseMs: number
  readonly renewMs: number
}

const defaultTimes: LeaseTimes = { leaseMs: 8_000, renewMs: 1_500 }
const retryMs = [10, 250] as const
/** Longest wait for work that another server does alone. */
const maxWaitMs = 60_000

const renewSql = `INSERT INTO replica (id, expires_at) VALUES ($1, clock_timestamp() + $2 * interval '1 ms')
  ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`
const expiredSql = 'SELECT id FROM replica WHERE expires_at < clock_timestamp()'
const dismissSql = 'DELETE FROM replica WHERE id = ANY($1::text[]) AND expires_at < clock_timestamp()'
const sweepSql = 'DELETE FROM lease WHERE NOT EXISTS (SELECT 1 FROM replica WHERE id = lease.replica)'
const acquireSql = `INSERT INTO lease (name, replica, epoch) VALUES ($1, $2, nextval('lease_epoch'))
  ON CONFLICT (name) DO UPDATE SET replica = excluded.replica, epoch = excluded.epoch
  WHERE $3 OR NOT EXISTS (SELECT 1 FROM replica WHERE id = lease.replica) RETURNING epoch`
const forgottenSql = 'DELETE FROM lease WHERE replica = $1 AND epoch <> ALL($2::bigint[])'
const releaseSql = 'DELETE FROM lease WHERE name = $1 AND replica = $2 AND epoch = $3'

interface HeldLease extends Fence {
  isReleased: boolean
}

/**
 * Leases as rows. A server renews one row, its own, by the clock of the database; the others remove the row
 * of a silent server with all of its leases. Each holder has another epoch, and changes check it in their
 * transaction, which a new holder has to wait for.
 */
export class PostgresLeases implements Leases, AsyncDisposable {
  readonly isShared = true
  readonly changes: ChangeQueue
  readonly #db: PostgresDatabase
  readonly #log: LogFunction
  readonly #times: LeaseTimes
  readonly #replica = randomBytes(8).toString('hex')
  readonly #mutex = new KeyedMutex()
  readonly #current = new AsyncLocalStorage<readonly HeldLease[]>()
  readonly #closing = new AbortController()
  /** Epochs of the leases that this server has. */
  readonly #epochs = new Set<number>()
  /** A lease of this server may be in the table that it does not know. */
  #isForgetful = false
  #renewedMs = Number.NEGATIVE_INFINITY
  #renewing: Promise<void> = Promise.resolve()

  private constructor(db: PostgresDatabase, log: LogFunction, times: LeaseTimes) {
    this.#db = db
    this.#log = log
    this.#times = times
    this.changes = new ChangeQueue(db, () => this.#held())
  }

  static async open(
    db: PostgresDatabase,
    log: LogFunction,
    times: LeaseTimes = defaultTimes,
  ): Promise<PostgresLeases> {
    const leases = new PostgresLeases(db, log, times)
    await leases.#renew()
    leases.#renewing = leases.#renewForever()
    return leases
  }

  async runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    return await this.#mutex.runExclusive(key, async () => {
      const lease = await this.#waitFor(key)
      try {
        return await this.#current.run([...this.#held(), lease], work)
      } finally {
        await this.#release(lease)
      }
    })
  }

  async tryAcquire(name: string): Promise<Lease | undefined> {
    const lease = await this.#acquire(name, false)
    return lease && this.#toLease(lease)
  }

  async take(name: string): Promise<Lease> {
    const lease = await this.#acquire(name, true)
    if (lease === undefined) throw new Error('a lease was not taken')
    return this.#toLease(lease)
  }

  assertHeld(): void {
    if (this.#held().length === 0 || performance.now() - this.#renewedMs < this.#times.leaseMs) return
    throw new Problem('unavailable', 'Another server may have taken over this work')
  }

  /** Gives all leases back. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#renewing
    await this.changes.close()
    const remove = this.#db.query('DELETE FROM replica WHERE id = $1', [this.#replica])
    await remove.catch(() => undefined)
  }

  #held(): HeldLease[] {
    return (this.#current.getStore() ?? []).filter(({ isReleased }) => !isReleased)
  }

  #toLease(lease: HeldLease): Lease {
    return {
      run: (work) => this.#current.run([lease], work),
      release: () => this.#release(lease),
    }
  }

  async #waitFor(name: string): Promise<HeldLease> {
    const endMs = performance.now() + maxWaitMs
    for (let [delayMs, maxDelayMs] = retryMs as readonly number[] as [number, number]; ; ) {
      const lease = await this.#acquire(name, false)
      if (lease !== undefined) return lease
      if (performance.now() > endMs) throw new Problem('unavailable', 'Another server is busy with this')
      await pause(delayMs * (0.5 + Math.random()))
      delayMs = Math.min(maxDelayMs, delayMs * 2)
    }
  }

  async #acquire(name: string, isTaken: boolean): Promise<HeldLease | undefined> {
    const values = [encodeText(name), this.#replica, isTaken]
    let epoch: number | undefined
    try {
      await this.changes.write(async (session) => {
        epoch = (await session.run<[number]>(acquireSql, values)).rows[0]?.[0]
        if (epoch !== undefined) this.#epochs.add(epoch)
      })
    } catch (error) {
      this.#forget(epoch)
      throw error
    }
    if (epoch === undefined) return undefined
    return { name: encodeText(name), replica: this.#replica, epoch, isReleased: false }
  }

  /** A lease that cannot be given back now is removed later. */
  async #release(lease: HeldLease): Promise<void> {
    if (lease.isReleased) return
    lease.isReleased = true
    const { name, replica, epoch } = lease
    this.#epochs.delete(epoch)
    await this.changes
      .write((session) => session.run(releaseSql, [name, replica, epoch]))
      .catch(() => this.#forget(epoch))
  }

  #forget(epoch: number | undefined): void {
    if (epoch !== undefined) this.#epochs.delete(epoch)
    this.#isForgetful = true
  }

  async #renewForever(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        await pause(this.#times.renewMs, undefined, { signal, ref: false })
        await this.#renew()
      } catch (error) {
        if (!signal.aborted) this.#log('debug', 'the leases were not renewed', { error: String(error) })
      }
    }
  }

  /** A server that was away itself lets the others renew theirs first. */
  async #renew(): Promise<void> {
    const { leaseMs, renewMs } = this.#times
    const startedMs = performance.now()
    await this.#db.query(renewSql, [this.#replica, leaseMs])
    const wasAway = startedMs - this.#renewedMs > renewMs * 3
    this.#renewedMs = startedMs
    if (this.#isForgetful) {
      this.#isForgetful = false
      const removed = this.changes.write((session) =>
        session.run(forgottenSql, [this.#replica, [...this.#epochs]]),
      )
      await removed.catch(() => this.#forget(undefined))
    }
    const expired = wasAway ? [] : await this.#db.query<[string]>(expiredSql)
    if (expired.length === 0) return
    await this.changes.write(async (session) => {
      await session.run(dismissSql, [expired.map(([id]) => id)])
      await session.run(sweepSql)
    })
    this.#log('warn', 'another server is silent: its work is taken over', { servers: expired.length })
  }
}
