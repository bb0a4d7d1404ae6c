import { expect, test } from 'vitest'
import {
  ann,
  bob,
  createFixture,
  createSpecs,
  eventually,
  startAndWait,
} from './testing/sandboxes-fixture.ts'

const soon = () => AbortSignal.timeout(25_000)

async function pooled(at: Awaited<ReturnType<typeof createFixture>>) {
  const rows = await at.controlPlane.sandboxes.listRunning(null)
  return rows.filter(({ status }) => status === 'RUNNING')
}

test('one of the pool has no identity until it is claimed, and then it has its own key', async () => {
  const at = await createFixture([{ warm: 1 }])
  const sandboxes = await at.open({ allowedOrigins: ['https://app.example'] })
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  const [spare] = await pooled(at)
  const agent = at.backend.agent(spare?.id ?? '')
  expect(agent.env).toMatchObject({ SLIPWAY_DEFERRED_INIT: 'true' })
  expect(Object.keys(agent.env)).not.toContain('SLIPWAY_SESSION_API_KEY')
  expect(JSON.stringify(agent.env)).not.toContain('/api/v1/webhooks')
  expect(spare).toMatchObject({ owner: null, key_hash: null })

  const claimed = await sandboxes.start({ owner: 'ann', org: 'acme' })
  expect(claimed).toMatchObject({ id: spare?.id, status: 'STARTING', owner: 'ann', org: 'acme' })
  const info = await sandboxes.getInfo(await sandboxes.waitSettled(claimed.id, soon()))
  expect(info.status).toBe('RUNNING')
  expect(agent.inits).toEqual([
    {
      session_api_keys: [info.session_api_key],
      webhooks: [{ base_url: 'http://127.0.0.1:9000/api/v1/webhooks' }],
      allow_cors_origins: ['https://app.example'],
    },
  ])
  expect((await sandboxes.findByKey(info.session_api_key ?? ''))?.id).toBe(claimed.id)
  expect(at.backend.sandboxes.get(claimed.id)?.starts).toBe(1)
  await eventually(async () => expect((await pooled(at)).map(({ id }) => id)).not.toContain(claimed.id))
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
})

test('no caller sees a sandbox of the pool', async () => {
  const at = await createFixture([{ warm: 1 }])
  const sandboxes = await at.open()
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  const id = (await pooled(at))[0]?.id ?? ''
  expect(await sandboxes.find([id])).toEqual([undefined])
  await expect(sandboxes.get(ann, id)).rejects.toMatchObject({ code: 'not_found' })
  await expect(sandboxes.get({ owner: null }, id)).rejects.toMatchObject({ code: 'not_found' })
  expect((await sandboxes.search(ann, { limit: 10 })).items).toEqual([])
})

test('each is claimed once, and with an empty pool the next ones start cold', async () => {
  const at = await createFixture([{ warm: 2 }])
  const sandboxes = await at.open()
  await eventually(async () => expect(await pooled(at)).toHaveLength(2))
  const spares = (await pooled(at)).map(({ id }) => id)
  const starts = Array.from({ length: 6 }, (_, index) => sandboxes.start({ owner: `user-${index % 3}` }))
  const rows = await Promise.all(starts)
  expect(new Set(rows.map(({ id }) => id)).size).toBe(6)
  expect(rows.map(({ id }) => id)).toEqual(expect.arrayContaining(spares))
  const keys = new Set<string | null>()
  for (const { id } of rows)
    keys.add((await sandboxes.getInfo(await sandboxes.waitSettled(id, soon()))).session_api_key)
  expect(keys.size).toBe(6)
})

test('one that was claimed gets its settings again when its processes were started again', async () => {
  const at = await createFixture([{ warm: 1 }])
  const sandboxes = await at.open()
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  const row = await startAndWait(sandboxes)
  const before = await sandboxes.getInfo(row)
  at.backend.crash(row.id)
  await eventually(async () => expect((await sandboxes.find([row.id]))[0]?.status).toBe('ERROR'))
  await sandboxes.resume(row)
  const after = await sandboxes.getInfo(await sandboxes.waitSettled(row.id, soon()))
  expect(after).toMatchObject({ status: 'RUNNING', session_api_key: before.session_api_key })
  expect(at.backend.agent(row.id).inits).toHaveLength(1)
})

test('one of the pool that died unnoticed is started again for the one who claims it', async () => {
  const at = await createFixture([{ warm: 1 }])
  const sandboxes = await at.open({ reconcileMs: 1_000_000 })
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  const id = (await pooled(at))[0]?.id ?? ''
  at.backend.crash(id)
  const row = await startAndWait(sandboxes)
  expect(row.id).toBe(id)
})

test('surplus sandboxes and those of a changed spec are removed and replaced', async () => {
  const at = await createFixture([{ warm: 2 }])
  const before = await at.open()
  await eventually(async () => expect(await pooled(at)).toHaveLength(2))
  const old = (await pooled(at)).map(({ id }) => id)
  await before[Symbol.asyncDispose]()
  const specs = createSpecs([{ warm: 1, env: { NEW: '1' } }])
  await at.open({ specs })
  await eventually(async () => {
    const now = await pooled(at)
    expect(now).toHaveLength(1)
    expect(old).not.toContain(now[0]?.id)
    expect([...at.backend.sandboxes.keys()]).toEqual(now.map(({ id }) => id))
  })
})

test('sandboxes that cannot wait for settings are no pool, and are not made over and over', async () => {
  const at = await createFixture([{ warm: 1 }])
  // An agent server that knows nothing of such settings: it is ready at once and open to everybody.
  at.backend.prepare = (agent) => agent.wake()
  const sandboxes = await at.open({ startMs: 100 })
  await eventually(() => expect(at.logged.join()).toContain('it does not wait for its settings'))
  await eventually(async () => expect(await at.controlPlane.sandboxes.listRunning(null)).toEqual([]))
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(at.backend.calls.filter((call) => call.startsWith('start'))).toHaveLength(1)
  at.backend.prepare = () => {}
  expect((await startAndWait(sandboxes, bob)).owner).toBe('bob')
})

test('the pool is filled again when the one that was claimed has its settings, and not before', async () => {
  const at = await createFixture([{ warm: 1 }])
  const steps: string[] = []
  const sandboxes = await at.open({ reconcileMs: 60_000, onStep: (name) => steps.push(name) })
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  const { id } = await sandboxes.start(ann)
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  expect((await pooled(at))[0]?.id).not.toBe(id)
  const since = steps.slice(steps.lastIndexOf('after claim'))
  expect(since).toContain('after write RUNNING')
  expect(since.indexOf('before add')).toBeGreaterThan(since.indexOf('after write RUNNING'))
})
