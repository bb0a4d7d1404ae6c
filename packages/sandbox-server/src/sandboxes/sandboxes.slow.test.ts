import { Problem } from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { Sandboxes } from './sandboxes.ts'
import type { SandboxesOptions } from './state/context.ts'
import { ann, bob, createFixture, eventually, startAndWait } from './testing/sandboxes-fixture.ts'

const soon = () => AbortSignal.timeout(25_000)

async function statusOf(sandboxes: Sandboxes, id: string): Promise<string | undefined> {
  const [row] = await sandboxes.find([id])
  return row?.status
}

async function problemCode(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (error instanceof Problem) return error.code
  throw error ?? new Error('it was not refused')
}

test('a sandbox is STARTING until its agent server accepts its key, then its info has its address and its key', async () => {
  const at = await createFixture()
  at.backend.prepare = (agent) => {
    agent.isReady = false
  }
  const sandboxes = await at.open()
  const row = await sandboxes.start(ann)
  expect(row.status).toBe('STARTING')
  await eventually(() => expect(at.backend.agent(row.id).requests.length).toBeGreaterThan(2))
  const early = await sandboxes.getInfo(await sandboxes.get(ann, row.id))
  expect(early).toMatchObject({ status: 'STARTING', session_api_key: null, exposed_urls: null })
  at.backend.agent(row.id).isReady = true
  const ready = await sandboxes.waitSettled(row.id, soon())
  const info = await sandboxes.getInfo(ready)
  const { url, env } = at.backend.agent(row.id)
  expect(info).toMatchObject({
    status: 'RUNNING',
    created_by_user_id: 'ann',
    working_dir: '/workspace/project',
  })
  expect(info.session_api_key).toBe(env.SLIPWAY_SESSION_API_KEY)
  expect(info.exposed_urls?.[0]).toEqual({ name: 'AGENT_SERVER', url, port: Number(new URL(url).port) })
  expect(JSON.parse(env.SLIPWAY_WEBHOOKS ?? '')).toEqual([
    { base_url: 'http://127.0.0.1:9000/api/v1/webhooks' },
  ])
  expect(await sandboxes.getConnection(ready)?.client.call('countConversations', {})).toBe(0)
  expect((await sandboxes.findByKey(info.session_api_key ?? ''))?.id).toBe(row.id)
  expect(await sandboxes.findByKey('sk-slipway-wrong')).toBeUndefined()
})

test('an agent server that does not take the key never makes the sandbox RUNNING', async () => {
  const at = await createFixture()
  at.backend.prepare = (agent) => agent.setKeys(['another'])
  const sandboxes = await at.open({ startMs: 300 })
  const { id } = await sandboxes.start(ann)
  const row = await sandboxes.waitSettled(id, soon())
  expect(row.status).toBe('ERROR')
  expect(row.detail).toContain('does not accept its session key')
})

test('one that has the key of a later start, as after a restore, is started with a new one by a resume', async () => {
  const at = await createFixture()
  at.backend.appliesConfigOnResume = true
  const sandboxes = await at.open({ startMs: 300 })
  const { id } = await startAndWait(sandboxes)
  at.backend.agent(id).setKeys(['of a later start'])
  await at.controlPlane.sandboxes.update(id, { epoch: 'of an earlier start' })
  await eventually(async () => expect(await statusOf(sandboxes, id)).toBe('ERROR'))
  await eventually(() => expect(at.backend.sandboxes.get(id)?.state).toBe('paused'))
  await sandboxes.resume(await sandboxes.get(ann, id))
  expect((await sandboxes.waitSettled(id, soon())).status).toBe('RUNNING')
  expect(at.backend.sandboxes.get(id)?.starts).toBe(2)
})

test('pause freezes, resume continues with the same key and the same processes', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const row = await startAndWait(sandboxes)
  const before = await sandboxes.getInfo(row)
  await sandboxes.pause(row)
  expect(at.backend.sandboxes.get(row.id)?.state).toBe('paused')
  const paused = await sandboxes.getInfo(await sandboxes.get(ann, row.id))
  expect(paused).toMatchObject({ status: 'PAUSED', session_api_key: null, exposed_urls: null })
  await sandboxes.pause(row)
  // A webhook that was being sent at the pause is still accepted.
  expect((await sandboxes.findByKey(before.session_api_key ?? ''))?.id).toBe(row.id)
  await sandboxes.resume(row)
  const again = await sandboxes.getInfo(await sandboxes.waitSettled(row.id, soon()))
  expect(again.session_api_key).toBe(before.session_api_key)
  await sandboxes.resume(row)
  expect(at.backend.sandboxes.get(row.id)?.starts).toBe(1)
})

test('a resume of one that starts or runs changes nothing, however often it comes', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const row = await startAndWait(sandboxes)
  const { session_api_key: key } = await sandboxes.getInfo(row)
  await sandboxes.pause(row)
  await Promise.all([1, 2, 3, 4].map(() => sandboxes.resume(row)))
  await sandboxes.resume(row)
  const again = await sandboxes.getInfo(await sandboxes.waitSettled(row.id, soon()))
  expect(again).toMatchObject({ status: 'RUNNING', session_api_key: key })
  await sandboxes.resume(row)
  expect(at.backend.calls.filter((call) => call.startsWith('resume'))).toHaveLength(1)
  await sandboxes.remove(row)
  expect(await problemCode(sandboxes.resume(row))).toBe('not_found')
})

test('a resume that its backend fails says so, is tried again by a repeat, and in the background', async () => {
  const at = await createFixture()
  const sandboxes = await at.open({ retryMs: [60_000, 60_000], reconcileMs: 60_000 })
  const row = await startAndWait(sandboxes)
  const { session_api_key: key } = await sandboxes.getInfo(row)
  await sandboxes.pause(row)
  at.backend.before = (verb) => {
    if (verb === 'resume') throw new Error('the engine is down')
  }
  for (const attempt of [1, 2, 3]) {
    const error = await sandboxes.resume(row).catch((error: unknown) => error)
    expect(error).toMatchObject({
      code: 'bad_gateway',
      message: expect.stringContaining('the engine is down'),
    })
    expect(at.backend.calls.filter((call) => call.startsWith('resume'))).toHaveLength(attempt)
    expect(await statusOf(sandboxes, row.id)).toBe('STARTING')
  }
  // What was asked for is kept, also by another server that was not asked.
  const [failed] = await sandboxes.find([row.id])
  expect(failed?.wanted).toBe('running')
  at.backend.before = () => {}
  await at.open()
  const again = await sandboxes.getInfo(await sandboxes.waitSettled(row.id, soon()))
  expect(again).toMatchObject({ status: 'RUNNING', status_detail: null, session_api_key: key })
  await sandboxes.resume(row)
})

test('what a sandbox is told before it runs may become its detail, and a failure of it is no failure of the start', async () => {
  const at = await createFixture()
  const told: string[] = []
  let isFailing = false
  const onReady: SandboxesOptions['onReady'] = async (row, { client }) => {
    expect(await client.call('countConversations', {})).toBe(0)
    told.push(row.status)
    if (isFailing) throw new Error('no answer')
    return told.length === 1 ? 'It has lost something.' : undefined
  }
  const sandboxes = await at.open({ onReady })
  const row = await startAndWait(sandboxes)
  expect(row.detail).toBe('It has lost something.')
  isFailing = true
  await sandboxes.pause(row)
  await sandboxes.resume(row)
  expect(await sandboxes.waitSettled(row.id, soon())).toMatchObject({ status: 'RUNNING', detail: null })
  expect(at.logged.join()).toContain('no answer')
  expect(told).toEqual(['STARTING', 'STARTING'])
})

test('an archived sandbox keeps its row, has no files, and is not resumed', async () => {
  const at = await createFixture()
  const sandboxes = await at.open({ hasAllEvents: async () => true })
  const [running, paused] = [await startAndWait(sandboxes), await startAndWait(sandboxes)]
  await sandboxes.pause(paused)
  for (const row of [running, paused]) {
    await Promise.all([sandboxes.archive(row), sandboxes.archive(row)])
    await sandboxes.archive(row)
    const info = await sandboxes.getInfo(await sandboxes.get(ann, row.id))
    expect(info).toMatchObject({ status: 'MISSING', archived: true, session_api_key: null })
    expect(info.status_detail).toContain('It was archived')
    const error = await sandboxes.resume(row).catch((error: unknown) => error)
    expect(error).toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('archived'),
      members: { code: 'runtime_not_resumable', current_status: 'MISSING' },
    })
    expect(await problemCode(sandboxes.pause(row))).toBe('conflict')
  }
  await eventually(() => expect(at.backend.sandboxes.size).toBe(0))
  await eventually(async () => expect(await statusOf(sandboxes, paused.id)).toBe('MISSING'))
  expect((await sandboxes.find([paused.id]))[0]?.detail).toContain('It was archived')
  expect((await sandboxes.search(ann, { limit: 10 })).items).toHaveLength(2)
  await sandboxes.remove(paused)
  await eventually(async () => expect(await at.controlPlane.sandboxes.get([paused.id])).toEqual([undefined]))
})

test('nothing is archived while something runs in it, or while events of it are not here', async () => {
  const at = await createFixture()
  let hasAll = false
  const sandboxes = await at.open({ hasAllEvents: async () => hasAll })
  const row = await startAndWait(sandboxes)
  at.backend.agent(row.id).logs.set('a', ['e1'])
  const refused = { code: 'conflict', members: { code: 'events_not_received' } }
  await expect(sandboxes.archive(row)).rejects.toMatchObject(refused)
  hasAll = true
  at.backend.agent(row.id).running = 1
  await expect(sandboxes.archive(row)).rejects.toMatchObject(refused)
  expect(await statusOf(sandboxes, row.id)).toBe('RUNNING')
  at.backend.agent(row.id).running = 0
  at.backend.crash(row.id)
  await eventually(async () => expect(await statusOf(sandboxes, row.id)).toBe('ERROR'))
  await expect(sandboxes.archive(row)).rejects.toMatchObject(refused)
  expect(at.backend.sandboxes.size).toBe(1)
  await sandboxes.resume(row)
  await sandboxes.waitSettled(row.id, soon())
  await sandboxes.archive(row)
  await eventually(() => expect(at.backend.sandboxes.size).toBe(0))
})

test('an archive waits for a slow agent server, and deletes nothing that is missing and may come back', async () => {
  const at = await createFixture()
  let hasAll = true
  const hasAllEvents = async () => {
    // Longer than a pause waits that nothing depends on.
    await new Promise((resolve) => setTimeout(resolve, 400))
    return hasAll
  }
  const sandboxes = await at.open({ hasAllEvents })
  const [slow, missing] = [await startAndWait(sandboxes), await startAndWait(sandboxes)]
  for (const { id } of [slow, missing]) at.backend.agent(id).logs.set('a', ['e1'])
  await sandboxes.archive(slow)
  expect((await sandboxes.get(ann, slow.id)).wanted).toBe('archived')
  hasAll = false
  at.backend.vanish(missing.id)
  await eventually(async () => expect(await statusOf(sandboxes, missing.id)).toBe('MISSING'))
  const refused = { code: 'conflict', members: { code: 'events_not_received' } }
  await expect(sandboxes.archive(missing)).rejects.toMatchObject(refused)
})

test('what is known of its events is read again when the backend failed to pause it meanwhile', async () => {
  const at = await createFixture()
  let hasAll = true
  const sandboxes = await at.open({ hasAllEvents: async () => hasAll })
  const row = await startAndWait(sandboxes)
  at.backend.agent(row.id).logs.set('a', ['e1'])
  at.backend.before = (verb) => {
    if (verb !== 'pause' || !hasAll) return
    // It works on, and its events do not arrive.
    hasAll = false
    throw new Error('the engine is down')
  }
  await sandboxes.pause(row).catch(() => {})
  await eventually(async () => expect(await statusOf(sandboxes, row.id)).toBe('PAUSED'))
  expect((await sandboxes.get(ann, row.id)).caught_up_at).toBeNull()
})

test('an archive that a kill or a failing backend interrupts is completed by the next server', async () => {
  const at = await createFixture()
  const hasAllEvents = async () => true
  const first = await at.open({ hasAllEvents }, { isClosed: false })
  const row = await startAndWait(first)
  at.backend.before = (verb) => {
    if (verb === 'remove') throw new Error('the engine is down')
  }
  await first.archive(row)
  await first[Symbol.asyncDispose]()
  expect(at.backend.sandboxes.size).toBe(1)
  at.backend.before = () => {}
  const second = await at.open({ hasAllEvents })
  await eventually(() => expect(at.backend.sandboxes.size).toBe(0))
  await eventually(async () => expect(await statusOf(second, row.id)).toBe('MISSING'))
  expect((await second.find([row.id]))[0]).toMatchObject({
    detail: expect.stringContaining('It was archived'),
  })
})

test('a sandbox that is deleted is out of sight at once and its things go behind', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const row = await startAndWait(sandboxes)
  const key = (await sandboxes.getInfo(row)).session_api_key ?? ''
  at.backend.before = (verb) => {
    if (verb === 'remove') throw new Error('the engine is down')
  }
  await sandboxes.remove(row)
  await sandboxes.remove(row)
  expect(await sandboxes.find([row.id])).toEqual([undefined])
  expect(await problemCode(sandboxes.get(ann, row.id))).toBe('not_found')
  expect((await sandboxes.search(ann, { limit: 10 })).items).toEqual([])
  expect(await sandboxes.findByKey(key)).toBeUndefined()
  expect(await problemCode(sandboxes.waitSettled(row.id, soon()))).toBe('not_found')
  await eventually(() => expect(at.logged.join()).toContain('the engine is down'))
  expect(await at.controlPlane.sandboxes.get([row.id])).not.toEqual([undefined])
  at.backend.before = () => {}
  await eventually(() => expect(at.backend.sandboxes.size).toBe(0))
  await eventually(async () => expect(await at.controlPlane.sandboxes.get([row.id])).toEqual([undefined]))
})

test('one that ends on its own is an ERROR with the end of its output and without its secrets', async () => {
  const at = await createFixture([{ env: { DEPLOY_TOKEN: 'canary-7f3a', PLAIN: 'stays visible' } }])
  const sandboxes = await at.open()
  const row = await startAndWait(sandboxes)
  const key = (await sandboxes.getInfo(row)).session_api_key ?? ''
  const output = `\u001b[31mfatal\u001b[0m: canary-7f3a ${encodeURIComponent(key)} stays visible ${key}`
  at.backend.crash(row.id, `exit code 1\n${key.slice(9)} cut\n${output}`)
  await eventually(async () => expect(await statusOf(sandboxes, row.id)).toBe('ERROR'))
  const { status_detail: detail } = await sandboxes.getInfo(await sandboxes.get(ann, row.id))
  expect(detail).toBe('exit code 1\n**** cut\nfatal: **** **** stays visible ****')
  expect(at.logged.join()).not.toContain(key)
  await new Promise((resolve) => setTimeout(resolve, 200))
  expect(at.backend.sandboxes.get(row.id)).toMatchObject({ state: 'stopped', starts: 1 })
  expect(await problemCode(sandboxes.pause(row))).toBe('conflict')
  await sandboxes.resume(row)
  const again = await sandboxes.waitSettled(row.id, soon())
  expect(again).toMatchObject({ status: 'RUNNING', detail: null })
  expect(at.backend.sandboxes.get(row.id)?.starts).toBe(2)
})

test('one whose processes end while it starts is an ERROR, and is not started over and over', async () => {
  const at = await createFixture()
  at.backend.after = (verb, id) => {
    if (verb === 'start' && id !== undefined) at.backend.crash(id, 'no such module')
  }
  const sandboxes = await at.open()
  const { id } = await sandboxes.start(ann)
  expect(await sandboxes.waitSettled(id, soon())).toMatchObject({ status: 'ERROR', detail: 'no such module' })
  await new Promise((resolve) => setTimeout(resolve, 200))
  expect(at.backend.sandboxes.get(id)?.starts).toBe(1)
})

test('one of which nothing is left is MISSING and cannot be resumed, also when that shows only at the resume', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const [first, second] = [await startAndWait(sandboxes), await startAndWait(sandboxes)]
  at.backend.vanish(first.id)
  await eventually(async () => expect(await statusOf(sandboxes, first.id)).toBe('MISSING'))
  expect(await problemCode(sandboxes.resume(first))).toBe('conflict')
  expect(await problemCode(sandboxes.pause(first))).toBe('conflict')
  await sandboxes.remove(first)
  await sandboxes.pause(second)
  at.backend.vanish(second.id)
  const error = await sandboxes.resume(second).catch((error: unknown) => error)
  expect(error).toMatchObject({ code: 'conflict', members: { code: 'runtime_not_resumable' } })
  expect(at.backend.calls.filter((call) => call === `start ${second.id}`)).toHaveLength(1)
})

test('one that is on its way can be paused, and starts when it is resumed', async () => {
  const at = await createFixture()
  at.backend.prepare = (agent) => {
    agent.isReady = false
  }
  const sandboxes = await at.open()
  const row = await sandboxes.start(ann)
  await eventually(() => expect(at.backend.sandboxes.get(row.id)?.state).toBe('running'))
  await sandboxes.pause(row)
  expect(await statusOf(sandboxes, row.id)).toBe('PAUSED')
  at.backend.agent(row.id).isReady = true
  await sandboxes.resume(row)
  expect((await sandboxes.waitSettled(row.id, soon())).status).toBe('RUNNING')
})

test('an agent server that is not ready in time is an ERROR that says so, and a resume gives it its time again', async () => {
  const at = await createFixture()
  at.backend.prepare = (agent) => {
    agent.isReady = false
  }
  const sandboxes = await at.open({ startMs: 200 })
  const { id } = await sandboxes.start(ann)
  const row = await sandboxes.waitSettled(id, soon())
  expect(row.status).toBe('ERROR')
  expect(row.detail).toContain('/ready answers 503')
  at.backend.agent(id).isReady = true
  await sandboxes.resume(row)
  expect((await sandboxes.waitSettled(id, soon())).status).toBe('RUNNING')
  expect(at.backend.sandboxes.get(id)?.starts).toBe(1)
})

test('while a backend is down requests are stored, the detail says why, and they are done when it is back', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const row = await startAndWait(sandboxes)
  at.backend.before = () => {
    throw new Error('connect ECONNREFUSED /run/engine.sock')
  }
  expect(await problemCode(sandboxes.pause(row))).toBe('unavailable')
  const second = await sandboxes.start(ann)
  await eventually(async () => {
    const [failed] = await sandboxes.find([second.id])
    expect(failed).toMatchObject({ status: 'STARTING', detail: expect.stringContaining('ECONNREFUSED') })
  })
  at.backend.before = () => {}
  await eventually(async () => expect(await statusOf(sandboxes, row.id)).toBe('PAUSED'))
  expect((await sandboxes.waitSettled(second.id, soon())).status).toBe('RUNNING')
  for (const { id } of [row, second]) expect((await sandboxes.find([id]))[0]?.detail).toBe(null)
})

test('a sandbox belongs to its owner and organisation alone', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const row = await sandboxes.start({ owner: 'ann', org: 'acme' })
  expect((await sandboxes.get({ owner: 'ann', org: 'acme' }, row.id)).id).toBe(row.id)
  expect((await sandboxes.get(ann, row.id)).id).toBe(row.id)
  expect(await problemCode(sandboxes.get(bob, row.id))).toBe('not_found')
  expect(await problemCode(sandboxes.get({ owner: 'ann', org: 'other' }, row.id))).toBe('not_found')
})

test('an idempotency key answers the same sandbox, for one owner and one spec', async () => {
  const at = await createFixture([{}, {}])
  const sandboxes = await at.open()
  const starts = [1, 2, 3].map(() => sandboxes.start(ann, { idempotencyKey: 'k' }))
  const ids = new Set((await Promise.all(starts)).map(({ id }) => id))
  expect(ids.size).toBe(1)
  expect(ids).not.toContain((await sandboxes.start(bob, { idempotencyKey: 'k' })).id)
  const other = sandboxes.start(ann, { idempotencyKey: 'k', spec: 'spec-1' })
  expect(await problemCode(other)).toBe('conflict')
  expect(at.backend.sandboxes.size).toBeLessThan(3)
})

test('an unknown spec and an id that cannot be are refused', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  expect(await problemCode(sandboxes.start(ann, { spec: 'nope' }))).toBe('invalid')
  expect(await problemCode(sandboxes.start(ann, { id: '../x' }))).toBe('invalid')
  const { id } = await sandboxes.start(ann, { id: 'a'.repeat(63) })
  expect(await problemCode(sandboxes.start(bob, { id }))).toBe('conflict')
})

test('what is there without a row is removed, and what has a row without being there is made', async () => {
  const at = await createFixture()
  const stray = {
    id: 'stray',
    image: null,
    command: [],
    env: {},
    workingDir: '',
    resources: {},
    network: 'shared' as const,
  }
  await at.backend.start(stray)
  const quiet = await at.open({}, { begins: false })
  const dead = quiet.start(ann)
  const { id } = await dead
  await quiet[Symbol.asyncDispose]()
  at.backend.vanish(id)
  await at.controlPlane.sandboxes.update(id, { epoch: null, status: 'STARTING' })
  const sandboxes = await at.open()
  await eventually(() => expect(at.backend.sandboxes.has('stray')).toBe(false))
  expect((await sandboxes.waitSettled(id, soon())).status).toBe('RUNNING')
})

test('what was paused or ended while the control plane was away is found as it is', async () => {
  const at = await createFixture()
  const before = await at.open()
  const rows = [await startAndWait(before), await startAndWait(before), await startAndWait(before)]
  const [running, crashed, gone] = rows.map(({ id }) => id)
  await before[Symbol.asyncDispose]()
  at.backend.crash(crashed ?? '')
  at.backend.vanish(gone ?? '')
  const after = await at.open()
  await eventually(async () => {
    const found = await after.find([running ?? '', crashed ?? '', gone ?? ''])
    expect(found.map((row) => row?.status)).toEqual(['RUNNING', 'ERROR', 'MISSING'])
  })
  expect(at.backend.calls.filter((call) => !call.startsWith('start'))).toEqual([])
})

test('of concurrent requests the last one wins, and calls for one sandbox do not overlap', async () => {
  const at = await createFixture()
  at.backend.delayMs = 3
  const sandboxes = await at.open()
  const row = await startAndWait(sandboxes)
  for (let round = 0; round < 8; round++) {
    const verbs = [sandboxes.pause(row), sandboxes.resume(row), sandboxes.pause(row), sandboxes.resume(row)]
    await Promise.all(verbs)
    await sandboxes.resume(row)
    expect((await sandboxes.waitSettled(row.id, soon())).status).toBe('RUNNING')
  }
  await Promise.all([
    sandboxes.resume(row),
    sandboxes.pause(row),
    sandboxes.remove(row).catch(() => {}),
  ]).catch((error: unknown) => expect(error).toMatchObject({ code: 'not_found' }))
  await eventually(() => expect(at.backend.sandboxes.size).toBe(0))
  expect(at.logged.join()).not.toContain('two verbs at once')
})

test('two hundred sandboxes cost one question to the backend a sweep', async () => {
  const at = await createFixture()
  const sandboxes = await at.open()
  const rows = await Promise.all(Array.from({ length: 200 }, () => sandboxes.start(ann)))
  await Promise.all(rows.map(({ id }) => sandboxes.waitSettled(id, AbortSignal.timeout(60_000))))
  await sandboxes[Symbol.asyncDispose]()
  const lists: (string | undefined)[] = []
  at.backend.before = (verb, id) => {
    if (verb === 'list') lists.push(id)
  }
  const writes: string[] = []
  await at.open({ onStep: (name) => writes.push(name) })
  await eventually(() => expect(lists.length).toBeGreaterThan(3))
  expect(lists.every((id) => id === undefined)).toBe(true)
  expect(writes).toEqual([])
}, 90_000)
