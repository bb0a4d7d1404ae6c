import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../support/agent-server-api.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 })
const patience = { timeout: 60_000 }
const { SLIPWAY_TEST_DATABASE_URL } = process.env
if (SLIPWAY_TEST_DATABASE_URL === undefined)
  console.warn('SKIPPED: SLIPWAY_TEST_DATABASE_URL is not set; run the tests by `.ci/postgres <command>`')

const lines = toJsonLines(
  messageLine('a', '2026-01-01T00:00:00', 'Größe'),
  messageLine('b', '2026-01-01T00:00:01', 'second'),
)

describe.skipIf(SLIPWAY_TEST_DATABASE_URL === undefined)('an agent server on PostgreSQL', () => {
  const admin = SLIPWAY_TEST_DATABASE_URL ?? ''
  let name: string
  let url: string
  let directory: string

  beforeEach(async () => {
    name = `slipway_${randomBytes(6).toString('hex')}`
    await runSql(`CREATE DATABASE ${name}`)
    url = Object.assign(new URL(admin), { pathname: `/${name}` }).href
    directory = await mkdtemp(join(tmpdir(), 'slipway-pg-'))
  })

  afterEach(async () => {
    await runSql(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    await rm(directory, { recursive: true, force: true })
  })

  async function runSql(sql: string): Promise<void> {
    const client = new pg.Client({ connectionString: admin })
    await client.connect()
    await client.query(sql)
    await client.end()
  }

  test('a conversation survives a kill, and is there for a server with another data directory', async () => {
    const key = { SLIPWAY_SECRET_KEY: 'the key of both servers' }
    const first = await startAgentServer(join(directory, 'first'), { SLIPWAY_DATABASE_URL: url, ...key })
    const id = await new AgentServerApi({ url: first.url, headers: {} }).import(lines)
    await first.stop('SIGKILL')
    const second = await startAgentServer(join(directory, 'second'), key, ['--database', url])
    try {
      const api = new AgentServerApi({ url: second.url, headers: {} })
      expect((await api.export(id)).toString()).toBe(lines)
      const found = await api.requestJson<{ items: { id: string }[] }>(
        `/api/conversations/${id}/events/search?body=${encodeURIComponent('GRÖSSE')}`,
      )
      expect(found.body.items).toEqual([])
      const folded = await api.requestJson<{ items: { id: string }[] }>(
        `/api/conversations/${id}/events/search?body=${encodeURIComponent('GRÖẞE')}`,
      )
      expect(folded.body.items.map((event) => event.id)).toEqual(['a'])
    } finally {
      await second.stop()
    }
  })

  test('while the database is closed, calls get 503 with Retry-After, and nothing is told of its password', async () => {
    const server = await startAgentServer(directory, { SLIPWAY_DATABASE_URL: url })
    try {
      const api = new AgentServerApi({ url: server.url, headers: {} })
      const id = await api.import(lines)
      await runSql(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false`)
      await runSql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`)
      const calls = [
        () => api.fetch(`/api/conversations/${id}/export`),
        () => api.fetch(`/api/conversations/${id}`),
        () => api.fetch('/api/conversations/search'),
        () => api.fetch(`/api/conversations/${id}`, { method: 'DELETE' }),
      ]
      for (const call of calls) {
        const response = await call()
        const body = await response.text()
        expect([response.status, body]).toEqual([503, expect.any(String)])
        expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
        expect(body).not.toContain(new URL(url).password)
      }
      expect((await api.fetch('/ready')).status).toBe(503)
      expect((await api.fetch('/alive')).status).toBe(200)
      await runSql(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS true`)
      await expect.poll(async () => (await api.fetch('/ready')).status, patience).toBe(200)
      expect((await api.export(id)).toString()).toBe(lines)
      expect(server.output()).not.toContain(new URL(url).password)
    } finally {
      await server.stop()
    }
  })

  test('a change of a row that another connection has locked is refused as retryable, and reads do not wait', async () => {
    const server = await startAgentServer(directory, { SLIPWAY_DATABASE_URL: url })
    const other = new pg.Client({ connectionString: url })
    await other.connect()
    try {
      const api = new AgentServerApi({ url: server.url, headers: {} })
      const [locked, free] = [await api.import(lines), await api.import(lines)]
      const rename = async (id: string, title: string) => {
        const body = JSON.stringify({ title })
        const headers = { 'content-type': 'application/json' }
        return await api.fetch(`/api/conversations/${id}`, { method: 'PATCH', headers, body })
      }
      const titleOf = async (id: string) =>
        (await api.requestJson<{ title: string | null }>(`/api/conversations/${id}`)).body.title
      await other.query('BEGIN')
      await other.query('SELECT 1 FROM conversation WHERE id = $1 FOR UPDATE', [locked])
      const startedMs = performance.now()
      let isAnswered = false
      const refused = rename(locked, 'Waits').finally(() => {
        isAnswered = true
      })
      expect((await api.fetch('/alive')).status).toBe(200)
      expect(await titleOf(locked)).toBe(null)
      expect((await api.export(locked)).toString()).toBe(lines)
      // Changes are written one group after another: this one is in the group behind, and waits no longer.
      const behind = rename(free, 'Free')
      expect(isAnswered).toBe(false)
      const { status, headers } = await refused
      expect([status, Number(headers.get('retry-after')) > 0]).toEqual([503, true])
      // The longest statement, and what a busy machine adds.
      expect(performance.now() - startedMs).toBeLessThan(45_000)
      expect((await behind).status).toBe(200)
      expect([await titleOf(locked), await titleOf(free)]).toEqual([null, 'Free'])
      await other.query('ROLLBACK')
      expect((await rename(locked, 'Waits')).status).toBe(200)
      expect(await titleOf(locked)).toBe('Waits')
    } finally {
      await other.end()
      await server.stop()
    }
  })

  test('a second server on the same database does not start, and says why', async () => {
    const first = await startAgentServer(join(directory, 'first'), { SLIPWAY_DATABASE_URL: url })
    try {
      const second = startAgentServer(join(directory, 'second'), { SLIPWAY_DATABASE_URL: url })
      await expect(second).rejects.toThrow('in use by another server')
    } finally {
      await first.stop()
    }
  })
})
