import { randomBytes } from 'node:crypto'
import pg from 'pg'

/** The server of the tests named `.pg`; `.ci/postgres <command>` starts one. */
const adminUrl = process.env.SLIPWAY_TEST_DATABASE_URL
export const hasTestDatabase = adminUrl !== undefined

/** An empty database, which is removed at the end. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  query(sql: string): Promise<readonly Record<string, unknown>[]>
}

export async function createTestDatabase(): Promise<TestDatabase> {
  const name = `slipway_${randomBytes(6).toString('hex')}`
  await runSql(adminUrl, `CREATE DATABASE ${name}`)
  const url = Object.assign(new URL(String(adminUrl)), { pathname: `/${name}` }).href
  return {
    url,
    query: (sql) => runSql(url, sql),
    [Symbol.asyncDispose]: () =>
      runSql(adminUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).then(() => {}),
  }
}

/** Runs a statement on its own connection. */
export async function runSql(
  url: string | undefined,
  sql: string,
): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}
