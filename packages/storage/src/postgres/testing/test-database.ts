import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { describe } from 'vitest'
import type { OpenStorage } from '../../testing/fixtures.ts'
import { openPostgresStorage, type PostgresStorage } from '../storage.ts'

/** The server of the tests; `.ci/postgres <command>` starts one. */
export const testDatabaseUrl = process.env.SLIPWAY_TEST_DATABASE_URL ?? ''

/** Tests that need a server; without one they are skipped with a message. */
export const describePostgres = testDatabaseUrl === '' ? describe.skip : describe
if (testDatabaseUrl === '')
  console.warn('SKIPPED: SLIPWAY_TEST_DATABASE_URL is not set; run the tests by `.ci/postgres <command>`')

/** An empty schema, which is removed at the end. */
export interface TestSchema extends AsyncDisposable {
  readonly name: string
  /** A URL that leads to the schema. */
  readonly url: string
}

export async function createTestSchema(): Promise<TestSchema> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await runSql(`CREATE SCHEMA ${name}`)
  return {
    name,
    url: schemaUrl(testDatabaseUrl, name),
    [Symbol.asyncDispose]: () => runSql(`DROP SCHEMA ${name} CASCADE`).then(() => {}),
  }
}

export function schemaUrl(base: string, schema: string): string {
  const url = new URL(base)
  url.searchParams.set('options', `-c search_path=${schema}`)
  // The connections of a test can be told from others by their name.
  url.searchParams.set('application_name', schema)
  return url.href
}

/** Runs statements on its own connection; resolves with the rows of the last. */
export async function runSql(
  sql: string,
  url = testDatabaseUrl,
): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    const results = await client.query(sql)
    return (Array.isArray(results) ? results.at(-1) : results).rows
  } finally {
    await client.end()
  }
}

/** Ends all connections to a schema. */
export async function endConnections({ name }: TestSchema): Promise<void> {
  await runSql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '${name}'`)
}

/** The same, which shares the schema: what changes a conversation takes its lease first. */
export const openSharedTestStorage: OpenStorage = async (options = {}) => {
  const schema = await createTestSchema()
  const open = async () => {
    const storage = await openPostgresStorage({ ...options, url: schema.url, leaseMs: 10_000 })
    return {
      log: withLease(storage, storage.log, ['append']),
      conversations: withLease(storage, storage.conversations, ['patch', 'remove', 'saveSnapshot']),
      deliveries: storage.deliveries,
      startImport: (conversation: string) => storage.startImport(conversation),
      waitUntilIndexed: () => storage.waitUntilIndexed(),
      overwriteRemoved: () => storage.overwriteRemoved(),
      releaseMemory: () => storage.releaseMemory(),
      [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
    }
  }
  let storage = await open()
  return {
    get storage() {
      return storage
    },
    async reopen() {
      await storage[Symbol.asyncDispose]()
      storage = await open()
      return storage
    },
    async [Symbol.asyncDispose]() {
      await storage[Symbol.asyncDispose]()
      await schema[Symbol.asyncDispose]()
    },
  }
}

function withLease<T extends object>(storage: PostgresStorage, target: T, names: readonly string[]): T {
  return new Proxy(target, {
    get(_, name) {
      const method: unknown = Reflect.get(target, name)
      if (typeof method !== 'function') return method
      if (!names.includes(String(name))) return method.bind(target)
      return (conversation: string, ...rest: unknown[]) => {
        const call = () => method.call(target, conversation, ...rest)
        return storage.leases?.isHeld(conversation)
          ? call()
          : storage.leases?.acquire(conversation).then(call)
      }
    },
  })
}

/** A storage in its own schema. */
export const openTestStorage: OpenStorage = async (options = {}) => {
  const schema = await createTestSchema()
  let storage = await openPostgresStorage({ ...options, url: schema.url })
  return {
    get storage() {
      return storage
    },
    async reopen() {
      await storage[Symbol.asyncDispose]()
      storage = await openPostgresStorage({ ...options, url: schema.url })
      return storage
    },
    async [Symbol.asyncDispose]() {
      await storage[Symbol.asyncDispose]()
      await schema[Symbol.asyncDispose]()
    },
  }
}
