import { AuditTrail } from '@slipway/storage/control-plane'
import { expect, test } from 'vitest'
import {
  ann,
  bob,
  createFixture,
  createSpecs,
  eventually,
  startAndWait,
  startFromEarlierPool,
} from './testing/sandboxes-fixture.ts'

const soon = () => AbortSignal.timeout(25_000)

async function pooled(at: Awaited<ReturnType<typeof createFixture>>) {
  const rows = await at.controlPlane.sandboxes.listRunning(null)
  return rows.filter(({ status }) => status === 'RUNNING')
}

test('one of the pool is ready when it is claimed, and its key opens nothing before', async () => {
  const at = await createFixture([{ warm: 1 }])
  const sandboxes = await at.open({ allowedOrigins: ['https://app.example'], maxSessionSeconds: 3600 })
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  const [spare] = await pooled(at)
  const { env } = at.backend.agent(spare?.id ?? '')
  const key = env.SLIPWAY_SESSION_API_KEY ?? ''
  expect(spare).toMatchObject({ owner: null, key_hash: null })
  expect(await sandboxes.findByKey(key)).toBeUndefined()

  at.clock.skipMs = 7_200_000
  const claimed = await sandboxes.start({ owner: 'ann', org: 'acme' })
  expect(claimed).toMatchObject({ id: spare?.id, status: 'RUNNING', owner: 'ann', org: 'acme' })
  // Its session begins now.
  expect(claimed.changed_at - (spare?.changed_at ?? 0)).toBeGreaterThan(7_000_000_000)
  expect(await sandboxes.getInfo(claimed)).toMatchObject({ status: 'RUNNING', session_api_key: key })
  expect((await sandboxes.findByKey(key))?.id).toBe(claimed.id)
  expect(at.backend.sandboxes.get(claimed.id)?.starts).toBe(1)
  await eventually(async () => {
    const now = await pooled(at)
    expect(now).toHaveLength(1)
    expect(now[0]?.id).not.toBe(claimed.id)
  })
})

test('the line of the audit is about the one that is claimed, not about the one that takes its place', async () => {
  const at = await createFixture([{ warm: 1 }])
  const sandboxes = await at.open({ reconcileMs: 60_000 })
  for (const isDead of [false, true]) {
    await eventually(async () => expect(await pooled(at)).toHaveLength(1))
    const [spare] = await pooled(at)
    if (isDead) at.backend.crash(spare?.id ?? '')
    const about = {
      action: 'startSandbox',
      method: 'POST',
      route: '/',
      target_type: 'sandbox',
      request_id: 'r',
    }
    const trail = new AuditTrail(about, 1)
    const { id } = await trail.run(async () => {
      const row = await sandboxes.start(ann)
      await sandboxes.waitSettled(row.id, soon())
      await eventually(async () => expect(await pooled(at)).toHaveLength(1))
      return row
    })
    expect(trail.toRow([], 200)).toMatchObject({
      target: id,
      before: { owner: null },
      after: { owner: 'ann' },
    })
    expect(trail.toRow([], 200).after).not.toHaveProperty('sandboxes')
  }
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

test('one that an earlier version took from its pool gets its settings when its processes are started', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const row = await startFromEarlierPool(at, sandboxes)
  const { status, session_api_key } = await sandboxes.getInfo(row)
  expect(status).toBe('RUNNING')
  expect(at.backend.agent(row.id).inits).toEqual([
    {
      session_api_keys: [session_api_key],
      webhooks: [{ base_url: 'http://127.0.0.1:9000/api/v1/webhooks' }],
      allow_cors_origins: [],
    },
  ])
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

test('sandboxes that refuse their key are no pool, and are not made over and over', async () => {
  const at = await createFixture([{ warm: 1 }])
  at.backend.prepare = (agent) => agent.setKeys(['another'])
  const sandboxes = await at.open({ startMs: 100 })
  await eventually(() => expect(at.logged.join()).toContain('a sandbox of the warm pool failed'))
  await eventually(async () => expect(await at.controlPlane.sandboxes.listRunning(null)).toEqual([]))
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(at.backend.calls.filter((call) => call.startsWith('start'))).toHaveLength(1)
  at.backend.prepare = () => {}
  expect((await startAndWait(sandboxes, bob)).owner).toBe('bob')
})

test('those whose settings have changed are replaced, also when one is just being claimed', async () => {
  const at = await createFixture([{ warm: 1 }])
  const before = await at.open()
  await eventually(async () => expect(await pooled(at)).toHaveLength(1))
  const [old] = await pooled(at)
  await before[Symbol.asyncDispose]()
  const sandboxes = await at.open({ hostPort: () => 9001, reconcileMs: 60_000 }, { begins: false })
  expect((await startAndWait(sandboxes)).id).not.toBe(old?.id)
  expect((await at.controlPlane.sandboxes.get([old?.id ?? '']))[0]?.wanted ?? 'gone').toBe('gone')
})

test('the pool is filled again after a claim, also when the one that was claimed has to be started', async () => {
  const at = await createFixture([{ warm: 1 }])
  const steps: string[] = []
  const sandboxes = await at.open({ reconcileMs: 60_000, onStep: (name) => steps.push(name) })
  for (const isDead of [false, true]) {
    await eventually(async () => expect(await pooled(at)).toHaveLength(1))
    const [spare] = await pooled(at)
    if (isDead) at.backend.crash(spare?.id ?? '')
    const { id } = await sandboxes.start(ann)
    expect(id).toBe(spare?.id)
    await eventually(async () => expect(await pooled(at)).toHaveLength(1))
    expect((await pooled(at))[0]?.id).not.toBe(id)
    const since = steps.slice(steps.lastIndexOf('after claim'))
    const running = since.indexOf('after write RUNNING')
    // Its owner waits for it.
    if (isDead) expect(since.indexOf('before add')).toBeGreaterThan(running)
  }
})
