import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, test, vi } from 'vitest'
import { openPostgresStorage } from '../storage.ts'
import {
  createTestSchema,
  describePostgres,
  endConnections,
  runSql,
  type TestSchema,
} from '../testing/test-database.ts'
import { openPostgresControlPlaneStore } from './control-plane-store.ts'
import { openSharedPostgresStorage } from './shared-storage.ts'

vi.setConfig({ testTimeout: 120_000 })
const servers = 3
const patience = { timeout: 30_000 }
const perServer = 40

describePostgres('logs that several control planes write', () => {
  test('appends of all servers to one conversation follow each other without gap or repeat', async () => {
    await using schema = await createTestSchema()
    await using stack = new AsyncDisposableStack()
    const all = await openAll(schema, stack)
    const id = randomUUID()
    const created = await Promise.all(all.map(({ conversations }) => conversations.create({ id })))
    expect(created.filter(({ created }) => created)).toHaveLength(1)
    const write = async (server: number, n: number) => {
      const event = { id: `${server}-${n}`, kind: `Kind${n % 7}${server}`, source: 'agent' }
      return (await all[server]?.log.append(id, [event]))?.[0]?.position
    }
    const writes = all.map(async (_, server) => {
      const positions: unknown[] = []
      for (let n = 0; n < perServer; n++) positions.push(await write(server, n))
      return positions
    })
    const positions = (await Promise.all(writes)).flat()
    const expected = Array.from({ length: servers * perServer }, (_, n) => n + 1)
    expect(positions.toSorted((a, b) => Number(a) - Number(b))).toEqual(expected)
    for (const { log } of all) {
      expect((await log.read(id, 0, 1_000)).map(({ position }) => position)).toEqual(expected)
      expect(await log.count(id, { kind: 'Kind30' })).toBe(perServer / 8 + 1)
    }
    // The same event through another server is stored once.
    expect(await write(0, 0)).toBe((await all[1]?.log.get(id, ['0-0']))?.[0]?.position)
    expect(await all[2]?.conversations.remove(id)).toBe(true)
    await expect(all[0]?.log.append(id, [{ kind: 'A', source: 'user' }])).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('connections that are ended lose and double nothing that was acknowledged', async () => {
    await using schema = await createTestSchema()
    await using stack = new AsyncDisposableStack()
    const all = await openAll(schema, stack)
    const id = randomUUID()
    await all[0]?.conversations.create({ id })
    let isOver = false
    const stored = await Promise.all([
      ...all.map(async ({ log }, server) => {
        const ids: string[] = []
        for (let n = 0; !isOver; n++) {
          const event = { id: `${server}-${n}`, kind: 'A', source: 'agent' }
          const append = () => log.append(id, [event]).catch((error) => void checkRetryable(error))
          while ((await append()) === undefined) await new Promise((resolve) => setTimeout(resolve, 20))
          ids.push(event.id)
        }
        return ids
      }),
      (async () => {
        for (let round = 0; round < 8; round++) {
          await new Promise((resolve) => setTimeout(resolve, 200 * Math.random()))
          await endConnections(schema)
        }
        isOver = true
        return []
      })(),
    ])
    const events = (await all[0]?.log.read(id, 0, 100_000)) ?? []
    expect(events.map((event) => event.id).toSorted()).toEqual(stored.flat().toSorted())
    expect(events.map(({ position }) => position)).toEqual(events.map((_, index) => index + 1))
  })

  test('a write whose turn was lost to another server may be repeated, and is stored once', async () => {
    await using schema = await createTestSchema()
    await using stack = new AsyncDisposableStack()
    const [first, second] = await openAll(schema, stack)
    const id = randomUUID()
    const append = (server: typeof first, name: string) =>
      server?.log.append(id, [{ id: name, kind: 'A', source: 'agent' }])
    await first?.conversations.create({ id })
    await append(first, 'before')
    const client = new pg.Client(schema.url)
    await client.connect()
    stack.defer(() => client.end())
    const blocked = (count: number) =>
      expect
        .poll(async () => {
          // On another connection: within a transaction the view does not change.
          const rows = await runSql(
            `SELECT 1 FROM pg_stat_activity WHERE application_name = '${schema.name}' AND wait_event_type = 'Lock'`,
          )
          return rows.length
        }, patience)
        .toBe(count)
    await client.query('BEGIN')
    await client.query('SELECT 1 FROM conversation WHERE id = $1 FOR UPDATE', [id])
    const writes = [append(first, 'of the first')]
    await blocked(1)
    // The turn ends with its connection, the write continues: the second server begins beside it.
    const [row] = (await client.query('SELECT pg_backend_pid() AS own')).rows
    await runSql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = '${schema.name}' AND state = 'idle in transaction' AND pid <> ${row.own}`)
    writes.push(append(second, 'of the second'))
    await blocked(2)
    await client.query('COMMIT')
    const outcomes = await Promise.allSettled(writes)
    const refused = outcomes.filter(({ status }) => status === 'rejected')
    expect(refused).toMatchObject([{ reason: { code: 'unavailable' } }])
    for (const [server, name] of [
      [first, 'of the first'],
      [second, 'of the second'],
    ] as const)
      await expect.poll(() => append(server, name)?.catch(checkRetryable), patience).toBeDefined()
    const events = (await first?.log.read(id, 0, 10)) ?? []
    expect(events.map(({ position }) => position)).toEqual([1, 2, 3])
    expect(events.map((event) => event.id).toSorted()).toEqual(['before', 'of the first', 'of the second'])
  })

  test('an agent server and a control plane refuse the tables of the other', async () => {
    await using first = await createTestSchema()
    await (await openPostgresStorage({ url: first.url }))[Symbol.asyncDispose]()
    await expect(openSharedPostgresStorage({ url: first.url })).rejects.toThrow('belongs to an agent server')
    await using second = await createTestSchema()
    await (await openPostgresControlPlaneStore({ url: second.url }))[Symbol.asyncDispose]()
    await expect(openPostgresStorage({ url: second.url })).rejects.toThrow('belongs to a sandbox server')
  })
})

async function openAll(schema: TestSchema, stack: AsyncDisposableStack) {
  const all = []
  for (let server = 0; server < servers; server++)
    all.push(stack.use(await openSharedPostgresStorage({ url: schema.url })))
  return all
}

function checkRetryable(error: unknown): void {
  expect(error).toMatchObject({ code: 'unavailable' })
}
