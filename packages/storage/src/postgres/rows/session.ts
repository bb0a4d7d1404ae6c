import type { RowSession, Value, Work } from '../../control-plane/stores/session.ts'
import type { PostgresDatabase, Session } from '../database/database.ts'
import { decodeText, encodeText } from '../text/encoded-text.ts'

type Rows = readonly (readonly unknown[])[]

const dialect = {
  name: 'postgres',
  titleSearch: {
    condition: 'position(?::bytea IN folded_title) > 0',
    toValue: (folded: string) => Buffer.from(folded.toWellFormed()),
  },
} as const

/** Runs a change in a transaction, which is durable when the promise resolves. */
interface Changes {
  write<T>(work: (session: Session) => Promise<T>): Promise<T>
}

/** The rows of a database. */
export class PostgresSession implements RowSession {
  readonly dialect = dialect
  readonly #db: PostgresDatabase
  readonly #changes: Changes

  constructor(db: PostgresDatabase, changes: Changes) {
    this.#db = db
    this.#changes = changes
  }

  read<T>(work: Work<T>): Promise<T> {
    return run(work, (sql, values) => this.#db.query(sql, values))
  }

  write<T>(makeWork: () => Work<T>): Promise<T> {
    return this.#changes.write((session) =>
      run(makeWork(), async (sql, values) => (await session.run(sql, values)).rows),
    )
  }
}

async function run<T>(
  work: Work<T>,
  execute: (sql: string, values: readonly Value[]) => Promise<Rows>,
): Promise<T> {
  for (let step = work.next([]); ; ) {
    if (step.done) return step.value
    const { sql, values } = step.value
    const rows = await execute(toPostgres(sql), values.map(encodeValue))
    step = work.next(rows.map((row) => row.map(decodeValue)))
  }
}

function toPostgres(sql: string): string {
  let count = 0
  return sql.replaceAll(/INDEXED BY \w+\s|\?/g, (found) => (found === '?' ? `$${++count}` : ''))
}

function encodeValue(value: Value): Value {
  return typeof value === 'string' ? encodeText(value) : value
}

function decodeValue(value: unknown): unknown {
  return typeof value === 'string' ? decodeText(value) : value
}
