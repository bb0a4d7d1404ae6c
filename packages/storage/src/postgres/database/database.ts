import { setTimeout as pause } from 'node:timers/promises'
import { isStorageFailure, type LogFunction, must, type Problem } from '@slipway/protocol'
import pg from 'pg'
import { isConnectionFailure, readOnlyProblem, toDatabaseProblem } from './database-failure.ts'
import { beginSql, SettingWarnings, type TransactionSettings } from './transaction-settings.ts'

/** A value of a statement. Buffers are sent as they are; arrays are sent as text. */
export type Value =
  | string
  | number
  | boolean
  | null
  | Buffer
  | readonly (string | number | boolean | Buffer | null)[]

/** The statements of one transaction. */
export interface Session {
  /** Resolves with the rows, and the number of rows that were changed. */
  run<Row extends readonly unknown[]>(sql: string, values?: readonly Value[]): Promise<Rows<Row>>
}

export interface Rows<Row> {
  readonly rows: readonly Row[]
  readonly rowCount: number
}

/** Of one pool. */
export const maxConnections = 10
/** Longest pause between two statements of a transaction. */
export const maxIdleMs = 10_000
const connectMs = 10_000
/** Longest statement. The driver gives up somewhat later, when the server does not answer at all. */
const statementMs = 30_000
const graceMs = 5_000
const firstProbeMs = 50
const maxProbeMs = 1_000

/**
 * A bounded pool of connections. Every rejection for a lost or overloaded database is a Problem `unavailable`
 * or `storage_full`; while the database is away, statements are rejected at once and the way to it is probed
 * with backoff.
 */
export class PostgresDatabase {
  readonly #pool: pg.Pool
  readonly #log: LogFunction
  readonly #warnings: SettingWarnings
  readonly #onRecovery: (() => Promise<void> | void)[] = []
  readonly #closing = new AbortController()
  readonly #beginSql: string
  #problem: Problem | undefined
  #probing: Promise<void> | undefined

  /** `idleMs`: the pause between two statements after which the database ends a transaction. */
  constructor(
    url: string,
    log: LogFunction,
    { connections = maxConnections, idleMs = maxIdleMs }: { connections?: number; idleMs?: number } = {},
  ) {
    this.#log = log
    this.#beginSql = beginSql(idleMs)
    this.#warnings = new SettingWarnings(log)
    this.#pool = new pg.Pool({
      ...connectionOptions(url),
      max: connections,
      query_timeout: statementMs + graceMs,
      onConnect: async (client) => {
        // A connection that is lost between two statements fails the second of them.
        client.on('error', () => {})
        await client.query(`SET statement_timeout = ${statementMs}; SET bytea_output = 'hex'`)
      },
    })
    // A connection that waits in the pool was lost: the next statement opens another.
    this.#pool.on('error', () => {})
  }

  /** Why the database cannot be used at the moment. */
  get problem(): Problem | undefined {
    return this.#problem
  }

  /** Called after the way to the database was lost and found again, before statements are accepted. */
  onRecovery(listener: () => Promise<void> | void): void {
    this.#onRecovery.push(listener)
  }

  /** A statement outside of transactions. A read is repeated once on another connection. */
  async query<Row extends readonly unknown[]>(sql: string, values: readonly Value[] = []): Promise<Row[]> {
    this.assertUsable()
    try {
      return await this.#query<Row>(sql, values)
    } catch (error) {
      if (!isConnectionFailure(error)) throw error
    }
    try {
      return await this.#query<Row>(sql, values)
    } catch (error) {
      this.#failed(error)
      throw error
    }
  }

  /**
   * Runs `work` in a transaction that begins with the statements `begin`, whose last one's rows it gets, and
   * commits it durably. When it rejects, the transaction was rolled back, or, after a failure of the
   * connection, may have been committed.
   */
  async transaction<T, Row extends readonly unknown[]>(
    begin: string,
    work: (session: Session, rows: readonly Row[]) => Promise<T>,
  ): Promise<T> {
    this.assertUsable()
    let client: pg.PoolClient | undefined
    try {
      client = await mapFailure(this.#pool.connect())
      const text = `${this.#beginSql}; ${begin}`
      // One result for each statement.
      const results = (await mapFailure(
        client.query({ text, rowMode: 'array' }),
      )) as unknown as Rows<unknown>[]
      this.#warnings.check(must(results[1]?.rows[0] as TransactionSettings | undefined, 'the settings'))
      const result = await work(sessionOf(client), (results.at(-1)?.rows ?? []) as readonly Row[])
      await mapFailure(client.query('COMMIT'))
      client.release()
      return result
    } catch (error) {
      if (client !== undefined) await rollBack(client, error)
      this.#failed(error)
      throw error
    }
  }

  /** Throws the problem while the database is away. */
  assertUsable(): void {
    if (this.#problem !== undefined) throw this.#problem
  }

  /** Refuses statements from now on, for ever: another server owns the data. */
  fence(problem: Problem): void {
    this.#problem = problem
    this.#closing.abort()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#probing
    await this.#pool.end()
  }

  async #query<Row extends readonly unknown[]>(sql: string, values: readonly Value[]): Promise<Row[]> {
    const query = { text: sql, values: [...values], rowMode: 'array' as const }
    const { rows } = await mapFailure(this.#pool.query<Row[]>(query))
    return rows as unknown as Row[]
  }

  #failed(error: unknown): void {
    if (!isStorageFailure(error)) return
    if (!isConnectionFailure(error) || this.#problem !== undefined || this.#closing.signal.aborted) return
    this.#problem = error
    this.#log('error', 'the database cannot be used', { reason: error.message, error: String(error.cause) })
    this.#probing = this.#probe()
  }

  async #probe(): Promise<void> {
    const { signal } = this.#closing
    for (let delayMs = firstProbeMs; !signal.aborted; delayMs = Math.min(maxProbeMs, delayMs * 2)) {
      try {
        await pause(delayMs, undefined, { signal, ref: false })
        if (await this.#isReadOnly()) throw readOnlyProblem()
        await this.#recovered()
        return
      } catch (error) {
        if (isStorageFailure(error) && !signal.aborted) this.#problem = error
      }
    }
  }

  /** Of a connection that is not used again: it keeps the settings that it began with. */
  async #isReadOnly(): Promise<boolean> {
    const client = await mapFailure(this.#pool.connect())
    try {
      const sql = "SELECT current_setting('transaction_read_only') AS setting"
      const { rows } = await mapFailure(client.query<{ setting: string }>(sql))
      return rows[0]?.setting === 'on'
    } finally {
      client.release(true)
    }
  }

  async #recovered(): Promise<void> {
    const problem = this.#problem
    this.#problem = undefined
    try {
      for (const listener of this.#onRecovery) await listener()
      this.#log('info', 'the database can be used again', {})
    } catch (error) {
      this.#problem = problem
      throw error
    }
  }
}

/** Options of a connection, with the meaning of its columns. */
export function connectionOptions(url: string): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: 'slipway',
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    types: { getTypeParser: ((oid: number) => columnParsers[oid] ?? String) as never },
  }
}

const columnParsers: Readonly<Record<number, (text: string) => unknown>> = {
  16: (text) => text === 't',
  17: (text) => Buffer.from(text.slice(2), 'hex'),
  20: Number,
  21: Number,
  23: Number,
}

function sessionOf(client: pg.PoolClient): Session {
  return {
    async run<Row extends readonly unknown[]>(sql: string, values: readonly Value[] = []) {
      const query = { text: sql, values: [...values], rowMode: 'array' as const }
      const result = await mapFailure(client.query<Row[]>(query))
      return { rows: result.rows as unknown as Row[], rowCount: result.rowCount ?? 0 }
    },
  }
}

async function mapFailure<T>(result: Promise<T>): Promise<T> {
  try {
    return await result
  } catch (error) {
    throw toDatabaseProblem(error)
  }
}

/** A connection with an unknown state is closed, which rolls its transaction back. */
async function rollBack(client: pg.PoolClient, error: unknown): Promise<void> {
  if (isConnectionFailure(error)) {
    client.release(true)
    return
  }
  try {
    await client.query('ROLLBACK')
    client.release()
  } catch {
    client.release(true)
  }
}
