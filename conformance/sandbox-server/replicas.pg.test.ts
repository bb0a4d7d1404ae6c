import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { Replicas } from '../support/sandbox-server/replicas.ts'
import type { SandboxInfo } from '../support/sandbox-server/server.ts'
import { hasTestDatabase } from '../support/test-database.ts'

if (!hasTestDatabase)
  console.warn('SKIPPED: SLIPWAY_TEST_DATABASE_URL is not set; run the tests by `.ci/postgres <command>`')

/** Starts, pauses, resumes and deletes, in all. */
const requests = Number(process.env.SLIPWAY_REPLICA_REQUESTS ?? 6)
const concurrency = 2
const patienceMs = 240_000
vi.setConfig({ testTimeout: 300_000 + requests * 15_000, hookTimeout: 120_000 })

describe.skipIf(!hasTestDatabase)('several control planes on one database', () => {
  test('a sandbox is started, paused, resumed and deleted through any of them', async () => {
    await using replicas = await Replicas.open(2)
    const init = { headers: { 'idempotency-key': 'one' } }
    const starts = await Promise.all(
      [0, 1, 0, 1].map(async (index) => {
        const response = await replicas.fetch('POST', '/api/v1/sandboxes', init, index)
        return ((await response.json()) as SandboxInfo).id
      }),
    )
    expect(new Set(starts).size).toBe(1)
    const id = String(starts[0])
    await waitForStatus(replicas, id, 'RUNNING')
    expect(countAgents(await replicas.listResources(id))).toBe(1)
    expect((await replicas.fetch('POST', `/api/v1/sandboxes/${id}/pause`, {}, 0)).status).toBe(200)
    expect((await replicas.fetch('POST', `/api/v1/sandboxes/${id}/resume`, {}, 1)).status).toBe(200)
    await waitForStatus(replicas, id, 'RUNNING')
    expect((await replicas.fetch('DELETE', `/api/v1/sandboxes/${id}`, {}, 0)).status).toBe(200)
    await expect.poll(() => replicas.listResources(), { timeout: patienceMs, interval: 500 }).toEqual([])
    // The row of one goes after its resources.
    await expect
      .poll(() => replicas.database.query('SELECT id FROM sandbox'), { timeout: patienceMs })
      .toEqual([])
  })

  test('a replica that is frozen loses its work, and what it does later is refused', async () => {
    await using replicas = await Replicas.open(2)
    const { body } = await replicas.request<SandboxInfo>('POST', '/api/v1/sandboxes')
    await waitForStatus(replicas, body.id, 'RUNNING')
    replicas.signal(0, 'SIGSTOP')
    const { id } = await startSandboxAt(replicas, 1)
    await expect.poll(() => statusAt(replicas, id, 1), { timeout: patienceMs, interval: 200 }).toBe('RUNNING')
    expect((await replicas.fetch('DELETE', `/api/v1/sandboxes/${body.id}`, {}, 1)).status).toBe(200)
    replicas.signal(0, 'SIGCONT')
    expect((await replicas.request('DELETE', `/api/v1/sandboxes/${id}`)).status).toBe(200)
    await expect.poll(() => replicas.listResources(), { timeout: patienceMs, interval: 500 }).toEqual([])
  })

  test(`while replicas are killed, ${requests} requests end well, and nothing is lost, doubled or left over`, async () => {
    await using replicas = await Replicas.open(3)
    const left = { count: requests }
    let isOver = false
    const killer = (async () => {
      while (!isOver) {
        await sleep(1_000)
        const index = Math.floor(Math.random() * replicas.count)
        await replicas.kill(index)
        await replicas.start(index)
      }
    })()
    const agents: number[] = []
    const use = async (user: number) => {
      for (let n = 0; left.count > 0; n++) {
        const take = () => left.count-- > 0
        if (!take()) return
        const init = { headers: { 'idempotency-key': `${user}-${n}` } }
        const started = await replicas.request<SandboxInfo>('POST', '/api/v1/sandboxes', init)
        expect(started.status).toBe(200)
        const { id } = started.body
        await waitForStatus(replicas, id, 'RUNNING')
        agents.push(countAgents(await replicas.listResources(id)))
        for (const verb of ['pause', 'resume'] as const) {
          if (!take()) break
          expect([verb, await replicas.request('POST', `/api/v1/sandboxes/${id}/${verb}`)]).toMatchObject([
            verb,
            { status: 200 },
          ])
          await waitForStatus(replicas, id, verb === 'pause' ? 'PAUSED' : 'RUNNING')
        }
        take()
        // A repetition after a lost answer finds it deleted.
        expect([200, 404]).toContain((await replicas.request('DELETE', `/api/v1/sandboxes/${id}`)).status)
      }
    }
    await Promise.all(Array.from({ length: concurrency }, (_, user) => use(user))).finally(() => {
      isOver = true
    })
    await killer
    expect(agents.every((count) => count === 1)).toBe(true)
    await expect.poll(() => replicas.listResources(), { timeout: patienceMs, interval: 500 }).toEqual([])
    expect(await replicas.database.query('SELECT id FROM sandbox')).toEqual([])
  })
})

async function waitForStatus(replicas: Replicas, id: string, status: string): Promise<void> {
  for (const endMs = Date.now() + patienceMs; ; await sleep(200)) {
    const { body } = await replicas.request<(SandboxInfo | null)[]>('GET', `/api/v1/sandboxes?id=${id}`)
    if (body[0]?.status === status) return
    if (body[0]?.status === 'ERROR' || body[0]?.status === 'MISSING' || Date.now() > endMs)
      throw new Error(`not ${status}: ${JSON.stringify(body)}\n${replicas.output().slice(-6_000)}`)
  }
}

/** One that is frozen in a transaction holds its locks for some seconds more: 503 until then. */
async function startSandboxAt(replicas: Replicas, index: number): Promise<SandboxInfo> {
  const init = { headers: { 'idempotency-key': 'beside-a-frozen-one' } }
  for (const endMs = Date.now() + 60_000; ; await sleep(500)) {
    const response = await replicas.fetch('POST', '/api/v1/sandboxes', init, index)
    const body = (await response.json()) as SandboxInfo
    if (response.status === 200) return body
    if (response.status !== 503 || Date.now() > endMs)
      throw new Error(`${response.status}: ${JSON.stringify(body)}\n${replicas.output().slice(-6_000)}`)
  }
}

async function statusAt(replicas: Replicas, id: string, index: number): Promise<string | undefined> {
  const response = await replicas.fetch('GET', `/api/v1/sandboxes?id=${id}`, {}, index)
  return ((await response.json()) as (SandboxInfo | null)[])[0]?.status
}

/** Agent servers among the resources of one sandbox. */
function countAgents(resources: readonly string[]): number {
  return resources.filter((line) => line.startsWith('listener ')).length
}
