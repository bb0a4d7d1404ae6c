import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { conversation, otherConversation, readAll } from '../testing/fixtures.ts'
import { openPostgresStorage } from './storage.ts'
import {
  createTestSchema,
  describePostgres,
  endConnections,
  runSql,
  type TestSchema,
  testDatabaseUrl,
} from './testing/test-database.ts'

vi.setConfig({ testTimeout: 120_000 })
const draft = { kind: 'PauseEvent', source: 'user' }

describePostgres('storage on PostgreSQL, failures', () => {
  test('two servers that start at once create the tables once, and the second is refused while the first runs', async () => {
    await using schema = await createTestSchema()
    const opened = await Promise.allSettled([open(schema), open(schema)])
    const storages = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    try {
      expect(storages).toHaveLength(1)
      expect(opened.find(({ status }) => status === 'rejected')).toMatchObject({
        reason: { message: 'The database is in use by another server' },
      })
    } finally {
      for (const storage of storages) await storage[Symbol.asyncDispose]()
    }
    await (await open(schema))[Symbol.asyncDispose]()
  })

  test('a server that was replaced cannot write any more', async () => {
    await using schema = await createTestSchema()
    const first = await open(schema)
    await first.conversations.create({ id: conversation })
    await first.log.append(conversation, [draft])
    // It holds its lock no longer, and does not know it: as after a partition of the network.
    await runSql('UPDATE owner SET epoch = epoch + 1', schema.url)
    const refused = [
      () => first.log.append(conversation, [draft]),
      () => first.conversations.create({ id: otherConversation }),
      () => first.conversations.remove(conversation),
    ]
    for (const attempt of refused)
      await expect(attempt()).rejects.toMatchObject({
        code: 'unavailable',
        message: 'Another server has taken over the database',
      })
    expect(first.problem).toBeDefined()
    await first[Symbol.asyncDispose]()
    await using second = await open(schema)
    expect(await readAll(second)).toHaveLength(1)
    await second.log.append(conversation, [draft])
  })

  test('a database of a newer version is refused, and left as it is', async () => {
    await using schema = await createTestSchema()
    await (await open(schema))[Symbol.asyncDispose]()
    await runSql('UPDATE slipway_schema SET version = version + 1', schema.url)
    await expect(open(schema)).rejects.toThrow('start the newer server')
    await expect(open(schema)).rejects.toThrow('start the newer server')
  })

  test('a database that acknowledges commits too early is refused', async () => {
    await using schema = await createTestSchema()
    const url = new URL(schema.url)
    url.searchParams.set('options', `${url.searchParams.get('options')} -c synchronous_commit=off`)
    await expect(openPostgresStorage({ url: url.href })).rejects.toThrow('synchronous_commit')
  })

  test('an error at the start names no password', async () => {
    const url = 'postgres://slipway:hidden-password@127.0.0.1:1/none'
    const error: unknown = await openPostgresStorage({ url }).catch((reason: unknown) => reason)
    expect(String(error)).toContain('ECONNREFUSED')
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('hidden-password')
  })

  test('connections that are ended under load lose, double and reorder nothing that was acknowledged', async () => {
    await using schema = await createTestSchema()
    await using storage = await open(schema)
    const ids = [conversation, otherConversation]
    for (const id of ids) await storage.conversations.create({ id })
    const stored = new Map<string, string[]>(ids.map((id) => [id, []]))
    let isOver = false
    const write = async (id: string) => {
      for (let n = 0; !isOver; n++) {
        const event = { ...draft, id: `${id}-${n}` }
        // An append whose answer was lost is repeated with its id, as a client does.
        for (;;) {
          try {
            await storage.log.append(id, [event])
            break
          } catch (error) {
            expect(error).toMatchObject({ code: 'unavailable' })
            await pause(20)
          }
        }
        stored.get(id)?.push(event.id)
      }
    }
    const writers = ids.map(write)
    for (let round = 0; round < 15; round++) {
      await pause(100 * Math.random())
      await endConnections(schema)
    }
    isOver = true
    await Promise.all(writers)
    for (const id of ids) {
      const events = await readAll(storage, id)
      expect(events.map((event) => event.id)).toEqual(stored.get(id))
      expect(events.map(({ position }) => position)).toEqual(events.map((_, i) => i + 1))
    }
  })

  test('while the database cannot be reached, calls are refused as retryable; later they and the tails continue', async () => {
    await using schema = await createTestSchema()
    await using proxy = await startProxy()
    const url = new URL(schema.url)
    url.port = String(proxy.port)
    await using storage = await openPostgresStorage({ url: url.href })
    await storage.conversations.create({ id: conversation })
    await storage.log.append(conversation, [draft])
    const positions: number[] = []
    const stop = new AbortController()
    const tail = (async () => {
      for await (const batch of storage.log.tail(conversation, 0, stop.signal))
        positions.push(...batch.map(({ position }) => position))
    })()
    await expect.poll(() => positions, { timeout: 30_000 }).toEqual([1])
    proxy.cut()
    const calls = [
      () => storage.log.append(conversation, [draft]),
      () => storage.log.get(conversation, ['x']),
      () => storage.conversations.get([conversation]),
      () => storage.deliveries.listPending('r', 10),
    ]
    for (const call of calls)
      await expect(call()).rejects.toMatchObject({
        code: 'unavailable',
        retryAfterSeconds: expect.any(Number),
      })
    expect(storage.problem).toMatchObject({ code: 'unavailable' })
    await proxy.restore()
    await expect.poll(() => storage.problem, { timeout: 30_000 }).toBeUndefined()
    await storage.log.append(conversation, [draft])
    await expect.poll(() => positions, { timeout: 30_000 }).toEqual([1, 2])
    expect(await storage.deliveries.listPending('r', 10)).toHaveLength(1)
    stop.abort()
    await tail
  })
})

function open(schema: TestSchema) {
  return openPostgresStorage({ url: schema.url })
}

/** Passes connections on to the server of the tests, until it is cut. */
async function startProxy() {
  const target = new URL(testDatabaseUrl)
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far).pipe(near)
  })
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as { readonly port: number }).port
  }
  const cut = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  const port = await listen(0)
  return {
    port,
    cut,
    restore: () => listen(port),
    async [Symbol.asyncDispose]() {
      cut()
    },
  }
}
