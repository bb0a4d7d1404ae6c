import pg from 'pg'
import { expect, test, vi } from 'vitest'
import { HeldElsewhereError } from '../../conversations/leases.ts'
import { conversation, otherConversation, readAll, receivedEvent } from '../../testing/fixtures.ts'
import { openPostgresStorage, type PostgresStorage } from '../storage.ts'
import {
  createTestSchema,
  describePostgres,
  endConnections,
  runSql,
  type TestSchema,
} from '../testing/test-database.ts'

vi.setConfig({ testTimeout: 120_000 })
const third = '2f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const draft = { kind: 'PauseEvent', source: 'user' }
const pollOptions = { timeout: 60_000, interval: 50 }

describePostgres('servers that share a database', () => {
  test('a conversation is written by the server that has its lease, and read by all', async () => {
    await using schema = await createTestSchema()
    await using a = await open(schema)
    await using b = await open(schema)
    await a.leases?.announce('http://127.0.0.1:1')
    await a.conversations.create({ id: conversation })
    expect(await a.leases?.acquire(conversation)).toEqual({ isOwn: true })
    expect(await b.leases?.acquire(conversation)).toEqual({ isOwn: false, url: 'http://127.0.0.1:1' })
    await a.log.append(conversation, [draft])
    const refused = [
      () => b.log.append(conversation, [draft]),
      () => b.conversations.patch(conversation, { title: 'x' }),
      () => b.conversations.remove(conversation),
      () => b.conversations.saveSnapshot(conversation, { position: 1, text: '{}' }),
      () => b.startImport(conversation),
    ]
    for (const attempt of refused) await expect(attempt()).rejects.toThrow(HeldElsewhereError)
    expect(await b.conversations.create({ id: conversation })).toMatchObject({ created: false })
    expect(await readAll(b)).toEqual(await readAll(a))
    const stop = new AbortController()
    const positions: number[] = []
    const tail = (async () => {
      for await (const batch of b.log.tail(conversation, 0, stop.signal))
        positions.push(...batch.map(({ position }) => position))
    })()
    for (let i = 0; i < 20; i++) await a.log.append(conversation, [draft])
    await expect.poll(() => positions.length, pollOptions).toBe(21)
    expect(positions).toEqual(positions.map((_, i) => i + 1))
    await a.leases?.release(conversation)
    expect(await b.leases?.acquire(conversation)).toEqual({ isOwn: true })
    await b.log.append(conversation, [draft])
    await expect.poll(() => positions.length, pollOptions).toBe(22)
    await expect(a.log.append(conversation, [draft])).rejects.toThrow(HeldElsewhereError)
    stop.abort()
    await tail
  })

  test('notices may be lost: readers look on their own', async () => {
    await using schema = await createTestSchema()
    await using a = await open(schema)
    // Nothing listens at this address, as behind a pooler that passes no notices on.
    await using b = await openPostgresStorage({
      url: schema.url,
      directUrl: 'postgres://127.0.0.1:1/none',
      leaseMs: 5_000,
    })
    await a.conversations.create({ id: conversation })
    const stop = new AbortController()
    const positions: number[] = []
    const tail = (async () => {
      for await (const batch of b.log.tail(conversation, 0, stop.signal))
        positions.push(...batch.map(({ position }) => position))
    })()
    for (let i = 1; i <= 3; i++) {
      await a.log.append(conversation, [draft])
      await expect.poll(() => positions.length, pollOptions).toBe(i)
    }
    await a.conversations.remove(conversation)
    await tail
  })

  test('a server whose registration was ended is told so, and writes nothing more', async () => {
    await using schema = await createTestSchema()
    await using a = await open(schema)
    await using b = await open(schema)
    await a.conversations.create({ id: conversation })
    await a.leases?.acquire(conversation)
    await a.log.append(conversation, [draft])
    let losses = 0
    a.leases?.onLost(async () => void losses++)
    // As after a stop of the process that was longer than the lease.
    await runSql('DELETE FROM agent_server WHERE id IN (SELECT server FROM conversation)', schema.url)
    expect(await b.leases?.acquire(conversation)).toEqual({ isOwn: true })
    await expect(a.log.append(conversation, [draft])).rejects.toThrow(HeldElsewhereError)
    await expect(a.conversations.remove(conversation)).rejects.toThrow(HeldElsewhereError)
    await b.log.append(conversation, [draft])
    expect(await readAll(b)).toHaveLength(2)
    await expect.poll(() => losses, pollOptions).toBe(1)
    await b.leases?.release(conversation)
    await expect
      .poll(() => a.leases?.acquire(conversation).catch(() => undefined), pollOptions)
      .toEqual({ isOwn: true })
    await a.log.append(conversation, [draft])
    expect((await readAll(b)).map(({ position }) => position)).toEqual([1, 2, 3])
  })

  test('a server that stands still within its renewal delays the end of no other', async () => {
    await using schema = await createTestSchema()
    await using b = await open(schema)
    await using a = await open(schema)
    await a.conversations.create({ id: conversation })
    await a.leases?.acquire(conversation)
    const holder = new pg.Client({ connectionString: schema.url })
    await holder.connect()
    try {
      await holder.query(`INSERT INTO agent_server (id, url, expires_at) VALUES ('still', '', now())`)
      await holder.query(`BEGIN; UPDATE agent_server SET url = 'x' WHERE id = 'still'`)
      await runSql(
        `UPDATE agent_server SET expires_at = now() - interval '1 hour'
          WHERE id IN (SELECT server FROM conversation)`,
        schema.url,
      )
      expect(await b.leases?.acquire(conversation)).toEqual({ isOwn: true })
    } finally {
      await holder.end()
    }
  })

  test('conversations that ran on a server that is gone are reported to another', async () => {
    await using schema = await createTestSchema()
    await using b = await open(schema)
    const orphans: string[] = []
    b.leases?.onOrphans(async (ids) => {
      for (const id of ids) {
        await b.leases?.acquire(id)
        orphans.push(id)
      }
    })
    {
      await using a = await open(schema)
      await a.conversations.create({ id: conversation, status: 'running' })
      await a.conversations.create({ id: otherConversation, status: 'idle' })
      await b.conversations.create({ id: '00000000-0000-4000-8000-00000000000b', status: 'running' })
      expect(orphans).toEqual([])
    }
    await expect.poll(() => orphans, pollOptions).toEqual([conversation])
  })

  test('servers add kinds at the same time, and each finds the events of all', async () => {
    await using schema = await createTestSchema()
    await using a = await open(schema)
    await using b = await open(schema)
    await a.conversations.create({ id: conversation })
    await b.conversations.create({ id: otherConversation })
    await b.conversations.create({ id: third })
    const kinds = Array.from({ length: 12 }, (_, i) => `Kind${i}`)
    const writeAll = async (storage: PostgresStorage, id: string, names: readonly string[]) => {
      for (const kind of names) await storage.log.append(id, [{ kind, source: 'agent' }])
    }
    await Promise.all([
      writeAll(a, conversation, kinds),
      writeAll(b, otherConversation, kinds),
      writeAll(b, third, kinds.toReversed()),
    ])
    for (const storage of [a, b])
      for (const id of [conversation, otherConversation, third])
        for (const kind of kinds) expect(await storage.log.count(id, { kind })).toBe(1)
  })

  test('of two servers that create a conversation at the same time one does', async () => {
    await using schema = await createTestSchema()
    await using a = await open(schema)
    await using b = await open(schema)
    for (let i = 0; i < 20; i++) {
      const id = `00000000-0000-4000-8000-0000000000${10 + i}`
      const results = await Promise.all([a, b].map((storage) => storage.conversations.create({ id })))
      expect(results.map(({ created }) => created).toSorted()).toEqual([false, true])
    }
    expect(await a.conversations.count()).toBe(20)
  })

  test('what an import of a server that is gone has left is removed before the next write', async () => {
    await using schema = await createTestSchema()
    await using b = await open(schema)
    const a = await open(schema)
    await a.conversations.create({ id: conversation })
    await a.log.append(conversation, [draft])
    const session = await a.startImport(conversation)
    await session.add([receivedEvent('x', 1), receivedEvent('y', 2)])
    await runSql('DELETE FROM agent_server WHERE id IN (SELECT server FROM conversation)', schema.url)
    expect(await b.leases?.acquire(conversation)).toEqual({ isOwn: true })
    await b.log.append(conversation, [draft])
    await expect(session.add([receivedEvent('z', 3)])).rejects.toThrow(HeldElsewhereError)
    await expect(session.publish({})).rejects.toThrow(HeldElsewhereError)
    await session.abort().catch(() => {})
    expect(await readAll(b)).toHaveLength(2)
    await a[Symbol.asyncDispose]()
    expect((await readAll(b)).map(({ position }) => position)).toEqual([1, 2])
  })

  test('one server delivers to a receiver; another continues when it is gone', async () => {
    await using schema = await createTestSchema()
    await using b = await open(schema)
    {
      await using a = await open(schema)
      expect(await a.deliveries.listPending('r', 10)).toEqual([])
      await b.conversations.create({ id: conversation })
      expect(await b.deliveries.listPending('r', 10)).toEqual([])
      const listed = async () => (await a.deliveries.listPending('r', 10)).map((one) => one.conversation)
      await expect.poll(listed, pollOptions).toEqual([conversation])
      await a.deliveries.advance('r', conversation, { position: 0, updated_at: 1 })
      await b.log.append(conversation, [draft])
      const pending = () => a.deliveries.listPending('r', 10)
      await expect.poll(pending, pollOptions).toMatchObject([{ conversation, position: 0, updated_at: 1 }])
    }
    expect(await b.deliveries.listPending('r', 10)).toMatchObject([{ conversation, updated_at: 1 }])
  })

  test('a server that owns the data alone and servers that share it keep each other out', async () => {
    await using schema = await createTestSchema()
    {
      await using _ = await open(schema)
      await expect(openPostgresStorage({ url: schema.url })).rejects.toThrow(
        'in use by servers that share it',
      )
    }
    await using __ = await openPostgresStorage({ url: schema.url })
    await expect(open(schema)).rejects.toThrow('by a server that does not share it')
  })

  test('connections that are ended under load lose, double and reorder nothing that was acknowledged', async () => {
    await using schema = await createTestSchema()
    await using a = await open(schema)
    await using b = await open(schema)
    const writers = [
      [a, conversation],
      [b, otherConversation],
    ] as const
    let isOver = false
    const written = writers.map(async ([storage, id]) => {
      await storage.conversations.create({ id })
      const ids: string[] = []
      for (let n = 0; !isOver; n++) {
        const event = { ...draft, id: `${id}-${n}` }
        const write = () =>
          storage.log.append(id, [event]).then(
            () => true,
            () => false,
          )
        // An append whose answer was lost is repeated with its id, as a client does.
        while (!(await write())) await new Promise((resolve) => setTimeout(resolve, 20))
        ids.push(event.id)
      }
      return ids
    })
    for (let round = 0; round < 8; round++) {
      await new Promise((resolve) => setTimeout(resolve, 150))
      await endConnections(schema)
    }
    isOver = true
    await Promise.all(written)
    for (const [index, [, id]] of writers.entries()) {
      const events = await readAll(index === 0 ? b : a, id)
      expect(events.map((event) => event.id)).toEqual(await written[index])
      expect(events.map(({ position }) => position)).toEqual(events.map((_, i) => i + 1))
    }
  })
})

function open(schema: TestSchema): Promise<PostgresStorage> {
  return openPostgresStorage({ url: schema.url, leaseMs: 5_000 })
}
