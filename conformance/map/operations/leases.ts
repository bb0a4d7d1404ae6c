import { mkdir } from 'node:fs/promises'
import { afterAll, expect } from 'vitest'
import { groupSessionKey, ServerGroup } from '../../support/server-group.ts'
import { createTestDatabase, hasTestDatabase } from '../../support/test-database.ts'
import { expectAnswer } from '../answers.ts'
import { differs, mapCase } from '../frame.ts'
import { finishReply, heldReply, MapClient, OwnMapServer, openModel, waitFor } from '../map-server.ts'

if (!hasTestDatabase)
  console.warn('SKIPPED: SLIPWAY_TEST_DATABASE_URL is not set; run the cases by `.ci/postgres <command>`')

const leaseSeconds = 4
const needsDatabase = { hasOwnServer: true, isUnavailable: !hasTestDatabase, timeout: 120_000 }
const elsewhere = 'a conversation that another server has'

/** Two servers that share a database: what one holds by a lease, the other sees. */
class SharedServers implements AsyncDisposable {
  /** Those of all cases that do not count conversations. */
  static #ofAll: SharedServers | undefined
  readonly group: ServerGroup
  readonly clients: readonly [MapClient, MapClient]
  readonly #ended = new Set<number>()

  private constructor(group: ServerGroup) {
    this.group = group
    const clients = [new MapClient('', groupSessionKey), new MapClient('', groupSessionKey)] as const
    for (const client of clients) client.directory = group.workspaces
    this.clients = clients
    this.#readUrls()
  }

  static async open(): Promise<SharedServers> {
    const group = await ServerGroup.open(2, { leaseSeconds, env: { SLIPWAY_WIRE: 'current' } })
    await mkdir(group.workspaces, { recursive: true })
    return new SharedServers(group)
  }

  /** The servers of all cases, both running: starts would be most of what a case costs. */
  static async ofAll(): Promise<SharedServers> {
    SharedServers.#ofAll ??= await SharedServers.open()
    const servers = SharedServers.#ofAll
    for (const index of servers.clients.keys()) {
      if (servers.#ended.has(index)) await servers.restart(index)
      // A case that failed may have left it frozen, without leases.
      else servers.signal(index, 'SIGCONT')
      await servers.waitForLeases(index)
    }
    return servers
  }

  static async closeAll(): Promise<void> {
    await SharedServers.#ofAll?.[Symbol.asyncDispose]()
  }

  /** The member that has the conversation, and the number of its lease. */
  async lease(id: string): Promise<{ readonly name: string; readonly epoch: number } | undefined> {
    const lease = await this.group.leaseOf(id)
    return lease && { name: lease.member.name, epoch: lease.epoch }
  }

  /** Milliseconds until the lease of a server ends; undefined without a row. */
  async leaseEndsIn(index: number): Promise<number | undefined> {
    const sql = `SELECT (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS left
      FROM agent_server WHERE url = $1`
    const { rows } = await this.group.db.query<{ left: number }>(sql, [this.group.member(index).process.url])
    return rows[0]?.left
  }

  async waitForLeases(index: number): Promise<void> {
    await waitFor(
      () => this.leaseEndsIn(index),
      (leftMs) => leftMs !== undefined && leftMs > 0,
    )
  }

  async stop(index: number, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.#ended.add(index)
    await this.group.member(index).process.stop(signal)
  }

  async restart(index: number): Promise<void> {
    await this.group.restart(this.group.member(index))
    this.#ended.delete(index)
    this.#readUrls()
  }

  signal(index: number, signal: 'SIGSTOP' | 'SIGCONT'): void {
    process.kill(this.group.member(index).process.pid ?? 0, signal)
  }

  /** Changes the title as soon as the server may: until then it answers that it may be tried again. */
  async rename(client: MapClient, id: string, title: string): Promise<void> {
    await waitFor(
      async () => {
        const answer = await patchTitle(client, id, title)
        if (answer.status !== 200) {
          expect(answer.status).toBe(503)
          expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
        }
        return answer.status
      },
      (status) => status === 200,
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.group[Symbol.asyncDispose]()
  }

  #readUrls(): void {
    for (const [index, client] of this.clients.entries()) client.url = this.group.member(index).process.url
  }
}

const patchTitle = (client: MapClient, id: string, title: string, headers = {}) =>
  client.request('PATCH', `/api/conversations/${id}`, { body: { title }, headers })

const untitled = { autotitle: false }

/** The cases of F31 about servers that share a database. */
export function defineLeaseCases(): void {
  afterAll(async () => await SharedServers.closeAll())
  mapCase(
    'F31.lease-claimed',
    'a loaded conversation has a lease',
    async () => {
      const servers = await SharedServers.ofAll()
      const { id } = await servers.clients[0].createConversation(undefined, untitled)
      expect(await servers.lease(id)).toMatchObject({ name: 'server-0', epoch: expect.any(Number) })
      const leftMs = await servers.leaseEndsIn(0)
      expect(leftMs).toBeGreaterThan(0)
      expect(leftMs).toBeLessThanOrEqual(leaseSeconds * 1000)
    },
    needsDatabase,
  )
  mapCase(
    'F31.lease-renewed',
    'a lease is renewed, and its owner and number stay',
    async () => {
      const servers = await SharedServers.ofAll()
      const { id } = await servers.clients[0].createConversation(undefined, untitled)
      const before = await servers.lease(id)
      const endsAt = async () => {
        const sql = 'SELECT expires_at::text AS at FROM agent_server WHERE url = $1'
        const { rows } = await servers.group.db.query<{ at: string }>(sql, [servers.clients[0].url])
        return rows[0]?.at
      }
      const first = await endsAt()
      expect(first).toBeDefined()
      const second = await waitFor(endsAt, (at) => at !== first)
      await waitFor(endsAt, (at) => at !== second)
      expect(await servers.lease(id)).toEqual(before)
    },
    needsDatabase,
  )
  mapCase(
    'F31.lease-released-graceful',
    'a stop releases the leases, reads claim none, and the next change does',
    async () => {
      const servers = await SharedServers.ofAll()
      const [client] = servers.clients
      const { id } = await client.createConversation(undefined, untitled)
      const before = await servers.lease(id)
      await servers.stop(0)
      expect([await servers.lease(id), await servers.leaseEndsIn(0)]).toEqual([undefined, undefined])
      await servers.restart(0)
      await client.getConversation(id)
      await client.getEvents(id)
      expect(await servers.lease(id)).toBeUndefined()
      await expectAnswer(client, 200, 'PATCH', `/api/conversations/${id}`, { body: { title: 'Loaded' } })
      const after = await servers.lease(id)
      expect(after?.name).toBe('server-0')
      expect(after?.epoch).toBeGreaterThan(Number(before?.epoch))
    },
    needsDatabase,
  )
  differs(
    'F31.lease-dead-owner-takeover',
    'the lease of a dead server is taken over at once',
    elsewhere,
    async () => {
      const servers = await SharedServers.ofAll()
      const [client] = servers.clients
      const { id } = await client.createConversation(undefined, untitled)
      await client.sendMessage(id, 'Kept.')
      const before = await servers.lease(id)
      await servers.stop(0, 'SIGKILL')
      expect(await servers.lease(id)).toEqual(before)
      await servers.restart(0)
      expect(JSON.stringify(await client.getEvents(id))).toContain('Kept.')
      await servers.rename(client, id, 'Taken over')
      const after = await servers.lease(id)
      expect(after?.epoch).toBeGreaterThan(Number(before?.epoch))
      expect((await client.getConversation(id)).title).toBe('Taken over')
    },
    undefined,
    needsDatabase,
  )
  mapCase(
    'F31.second-instance-catalog',
    'a second server lists, counts and reads the conversations of the first, and claims none',
    async () => {
      await using servers = await SharedServers.open()
      const [first, second] = servers.clients
      const { id } = await first.createConversation(undefined, untitled)
      const { id: cold } = await first.createConversation(undefined, untitled)
      await servers.stop(0)
      await servers.restart(0)
      await servers.rename(first, id, 'Shared')
      const held = await servers.lease(id)
      expect(await second.requestOrThrow('GET', '/api/conversations/count')).toBe(2)
      const { items } = await second.requestOrThrow<{ items: { id: string }[] }>(
        'GET',
        '/api/conversations/search',
      )
      expect(items.map((item) => item.id).sort()).toEqual([id, cold].sort())
      expect(await second.getConversation(id)).toMatchObject({ title: 'Shared', execution_status: 'idle' })
      expect(await second.getConversation(cold)).toMatchObject({ id: cold, execution_status: 'idle' })
      expect([held?.name, await servers.lease(id), await servers.lease(cold)]).toEqual([
        'server-0',
        held,
        undefined,
      ])
    },
    needsDatabase,
  )
  differs(
    'F31.second-instance-lease-held',
    'a second server takes no request for a conversation of the first',
    elsewhere,
    async () => {
      const servers = await SharedServers.ofAll()
      await using model = await openModel(finishReply())
      const [first, second] = servers.clients
      const { id } = await first.createConversation(model, untitled)
      await first.sendMessage(id, 'Of the first.')
      const held = await servers.lease(id)
      expect(await second.sendMessage(id, 'Through the second.')).toBe(200)
      expect((await patchTitle(second, id, 'By the second')).status).toBe(200)
      await expectAnswer(second, 200, 'POST', `/api/conversations/${id}/run`)
      await second.waitForStatus(id, 'finished')
      expect(await second.getEvents(id)).toEqual(await first.getEvents(id))
      expect((await first.getConversation(id)).title).toBe('By the second')
      expect([held?.name, await servers.lease(id)]).toEqual(['server-0', held])
      await expectAnswer(second, 200, 'DELETE', `/api/conversations/${id}`)
      expect(await first.requestStatus('GET', `/api/conversations/${id}`)).toBe(404)
    },
    undefined,
    needsDatabase,
  )
  differs(
    'F31.second-instance-takeover',
    'a second server takes over from a killed one at once',
    elsewhere,
    async () => {
      const servers = await SharedServers.ofAll()
      const [first, second] = servers.clients
      const { id } = await first.createConversation(undefined, untitled)
      await first.sendMessage(id, 'Kept.')
      const [events, held] = [await first.getEvents(id), await servers.lease(id)]
      await servers.stop(0, 'SIGKILL')
      expect(await second.getEvents(id)).toEqual(events)
      await servers.rename(second, id, 'Taken over')
      const lease = await servers.lease(id)
      expect(lease?.name).toBe('server-1')
      expect(lease?.epoch).toBeGreaterThan(Number(held?.epoch))
      await servers.restart(0)
      expect(await first.sendMessage(id, 'Passed on.')).toBe(200)
      expect(await servers.lease(id)).toEqual(lease)
      expect(JSON.stringify(await second.getEvents(id))).toMatch(/Kept\..*Passed on\./)
    },
    undefined,
    needsDatabase,
  )
  mapCase(
    'F31.takeover-keeps-metadata',
    'a title that was given after the second server started survives the takeover',
    async () => {
      const servers = await SharedServers.ofAll()
      const [first, second] = servers.clients
      const { id } = await first.createConversation(undefined, untitled)
      expect((await patchTitle(first, id, 'Before')).status).toBe(200)
      expect((await second.getConversation(id)).title).toBe('Before')
      expect((await patchTitle(first, id, 'After')).status).toBe(200)
      await servers.stop(0, 'SIGKILL')
      await waitFor(
        () => second.sendMessage(id, 'Taken over.'),
        (status) => status === 200,
      )
      expect((await servers.lease(id))?.name).toBe('server-1')
      await servers.restart(0)
      for (const client of servers.clients) expect((await client.getConversation(id)).title).toBe('After')
    },
    needsDatabase,
  )
  mapCase(
    'F31.lease-expiry-fencing',
    'a frozen server loses its lease, and nothing that it does later reaches the log',
    async () => {
      const servers = await SharedServers.ofAll()
      const [first, second] = servers.clients
      await using model = await openModel()
      const stale = heldReply(finishReply('Of the frozen server.'))
      model.replies = [stale.reply(model), finishReply('Of the next owner.')]
      const { id } = await first.createConversation(model, untitled)
      const held = await servers.lease(id)
      await first.sendMessage(id, 'Go.', true)
      await stale.arrived
      servers.signal(0, 'SIGSTOP')
      // Its reply waits for it in its socket.
      stale.release()
      await second.waitForStatus(id, 'finished')
      expect((await servers.lease(id))?.epoch).toBeGreaterThan(Number(held?.epoch))
      const events = await second.getEvents(id)
      servers.signal(0, 'SIGCONT')
      // It takes leases again when it has dropped what it had.
      await servers.waitForLeases(0)
      expect(await first.getEvents(id)).toEqual(events)
      expect(JSON.stringify(events)).toContain('Of the next owner.')
      expect(JSON.stringify(events)).not.toContain('Of the frozen server.')
      await servers.rename(second, id, 'Of the next owner')
      expect((await servers.lease(id))?.name).toBe('server-1')
      expect((await first.getConversation(id)).title).toBe('Of the next owner')
    },
    needsDatabase,
  )
  differs(
    'F31.fenced-write-no-trace',
    'a write that is refused for a lost lease is a 4xx and leaves no trace',
    elsewhere,
    async () => {
      const servers = await SharedServers.ofAll()
      const [first, second] = servers.clients
      const { id } = await first.createConversation(undefined, untitled)
      expect((await patchTitle(first, id, 'First')).status).toBe(200)
      servers.signal(0, 'SIGSTOP')
      // Answered when the server continues, which finds its lease gone then.
      const late = patchTitle(first, id, 'Late')
      await servers.rename(second, id, 'Of the next owner')
      servers.signal(0, 'SIGCONT')
      const { status, headers } = await late
      expect([200, 503]).toContain(status)
      if (status === 503) expect(headers.get('retry-after')).toMatch(/^\d+$/)
      const title = status === 200 ? 'Late' : 'Of the next owner'
      for (const client of servers.clients) expect((await client.getConversation(id)).title).toBe(title)
      // One that is not passed on to the owner is refused.
      const refused = await patchTitle(first, id, 'Refused', { 'x-slipway-peer': '1' })
      expect(refused.status).toBe(503)
      for (const client of servers.clients) expect((await client.getConversation(id)).title).toBe(title)
      expect(await first.getEvents(id)).toEqual(await second.getEvents(id))
    },
    undefined,
    needsDatabase,
  )
  differs(
    'F31.lease-disabled',
    'without leases two servers write the same conversation',
    'several servers',
    async () => {
      await using database = await createTestDatabase()
      const env = { SLIPWAY_DATABASE_URL: database.url }
      await using server = await OwnMapServer.open({ isProcess: true, key: 'k', env })
      const { id } = await server.createConversation(undefined, untitled)
      await expect(OwnMapServer.open({ isProcess: true, key: 'k', env })).rejects.toThrow(/database/)
      const shared = { ...env, SLIPWAY_SHARED_DATABASE: 'true', SLIPWAY_SECRET_KEY: 'a key of the servers' }
      await expect(OwnMapServer.open({ isProcess: true, key: 'k', env: shared })).rejects.toThrow(/database/)
      expect(await server.sendMessage(id, 'Still its own.')).toBe(200)
    },
    undefined,
    needsDatabase,
  )
}
