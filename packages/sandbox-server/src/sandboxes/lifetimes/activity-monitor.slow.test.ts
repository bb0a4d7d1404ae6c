import { storageUnavailableProblem } from '@slipway/protocol'
import { expect, test } from 'vitest'
import {
  ann,
  bob,
  createFixture,
  eventually,
  startAndWait,
  startFromEarlierPool,
  waitForFirstLook,
} from '../testing/sandboxes-fixture.ts'

const statusOf = async (
  sandboxes: Awaited<ReturnType<Awaited<ReturnType<typeof createFixture>>['open']>>,
  id: string,
) => (await sandboxes.find([id]))[0]?.status

test('an unused sandbox is paused only when its agent server confirms it', async () => {
  const at = await createFixture()
  const sandboxes = await at.open({ idleSeconds: 600 })
  const [idle, working, silent, used, busy] = [
    await startAndWait(sandboxes),
    await startAndWait(sandboxes),
    await startAndWait(sandboxes),
    await startAndWait(sandboxes),
    await startAndWait(sandboxes),
  ]
  for (const { id } of [idle, working, silent, used]) at.backend.agent(id).idleSeconds = 700
  at.backend.agent(working.id).running = 1
  at.backend.agent(silent.id).isFrozen = true
  at.backend.agent(busy.id).idleSeconds = 30
  at.clock.skipMs = 601_000
  sandboxes.touch(used.id)
  await eventually(async () => expect(await statusOf(sandboxes, idle.id)).toBe('PAUSED'))
  for (const { id } of [working, busy]) {
    await eventually(() => expect(at.backend.agent(id).requests.join()).toContain('status=running'))
  }
  await new Promise((resolve) => setTimeout(resolve, 300))
  for (const { id } of [working, silent, used, busy]) expect(await statusOf(sandboxes, id)).toBe('RUNNING')
  expect(at.backend.agent(used.id).requests.join()).not.toContain('status=running')
  at.backend.agent(working.id).running = 0
  await eventually(async () => expect(await statusOf(sandboxes, working.id)).toBe('PAUSED'))
  // What it says of the time before it was resumed does not count.
  await sandboxes.resume(idle)
  await sandboxes.waitSettled(idle.id, AbortSignal.timeout(20_000))
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(await statusOf(sandboxes, idle.id)).toBe('RUNNING')
})

test('a session that is long enough is paused whatever it does, and what is paused for long is deleted', async () => {
  const at = await createFixture([{}, { max_session_seconds: 0 }])
  const lifetimes = { maxSessionSeconds: 1_000, deleteAfterSeconds: 5_000 }
  const sandboxes = await at.open({ ...lifetimes, hasAllEvents: async () => true })
  const limited = await startAndWait(sandboxes)
  const free = await startAndWait(sandboxes, bob, 'spec-1')
  const busy = await startAndWait(sandboxes)
  at.backend.agent(busy.id).running = 1
  at.clock.skipMs = 1_001_000
  for (const { id } of [limited, busy])
    await eventually(async () => expect(await statusOf(sandboxes, id)).toBe('PAUSED'))
  const deletesAt = async () => (await sandboxes.getInfo(await sandboxes.get(ann, limited.id))).deletes_at
  expect(await deletesAt()).toBeNull()
  at.clock.skipMs = 6_100_000
  await eventually(async () => expect(await deletesAt()).not.toBeNull())
  expect(at.backend.sandboxes.has(limited.id)).toBe(true)
  at.clock.skipMs = 6_700_000
  await eventually(() => expect(at.backend.sandboxes.has(limited.id)).toBe(false))
  // What it was doing when it was paused may not have arrived.
  expect(await statusOf(sandboxes, busy.id)).toBe('PAUSED')
  expect(await statusOf(sandboxes, free.id)).toBe('RUNNING')
})

test('a pause waits for a silent agent server where deletions are set, and hardly elsewhere', async () => {
  const at = await createFixture()
  const hasAllEvents = async () => true
  const waits: number[] = []
  for (const options of [{}, { deleteAfterSeconds: 5_000 }]) {
    const sandboxes = await at.open({ hasAllEvents, ...options })
    const row = await startAndWait(sandboxes)
    at.backend.agent(row.id).isFrozen = true
    const startedAt = performance.now()
    await sandboxes.pause(row)
    waits.push(performance.now() - startedAt)
    await sandboxes[Symbol.asyncDispose]()
  }
  expect(waits[0]).toBeLessThan(waits[1] ?? 0)
})

test('uses are written down now and then, and the last one when the server stops', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const { id } = await startAndWait(sandboxes)
  const used = async () => (await at.controlPlane.sandboxes.get([id]))[0]?.used_at ?? 0
  const first = await used()
  at.clock.skipMs = 1_000
  sandboxes.touch(id)
  await eventually(async () => expect(await used()).toBeGreaterThan(first))
  const second = await used()
  at.clock.skipMs = 2_000
  sandboxes.touch(id)
  await sandboxes[Symbol.asyncDispose]()
  expect(await used()).toBeGreaterThan(second)
})

test('the cap refuses one more with what a program wants to know, and counts neither paused nor failed ones', async () => {
  const at = await createFixture()
  const sandboxes = await at.open({ maxSandboxes: 2, maxSandboxesPolicy: 'refuse' })
  const first = await startAndWait(sandboxes)
  const second = await startAndWait(sandboxes)
  const error = await sandboxes.start(ann).catch((error: unknown) => error)
  expect(error).toMatchObject({
    code: 'too_many',
    members: { error: 'CONCURRENCY_LIMIT_REACHED', limit: 2, current: 2 },
  })
  expect((await sandboxes.start(bob)).owner).toBe('bob')
  await sandboxes.pause(first)
  const third = await startAndWait(sandboxes)
  await expect(sandboxes.resume(first)).rejects.toMatchObject({ code: 'too_many' })
  await sandboxes.resume(second)
  at.backend.crash(third.id)
  await eventually(async () => expect(await statusOf(sandboxes, third.id)).toBe('ERROR'))
  await sandboxes.resume(first)
})

test('the default limit counts at starts alone; one of the user at resumes too', async () => {
  const at = await createFixture()
  const all = { maxSandboxes: 0, maxSandboxesPolicy: 'refuse' as const }
  const before = await at.open(all)
  const rows = [await startAndWait(before), await startAndWait(before)]
  for (const row of rows) await before.pause(row)
  await before[Symbol.asyncDispose]()
  const sandboxes = await at.open({ ...all, maxSandboxes: 1, limitsResumes: false })
  for (const row of rows) await sandboxes.resume(row)
  await expect(sandboxes.start(ann)).rejects.toMatchObject({ code: 'too_many', members: { limit: 1 } })
  const [first] = rows as [(typeof rows)[0]]
  await sandboxes.waitSettled(first.id, AbortSignal.timeout(20_000))
  await sandboxes.pause(first)
  await at.controlPlane.users.addUser({
    ...{ id: 'ann', name: null, email: null, org: null, is_admin: false },
    ...{ daily_conversation_limit: null, created_at: 1 },
  })
  await at.controlPlane.users.setLimits('ann', { max_sandboxes: 1 })
  await expect(sandboxes.resume(first)).rejects.toMatchObject({ code: 'too_many' })
})

test('however many ask at once, no more run than may', async () => {
  const at = await createFixture([{ warm: 2 }])
  const sandboxes = await at.open({ maxSandboxes: 3, maxSandboxesPolicy: 'refuse' })
  const starts = Array.from({ length: 10 }, () => sandboxes.start(ann))
  const outcomes = await Promise.allSettled(starts)
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
})

test('with a cap of one the idle one is paused for the next, and one that works never is', async () => {
  const at = await createFixture()
  const sandboxes = await at.open({ maxSandboxes: 1, maxSandboxesPolicy: 'pause_idle', evictIdleSeconds: 0 })
  const first = await startAndWait(sandboxes)
  at.backend.agent(first.id).running = 1
  await expect(sandboxes.start(ann)).rejects.toMatchObject({ code: 'too_many' })
  at.backend.agent(first.id).running = 0
  const second = await startAndWait(sandboxes)
  expect(await statusOf(sandboxes, first.id)).toBe('PAUSED')
  await sandboxes.resume(first)
  expect(await statusOf(sandboxes, second.id)).toBe('PAUSED')
  expect((await sandboxes.waitSettled(first.id, AbortSignal.timeout(20_000))).status).toBe('RUNNING')
})

test('of several idle ones the one used longest ago is paused, and one that was just used is not', async () => {
  const at = await createFixture()
  const limit = { maxSandboxes: 2, maxSandboxesPolicy: 'pause_idle' as const }
  const sandboxes = await at.open({ ...limit, evictIdleSeconds: 100 })
  const old = await startAndWait(sandboxes)
  const fresh = await startAndWait(sandboxes)
  for (const { id } of [old, fresh]) at.backend.agent(id).idleSeconds = 200
  await expect(sandboxes.start(ann)).rejects.toMatchObject({ code: 'too_many' })
  at.clock.skipMs = 200_000
  sandboxes.touch(fresh.id)
  await startAndWait(sandboxes)
  expect(await statusOf(sandboxes, old.id)).toBe('PAUSED')
  expect(await statusOf(sandboxes, fresh.id)).toBe('RUNNING')
})

test('a sandbox that does not answer for long stays RUNNING with a detail, until it answers again', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const { id } = await startAndWait(sandboxes)
  at.backend.agent(id).close()
  const detail = async () => (await sandboxes.find([id]))[0]?.detail
  await eventually(async () => {
    at.clock.skipMs += 61_000
    expect(await detail()).toContain('does not answer')
  })
  expect(await statusOf(sandboxes, id)).toBe('RUNNING')
  at.backend.agent(id).reopen()
  await eventually(async () => {
    at.clock.skipMs += 61_000
    expect(await detail()).toBeNull()
  })
})

test('an agent server that something in its sandbox started again gets its settings and is told again', async () => {
  const at = await createFixture()
  const told: string[] = []
  const sandboxes = await at.open({ onReady: async ({ id }) => void told.push(id) })
  const [plain, waiting] = [await startAndWait(sandboxes), await startFromEarlierPool(at, sandboxes)]
  for (const [{ id }, instance] of [
    [waiting, 'another'],
    [plain, 'another'],
    // Others tell their uptime alone.
    [plain, undefined],
    [plain, undefined],
  ] as const) {
    const agent = at.backend.agent(id)
    const keyOf = async () => (await sandboxes.getInfo(await sandboxes.get(ann, id))).session_api_key
    const [key, inits, times] = [await keyOf(), agent.inits.length, told.length]
    // Of the next look.
    at.clock.skipMs += 16_000
    const looks = agent.requests.length
    await eventually(() => expect(agent.requests.slice(looks)).toContain('GET /server_info'))
    agent.startAgain(instance)
    await eventually(async () => {
      at.clock.skipMs += 16_000
      expect(told.length).toBeGreaterThan(times)
      expect(await statusOf(sandboxes, id)).toBe('RUNNING')
    })
    expect(told.at(-1)).toBe(id)
    expect(await keyOf()).toBe(key)
    expect(agent.isDormant).toBe(false)
    expect(agent.inits.slice(inits)).toMatchObject(
      id === waiting.id ? [{ session_api_keys: [key], webhooks: [{ base_url: expect.any(String) }] }] : [],
    )
    expect(at.logged.join()).toContain('was started again')
  }
})

test('one that was started again is told again, also after a storage that failed meanwhile', async () => {
  const at = await createFixture()
  const { sandboxes: rows } = at.controlPlane
  const update = rows.update.bind(rows)
  let attempts = 0
  rows.update = async (id, members, options) => {
    if (members.status === 'STARTING' && attempts++ === 0) throw storageUnavailableProblem('The disk is full')
    return await update(id, members, options)
  }
  const told: string[] = []
  const sandboxes = await at.open({ onReady: async ({ id }) => void told.push(id) })
  const { id } = await startAndWait(sandboxes)
  const agent = at.backend.agent(id)
  await waitForFirstLook(at.backend, id)
  agent.startAgain('another')
  await eventually(() => {
    at.clock.skipMs += 16_000
    expect([attempts, told.length]).toEqual([2, 2])
  })
})

test('one that was started again while no control plane ran is found by its lack of settings', async () => {
  const at = await createFixture()
  const first = await at.open({}, { isClosed: false })
  const { id } = await startFromEarlierPool(at, first)
  expect(at.backend.agent(id).inits).toHaveLength(1)
  await first[Symbol.asyncDispose]()
  const agent = at.backend.agent(id)
  agent.startAgain()
  const second = await at.open()
  await eventually(() => expect(agent.isDormant).toBe(false))
  await eventually(async () => expect(await statusOf(second, id)).toBe('RUNNING'))
  expect(agent.inits).toHaveLength(2)
})
