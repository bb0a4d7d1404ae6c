import { setTimeout as pause } from 'node:timers/promises'
import type { LogFunction } from '@slipway/protocol'
import pg from 'pg'
import { connectionOptions, type PostgresDatabase } from './database.ts'
import { toDatabaseProblem } from './database-failure.ts'
import { lockName } from './lock-name.ts'

/** A server that was killed holds its lock until PostgreSQL has noticed. */
const maxWaitMs = 10_000
const retryMs = 200
const maxRetryMs = 2_000

/**
 * One server owns the data. A lock on its own connection keeps a second server out while the first is
 * alive; the epoch, which every transaction checks, keeps the first one out after it was replaced.
 */
export class Ownership implements AsyncDisposable {
  readonly epoch: number
  readonly #url: string
  readonly #log: LogFunction
  readonly #closing = new AbortController()
  #client: pg.Client | undefined

  private constructor(options: { url: string; log: LogFunction; client: pg.Client; epoch: number }) {
    this.epoch = options.epoch
    this.#url = options.url
    this.#log = options.log
    this.#watch(options.client)
  }

  /**
   * @param url leads to PostgreSQL itself, not to a pooler in transaction mode.
   * Rejects with a plain Error when another server has the lock.
   */
  static async acquire(db: PostgresDatabase, url: string, log: LogFunction): Promise<Ownership> {
    const client = await waitForLock(url)
    try {
      const epoch = await db.transaction(
        `SELECT pg_advisory_xact_lock(${lockName('write')})`,
        async (session) => {
          const { rows: others } = await session.run(
            'SELECT 1 FROM agent_server WHERE expires_at >= clock_timestamp()',
          )
          if (others.length > 0) throw new Error('The database is in use by servers that share it')
          const { rows } = await session.run<[number]>('UPDATE owner SET epoch = epoch + 1 RETURNING epoch')
          return rows[0]?.[0] ?? 0
        },
      )
      return new Ownership({ url, log, client, epoch })
    } catch (error) {
      await client.end()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#client?.end().catch(() => {})
  }

  #watch(client: pg.Client): void {
    this.#client = client
    const lost = () => {
      if (this.#client !== client || this.#closing.signal.aborted) return
      this.#client = undefined
      void this.#acquireAgain()
    }
    client.on('error', lost)
    client.on('end', lost)
  }

  /** Transactions continue meanwhile: only a new epoch ends the ownership. */
  async #acquireAgain(): Promise<void> {
    const { signal } = this.#closing
    for (let delayMs = retryMs; !signal.aborted; delayMs = Math.min(maxRetryMs, delayMs * 2)) {
      try {
        await pause(delayMs, undefined, { signal, ref: false })
        const client = await tryLock(this.#url)
        if (client === undefined) continue
        if (signal.aborted) await client.end()
        else this.#watch(client)
        return
      } catch (error) {
        if (!signal.aborted)
          this.#log('debug', 'the lock of the database is not held', { error: String(error) })
      }
    }
  }
}

async function waitForLock(url: string): Promise<pg.Client> {
  for (const endMs = performance.now() + maxWaitMs; ; ) {
    const client = await tryLock(url)
    if (client !== undefined) return client
    if (performance.now() > endMs) throw new Error('The database is in use by another server')
    await pause(retryMs)
  }
}

/** A connection with the lock; undefined when another has it. */
async function tryLock(url: string): Promise<pg.Client | undefined> {
  const client = new pg.Client(connectionOptions(url))
  client.on('error', () => {})
  try {
    await client.connect()
    const sql = `SELECT pg_try_advisory_lock(${lockName('owner')})`
    const { rows } = await client.query<[boolean]>({ text: sql, rowMode: 'array' })
    if (rows[0]?.[0] === true) return client
  } catch (error) {
    await client.end().catch(() => {})
    throw toDatabaseProblem(error)
  }
  await client.end()
  return undefined
}
