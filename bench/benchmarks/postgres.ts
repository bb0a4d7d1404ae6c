import { randomBytes } from 'node:crypto'
import { must } from '@slipway/protocol'
import { openServerStorage, type ReceivedEvent, type ServerStorage } from '@slipway/storage'
import pg from 'pg'
import type { Benchmark } from '../support/benchmark.ts'
import {
  type BenchContext,
  conversationId,
  importLog,
  startAgentServer,
  startFloor,
} from '../support/fixtures.ts'
import { generateLog } from '../support/generate-log.ts'
import { type Server, startHelper } from '../support/processes.ts'
import {
  atLeast,
  atMost,
  Floor,
  type MeasuredPair,
  percentile,
  type ResultRow,
} from '../support/result-table.ts'
import { SeededRandom } from '../support/seeded-random.ts'
import type { SubscribeRequest } from '../support/websocket-subscribers.ts'

const groupSize = 100
const leaseMs = 60_000
const text = 'a line of what was seen and done '.repeat(24)
const { SLIPWAY_TEST_DATABASE_URL: databaseUrl = '' } = process.env

/** Storage on PostgreSQL beside bare loops of the driver, on the server that `.ci/postgres` starts. */
export const postgres: Benchmark = {
  run: async (bench) => [await appends(bench), ...(await pagesAtDepth(bench)), await fanOut(bench)],
  whyUnavailable: async () =>
    databaseUrl === '' ? 'SLIPWAY_TEST_DATABASE_URL is not set: use `.ci/postgres npm run bench`' : undefined,
}

interface Schema {
  readonly name: string
  readonly url: string
}

async function withSchema<T>(work: (schema: Schema) => Promise<T>): Promise<T> {
  const name = `bench_${randomBytes(6).toString('hex')}`
  const url = new URL(databaseUrl)
  url.searchParams.set('options', `-c search_path=${name}`)
  await withClient(databaseUrl, (client) => client.query(`CREATE SCHEMA ${name}`))
  try {
    return await work({ name, url: url.href })
  } finally {
    await withClient(databaseUrl, (client) => client.query(`DROP SCHEMA ${name} CASCADE`))
  }
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

async function openIn(bench: BenchContext, { url }: Schema, leaseMs?: number): Promise<ServerStorage> {
  const directory = await bench.directory()
  return await openServerStorage({ directory, database: { url, leaseMs }, log: () => {} })
}

/** Durable appends of events of about 1 kB, a hundred callers at a time, beside `bareLoop`. */
async function appends(bench: BenchContext): Promise<ResultRow> {
  const events = [...generateLog({ count: bench.isQuick ? 500 : 10_000, words: 110 })]
  const pairs: MeasuredPair[] = []
  for (let round = 0; round < (bench.isQuick ? 1 : 5); round++)
    pairs.push(
      await withSchema(async (schema) => {
        const ours = await measureOurs(bench, schema, events)
        const floor = await withSchema((empty) => bareLoop(bench, schema, empty))
        return { ours, floor }
      }),
    )
  const floorName = 'a bare loop of the driver with the same rows'
  return atLeast(`received events, ${groupSize} at a time`, 'appends/s', { floorName, pairs }, 0.6)
}

async function measureOurs(
  bench: BenchContext,
  schema: Schema,
  events: readonly ReceivedEvent[],
): Promise<number> {
  await using storage = await openIn(bench, schema)
  await storage.conversations.create({ id: conversationId })
  return await measureRate(events.length, async () => {
    for (let i = 0; i < events.length; i += groupSize) {
      const group = events.slice(i, i + groupSize)
      await Promise.all(group.map((event) => storage.log.append(conversationId, [event])))
    }
  })
}

/** The same rows into the same tables: a transaction with a statement for each table and group. */
async function bareLoop(bench: BenchContext, from: Schema, into: Schema): Promise<number> {
  await (await openIn(bench, into))[Symbol.asyncDispose]()
  const read = (sql: string) =>
    withClient(
      from.url,
      async (client) => (await client.query<unknown[]>({ text: sql, rowMode: 'array' })).rows,
    )
  const events = await read('SELECT * FROM event ORDER BY position')
  const messages = await read('SELECT * FROM message ORDER BY position')
  return await withClient(into.url, async (client) => {
    await client.query(`INSERT INTO conversation SELECT * FROM ${from.name}.conversation`)
    return await measureRate(events.length, async () => {
      for (let i = 0; i < events.length; i += groupSize) {
        const inGroup = ([, position]: unknown[]) => Number(position) > i && Number(position) <= i + groupSize
        await client.query('BEGIN')
        await insertRows(client, 'event', events.slice(i, i + groupSize))
        await insertRows(client, 'message', messages.filter(inGroup))
        await client.query('UPDATE conversation SET head = $1, updated_at = updated_at + 1', [i + groupSize])
        await client.query('COMMIT')
      }
    })
  })
}

async function insertRows(client: pg.Client, table: string, rows: readonly unknown[][]): Promise<void> {
  if (rows.length === 0) return
  let number = 0
  const tuples = rows.map((row) => `(${row.map(() => `$${++number}`).join(', ')})`)
  await client.query(`INSERT INTO ${table} VALUES ${tuples.join(', ')}`, rows.flat())
}

/**
 * A page of 100 at a random place, beside the query of the same rows by their positions: from a server that
 * owns the data, and from one that shares it and asks for the end of the log each time.
 */
async function pagesAtDepth(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 2_000 : 1_000_000
  return await withSchema(async (schema) => {
    const name = `${count} events: p99 of a page at any depth`
    const rows: ResultRow[] = []
    {
      await using storage = await openIn(bench, schema)
      await importLog(storage, generateLog({ count, words: 8 }))
      rows.push(await measurePages(bench, { schema, storage, count, name }))
    }
    await using shared = await openIn(bench, schema, leaseMs)
    rows.push(
      await measurePages(bench, { schema, storage: shared, count, name: `${name}, of another server` }),
    )
    return rows
  })
}

async function measurePages(
  bench: BenchContext,
  measured: { schema: Schema; storage: ServerStorage; count: number; name: string },
): Promise<ResultRow> {
  const { schema, storage, count, name } = measured
  return await withClient(schema.url, async (client) => {
    await client.query('ANALYZE')
    const random = new SeededRandom(2)
    const ours: number[] = []
    const floor: number[] = []
    for (let i = 0; i < (bench.isQuick ? 20 : 400); i++) {
      const position = 1 + Math.floor(random.next() * (count - 100))
      const [event] = await storage.log.read(conversationId, position - 1, 1)
      const query = { limit: 100, sort_order: 'TIMESTAMP', page_id: must(event, 'the event').id } as const
      ours.push(await measureMs(() => storage.log.search(conversationId, query)))
      const sql = 'SELECT * FROM event WHERE conversation = 1 AND position >= $1 ORDER BY position LIMIT 101'
      floor.push(await measureMs(() => client.query({ text: sql, values: [position], rowMode: 'array' })))
    }
    const bare = Floor.of('a bare query of the same rows, p99', floor, 99)
    return atMost(name, 'ms', percentile(ours, 99), bare, 3)
  })
}

/**
 * An event of about 1 kB at a time, posted to two servers in turn and delivered to half of a thousand
 * WebSockets by each, beside a bare `ws` server that sends the same bytes to all: deliveries per CPU-second.
 */
async function fanOut(bench: BenchContext): Promise<ResultRow> {
  const { sockets, events } = bench.isQuick ? { sockets: 20, events: 10 } : { sockets: 1_000, events: 100 }
  return await withSchema(async (schema) => {
    {
      await using storage = await openIn(bench, schema)
      await storage.conversations.create({ id: conversationId })
    }
    const body = JSON.stringify({ role: 'user', content: [{ type: 'text', text }], run: false })
    const post = { path: `/api/conversations/${conversationId}/events`, body: Buffer.from(body) }
    const env = {
      SLIPWAY_DATABASE_URL: schema.url,
      SLIPWAY_SHARED_DATABASE: 'true',
      SLIPWAY_SECRET_KEY: 'the secret key of both servers',
    }
    const start = async () => await startAgentServer(bench, await bench.directory(), env)
    const path = `/sockets/events/${conversationId}`
    const ours = await measureDeliveries([await start(), await start()], {
      sockets,
      events,
      path,
      greeting: 1,
      post,
    })
    const [row] = await withClient(
      schema.url,
      async (client) => (await client.query<{ body: Buffer }>('SELECT body FROM event LIMIT 1')).rows,
    )
    const floorPost = { path: '/', body: Buffer.from(must(row, 'an event').body) }
    const floor = await measureDeliveries([await startFloor('broadcast')], {
      ...{ sockets, events, path: '/', greeting: 0, post: floorPost },
    })
    const name = `${sockets} sockets of two servers, events`
    const floorName = 'a bare `ws` server that sends the same bytes'
    return atLeast(name, 'deliveries per CPU-second', { floorName, pairs: [{ ours, floor }] }, 0.3)
  })
}

interface Delivery {
  readonly sockets: number
  readonly events: number
  readonly path: string
  readonly greeting: number
  readonly post: { readonly path: string; readonly body: Buffer<ArrayBuffer> }
}

/** Stops the servers. */
async function measureDeliveries(servers: readonly Server[], delivery: Delivery): Promise<number> {
  const { sockets, events, path, greeting, post } = delivery
  await using resources = new AsyncDisposableStack()
  const subscribers = servers.map((server) => {
    resources.use(server)
    return resources.use(startHelper<SubscribeRequest, undefined>('../support/websocket-subscribers.ts'))
  })
  for (const [at, server] of servers.entries()) {
    const count = sockets / servers.length
    await subscribers[at]?.ask({ do: 'open', port: server.port, path, count, greeting })
  }
  const send = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const { port } = must(servers[i % servers.length], 'a server')
      const headers = { 'content-type': 'application/json' }
      const init = { method: 'POST', headers, body: post.body }
      const response = await fetch(`http://127.0.0.1:${port}${post.path}`, init)
      if (response.status !== 200) throw new Error(`POST ${post.path}: ${response.status}`)
      await response.arrayBuffer()
      await Promise.all(subscribers.map((each) => each.ask({ do: 'wait', frames: 1 })))
    }
  }
  const cpuSeconds = () => servers.reduce((sum, server) => sum + server.cpuSeconds(), 0)
  await send(10)
  const before = cpuSeconds()
  await send(events)
  return (sockets * events) / (cpuSeconds() - before)
}

async function measureRate(count: number, work: () => Promise<void>): Promise<number> {
  return count / ((await measureMs(work)) / 1000)
}

async function measureMs(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
