/**
 * The registration of a server among those that share a database.
 *
 * Problem: each server has to know that its time is over before any other may act on it. Clocks differ, a
 * process may stand still at any line, and a statement may hang.
 *
 * Idea: a row in `agent_server` that expires by the clock of the database and is renewed three times in its
 * life. Deleting the row is the one act that ends a registration, and any server does it for a row that has
 * expired. The server itself counts from before its renewal, so its own end comes first.
 *
 * Invariants:
 * - `#expiresMs` is counted from the time before the statement was sent, so it is not later than the expiry
 *   in the table.
 * - A renewal of a deleted row changes nothing, and says so: the registration is lost (`renew`).
 * - The loss is noticed by its own timer (`#watch`), whatever statement hangs, and renewals have
 *   their own connections.
 * - A server that has lost its registration drops everything it has (`onLost`) before it registers again,
 *   under a new id: what is left of the old one cannot pass for the new one.
 * - Registering needs the shared lock `owner`: a server that owns the data alone holds it.
 * - At a graceful end the row is deleted, so that others need not wait.
 *
 * If you change this: a server that continues after another has taken its conversations.
 *
 * Decision page: docs/decisions/0028-conversation-leases.md
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { LogFunction } from '@slipway/protocol'
import type { PostgresDatabase } from '../database/database.ts'
import { lockName } from '../database/lock-name.ts'

const maxSweepMs = 500

const insertSql = `INSERT INTO agent_server (id, url, expires_at)
  VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))`
const renewSql = `UPDATE agent_server SET expires_at = clock_timestamp() + make_interval(secs => $2) WHERE id = $1`
/** A row that a statement of its server still holds is left to the next sweep, and holds up no other. */
const removeExpiredSql = `DELETE FROM agent_server WHERE id IN
  (SELECT id FROM agent_server WHERE expires_at < clock_timestamp() FOR UPDATE SKIP LOCKED) RETURNING id`

interface RegistrationOptions {
  /** Connections of its own, so that no other statement delays a renewal. */
  readonly db: PostgresDatabase
  readonly log: LogFunction
  readonly leaseMs: number
  /** The registration is over: nothing may be done by its id any more. */
  readonly onLost: () => Promise<void>
  /** Called at least twice a second while registered. */
  readonly onSweep: () => Promise<void>
}

/** The row of a server among those that share the data, and its renewal. */
export class Registration implements AsyncDisposable {
  /** The epoch of the data; a server that owns the data alone begins another. */
  readonly epoch: number
  readonly #options: RegistrationOptions
  readonly #closing = new AbortController()
  #id: string
  #url = ''
  /** By the clock of this process. */
  #expiresMs: number
  /** Set from the loss of a registration to the next one. */
  #loss: Promise<void> | undefined
  #watch: NodeJS.Timeout | undefined
  #loops: readonly Promise<void>[] = []

  private constructor(options: RegistrationOptions, state: { id: string; epoch: number; expiresMs: number }) {
    this.#options = options
    this.#id = state.id
    this.epoch = state.epoch
    this.#expiresMs = state.expiresMs
  }

  /** Rejects with a plain Error while a server owns the data alone. */
  static async open(options: RegistrationOptions): Promise<Registration> {
    const { db, leaseMs } = options
    const id = randomUUID()
    const expiresMs = performance.now() + leaseMs
    const epoch = await db.transaction<number, [boolean]>(beginSql, async (session, [row]) => {
      assertShared(row)
      await session.run(insertSql, [id, '', leaseMs / 1000])
      // An epoch says that agent servers use the data.
      const sql = 'UPDATE owner SET epoch = greatest(epoch, 1) RETURNING epoch'
      const { rows } = await session.run<[number]>(sql)
      return rows[0]?.[0] ?? 0
    })
    return new Registration(options, { id, epoch, expiresMs })
  }

  /** The id of this server; another one after each loss. */
  get id(): string {
    return this.#id
  }

  /** False while the registration has been lost and there is no new one. */
  get isValid(): boolean {
    return this.#loss === undefined && performance.now() < this.#expiresMs
  }

  start(): void {
    const { leaseMs } = this.#options
    const sweepMs = Math.min(maxSweepMs, leaseMs / 6)
    this.#watch = setInterval(() => {
      if (!this.isValid) void this.#lose()
    }, sweepMs).unref()
    this.#loops = [this.#repeat(leaseMs / 3, () => this.renew()), this.#repeat(sweepMs, () => this.#sweep())]
  }

  async announce(url: string): Promise<void> {
    this.#url = url
    await this.#options.db.query('UPDATE agent_server SET url = $2 WHERE id = $1', [this.#id, url])
  }

  /** Renews the registration, or begins another one after its loss. */
  async renew(): Promise<void> {
    const { db, leaseMs } = this.#options
    if (this.#loss !== undefined) {
      await this.#loss
      return await this.#registerAgain()
    }
    const startedMs = performance.now()
    const renewed = await db.transaction('SELECT 1', (session) =>
      session.run(renewSql, [this.#id, leaseMs / 1000]),
    )
    if (this.#loss !== undefined) return
    if (renewed.rowCount === 1) this.#expiresMs = startedMs + leaseMs
    else await this.#lose()
  }

  /** Deletes the rows of servers that have not renewed theirs. */
  async removeExpired(): Promise<void> {
    const { db, log } = this.#options
    for (const [server] of await db.query<[string]>(removeExpiredSql))
      if (server !== this.#id) log('warn', 'a server that shares the database is gone', { server })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    clearInterval(this.#watch)
    await Promise.all(this.#loops)
    await this.#options.db.query('DELETE FROM agent_server WHERE id = $1', [this.#id]).catch(() => {})
  }

  async #repeat(intervalMs: number, work: () => Promise<void>): Promise<void> {
    const { signal } = this.#closing
    for (;;) {
      // While there is no registration, attempts to get one follow each other quickly.
      const delayMs = this.#loss === undefined ? intervalMs : Math.min(intervalMs, maxSweepMs)
      await pause(delayMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      await work().catch((error: unknown) => {
        this.#options.log('debug', 'the leases of this server are not tended', { error: String(error) })
      })
    }
  }

  async #sweep(): Promise<void> {
    if (!this.isValid) return
    await this.removeExpired()
    await this.#options.onSweep()
  }

  async #lose(): Promise<void> {
    if (this.#loss !== undefined || this.#closing.signal.aborted) return await this.#loss
    this.#options.log('error', 'this server has lost its leases: it could not renew them in time', {})
    this.#loss = this.#options.onLost()
    await this.#loss
  }

  /** The old row is deleted, so that others need not wait for what this server has dropped. */
  async #registerAgain(): Promise<void> {
    const { db, leaseMs, log } = this.#options
    const id = randomUUID()
    const startedMs = performance.now()
    await db.transaction<void, [boolean]>(beginSql, async (session, [row]) => {
      assertShared(row)
      await session.run('DELETE FROM agent_server WHERE id = $1', [this.#id])
      await session.run(insertSql, [id, this.#url, leaseMs / 1000])
    })
    this.#id = id
    this.#expiresMs = startedMs + leaseMs
    this.#loss = undefined
    log('info', 'this server takes leases again', {})
  }
}

/** Fails while a server owns the data alone. */
const beginSql = `SELECT pg_try_advisory_xact_lock_shared(${lockName('owner')})`

function assertShared(row: readonly [boolean] | undefined): void {
  if (row?.[0] !== true) throw new Error('The database is in use by a server that does not share it')
}
