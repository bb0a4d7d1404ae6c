import { randomUUID } from 'node:crypto'
import { afterAll, expect, test, vi } from 'vitest'
import { FaultRounds, type Faulty, type Operation, type State } from '../../testing/faults/fault-rounds.ts'
import { PostgresDatabase } from '../database/database.ts'
import { openPostgresStorage } from '../storage.ts'
import { DatabaseProxy } from '../testing/database-proxy.ts'
import { createTestSchema, describePostgres, runSql } from '../testing/test-database.ts'
import { PostgresConversationLeases } from './conversation-leases.ts'
import { Registration } from './registration.ts'

vi.setConfig({ testTimeout: 300_000, maxConcurrency: 6 })
/** The longest that a client waits for an answer, above what a busy machine takes for one. */
const queryMs = 2_000
/** Nothing is renewed or swept on its own. */
const leaseMs = 60_000_000
const counts: string[] = []
afterAll(() => console.log(`leases on PostgreSQL, points and rounds: ${counts.join(', ')}`))

/** What two servers share, as the first sees it through a proxy. */
interface Server {
  readonly db: PostgresDatabase
  readonly registration: Registration
  readonly leases: PostgresConversationLeases
  /** Servers that were registered, by round. */
  readonly registered: Map<string, string>
  query(sql: string): Promise<readonly Record<string, unknown>[]>
}

/** Conversations of one round: of nobody, of this server, and of one that is `gone`. */
interface LeaseIds {
  readonly free: string
  readonly held: string
  readonly orphan: string
  readonly gone: string
}

const rounds = new FaultRounds<Server, LeaseIds>({
  newIds: () => ({ free: randomUUID(), held: randomUUID(), orphan: randomUUID(), gone: randomUUID() }),
  async setUp({ query, registration, leases }, { free, held, orphan, gone }) {
    const rows = [free, held, orphan].map(
      (id) => `('${id}', '{}', '{}', 'idle', 1, 1, true, ${id === orphan ? `'${gone}'` : 'NULL'})`,
    )
    await query(`INSERT INTO agent_server VALUES ('${gone}', 'http://gone', now() - interval '1 hour');
      INSERT INTO conversation (id, tags, tag_keys, status, created_at, updated_at, is_visible, server)
        VALUES ${rows.join()};
      UPDATE agent_server SET url = '', expires_at = now() + interval '1 hour' WHERE id = '${registration.id}'`)
    await leases.acquire(held)
  },
  async goOn({ leases }, { free, held, orphan }) {
    for (const id of [free, held, orphan]) await leases.acquire(id)
  },
  observe,
})

async function observe({ query, registration, registered }: Server, ids: LeaseIds): Promise<State> {
  const { free, held, orphan, gone } = ids
  const holders = await query(
    `SELECT id, server FROM conversation WHERE id IN ('${free}', '${held}', '${orphan}')`,
  )
  const name = (server: unknown) => (server === registration.id ? 'own' : server === gone ? 'gone' : server)
  const holderOf = (id: string) => name(holders.find((row) => row.id === id)?.server)
  const servers = await query(
    `SELECT id, url, expires_at > now() + interval '2 hours' AS is_renewed FROM agent_server`,
  )
  const own = servers.find(({ id }) => id === registration.id)
  const duties = await query(`SELECT server FROM duty WHERE name = '${free}'`)
  return {
    seen: {
      conversations: [holderOf(free), holderOf(held), holderOf(orphan)],
      own: [own?.url, own?.is_renewed],
      duty: duties.map(({ server }) => name(server)),
      registered: servers.some(({ id }) => id === registered.get(free)),
    },
  }
}

const operations: readonly Operation<Server, LeaseIds>[] = [
  { name: 'claim', run: ({ leases }, { free }) => leases.acquire(free) },
  { name: 'takeover', run: ({ leases }, { orphan }) => leases.acquire(orphan) },
  { name: 'release', run: ({ leases }, { held }) => leases.release(held) },
  { name: 'duty', run: ({ leases }, { free }) => leases.holdsDuty(free) },
  { name: 'renewal', run: ({ registration }) => registration.renew() },
  { name: 'address', run: ({ leases }) => leases.announce('http://own') },
  {
    name: 'removal of servers that are gone',
    run: async ({ registration, query }, { gone }) => {
      await registration.removeExpired()
      expect(await query(`SELECT id FROM agent_server WHERE id = '${gone}'`)).toEqual([])
    },
  },
  {
    name: 'registration',
    run: async ({ db, registered }, { free }) => {
      const options = { db, leaseMs, log: () => {}, onLost: async () => {}, onSweep: async () => {} }
      registered.set(free, (await Registration.open(options)).id)
    },
  },
]

describePostgres.concurrent('every statement and commit of leases on PostgreSQL', () => {
  test.for(operations)(
    'fails, is cut, done late, or done and reported as failed: $name',
    async (operation) => {
      await using fixture = await open()
      const faults = [{ fault: 'fail' }, { fault: 'cut' }, { fault: 'lose' }, { fault: 'late' }] as const
      const { points, rounds: count } = await rounds.runAll(fixture, operation, () => faults)
      counts.push(`${operation.name} ${points} and ${count}`)
    },
  )
})

async function open(): Promise<Faulty<Server>> {
  const schema = await createTestSchema()
  await (await openPostgresStorage({ url: schema.url, leaseMs }))[Symbol.asyncDispose]()
  const proxy = await DatabaseProxy.open(schema.url)
  const db = new PostgresDatabase(proxy.url(queryMs), () => {})
  const registration: Registration = await Registration.open({
    ...{ db, leaseMs, log: () => {} },
    onLost: () => leases.lose(),
    onSweep: async () => {},
  })
  const leases = new PostgresConversationLeases({ db, registration, onAcquired: async () => {} })
  const query = (sql: string) => runSql(sql, schema.url)
  const opened: Server = { db, registration, leases, registered: new Map(), query }
  return {
    faults: proxy,
    opened,
    reopen: async () => opened,
    async [Symbol.asyncDispose]() {
      await registration[Symbol.asyncDispose]()
      await db.close()
      await proxy[Symbol.asyncDispose]()
      await schema[Symbol.asyncDispose]()
    },
  }
}
