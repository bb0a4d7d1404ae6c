import type { Scope } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { AuditTrail } from '@slipway/storage/control-plane'
import { expect, test } from 'vitest'
import { operateHandlers } from './operate-handlers.ts'
import type { SandboxesOptions } from './state/context.ts'
import { createFixture, eventually, startAndWait } from './testing/sandboxes-fixture.ts'

const canary = 'canary-of-the-owner'

function caller(owner: string, scopes: readonly Scope[], boundOrg: string | null = null) {
  return { owner, org: boundOrg ?? undefined, scopes, keyId: null, expiresAt: null, boundOrg, isAdmin: false }
}
const ann = caller('ann', ['read', 'write'])
const operator = caller('olga', ['operate'])
const strangers = [
  caller('bob', ['read', 'write']),
  caller('bob', ['read', 'write', 'admin']),
  caller('olga', ['operate'], 'another organisation'),
]

async function open(options: Partial<SandboxesOptions> = {}) {
  const at = await createFixture([{ env: { API_TOKEN: 'canary-of-the-spec' } }])
  const limits = { daily_conversation_limit: null, created_at: 1 }
  await at.controlPlane.users.addUser({
    id: 'ann',
    name: 'Ann',
    email: null,
    org: null,
    is_admin: false,
    ...limits,
  })
  const sandboxes = await at.open({ findSecrets: async () => [canary], ...options })
  const handlers = operateHandlers({
    sandboxes,
    controlPlane: at.controlPlane,
    lookupSecrets: { listTexts: async () => [canary] },
    clock: systemClock,
  })
  const run = async (
    name: keyof typeof handlers,
    as: unknown,
    sandbox_id: string,
    body = { command: 'true', timeout_seconds: 60 },
  ) => {
    const request = { caller: as, params: { sandbox_id }, body }
    return (await handlers[name](request as never)).json
  }
  const events = async (as: unknown, id: string) => {
    const { items } = (await handlers.listSandboxEvents({ caller: as, params: { sandbox_id: id } } as never))
      .json
    return items.map(({ kind, actor, detail }) => [kind, actor, detail])
  }
  return { ...at, sandboxes, run, events }
}

test('owners and operators look into a sandbox, and for all others it is unknown', async () => {
  const { sandboxes, backend, run, events } = await open()
  const { id } = await startAndWait(sandboxes)
  backend.log = `listening\n${canary} and canary-of-the-spec\n`
  for (const as of [ann, operator]) {
    const log = await run('getSandboxLog', as, id)
    expect(log).toMatchObject({ is_live: true, text: 'listening\n**** and ****\n' })
  }
  backend.agent(id).bash = (command) => `${command}: ${canary}`
  const body = { command: `echo ${canary}`, timeout_seconds: 5 }
  const result = await run('execInSandbox', operator, id, body)
  expect(result).toEqual({ exit_code: 3, stdout: 'echo ****: ****', stderr: '' })
  for (const name of ['getSandboxLog', 'listSandboxEvents', 'execInSandbox', 'restartSandbox'] as const) {
    for (const as of strangers)
      await expect(run(name, as, id), name).rejects.toMatchObject({ code: 'not_found' })
    await expect(run(name, ann, 'nope')).rejects.toMatchObject({ code: 'not_found' })
    const reader = caller('ann', ['read', 'operate'])
    await expect(run(name, reader, id)).rejects.toMatchObject({ code: 'forbidden' })
  }
  // The owner sees what the operator did.
  expect(await events(ann, id)).toEqual([
    ['create', 'user:ann', null],
    ['running', null, null],
    ['logs', 'user:olga', null],
    ['exec', 'user:olga', 'echo ****'],
  ])
})

test('a line of the audit says whether it was the own sandbox or that of somebody else', async () => {
  const { sandboxes, run } = await open()
  const { id } = await startAndWait(sandboxes)
  for (const [as, scope] of [
    [ann, 'write'],
    [caller('olga', ['write', 'operate']), 'operate'],
  ] as const) {
    const route = { action: 'a', method: 'POST', route: '/x', target_type: 'sandbox', request_id: 'r' }
    const trail = new AuditTrail(route, 5)
    trail.allowedBy = { role: 'user', scope: 'write', org_id: null }
    await trail.run(() => run('listSandboxEvents', as, id))
    expect(trail.toRow().allowed_by).toMatchObject({ role: 'user', scope })
  }
})

test('a restart ends the processes and starts them again on the same files', async () => {
  const { sandboxes, backend, run, events } = await open()
  const { id, epoch } = await startAndWait(sandboxes)
  await run('restartSandbox', operator, id)
  await eventually(async () => expect((await sandboxes.find([id]))[0]?.status).toBe('RUNNING'))
  const [row] = await sandboxes.find([id])
  expect(row?.epoch).not.toBe(epoch)
  expect(backend.sandboxes.get(id)?.starts).toBe(2)
  expect(backend.calls.filter((call) => !call.startsWith('start'))).toEqual([`stop ${id}`, `resume ${id}`])
  // One that has failed starts again too.
  backend.crash(id)
  await eventually(async () => expect((await sandboxes.find([id]))[0]?.status).toBe('ERROR'))
  await run('restartSandbox', ann, id)
  await eventually(async () => expect((await sandboxes.find([id]))[0]?.status).toBe('RUNNING'))
  await sandboxes.pause({ ...row, id } as never)
  await expect(run('restartSandbox', ann, id)).rejects.toMatchObject({ code: 'conflict' })
  await expect(run('execInSandbox', ann, id)).rejects.toMatchObject({ code: 'conflict' })
  expect((await events(ann, id)).map(([kind, actor]) => `${kind} ${actor}`)).toEqual([
    'create user:ann',
    'running null',
    'restart user:olga',
    'running null',
    'failed null',
    'restart user:ann',
    'running null',
    'pause null',
    'paused null',
  ])
})

test('a restart continues after a crash between its steps', async () => {
  const { open: reopen, sandboxes, backend } = await open()
  const { id, epoch } = await startAndWait(sandboxes)
  await sandboxes[Symbol.asyncDispose]()
  const other = await reopen({}, { begins: false })
  backend.before = (verb) => {
    if (verb === 'stop') throw new Error('the engine is down')
  }
  const [row] = await other.find([id])
  const restarted = other.restart(row as never)
  await expect(restarted).rejects.toMatchObject({ code: 'bad_gateway' })
  await other[Symbol.asyncDispose]()
  backend.before = () => {}
  const last = await reopen()
  await eventually(async () => expect((await last.find([id]))[0]?.status).toBe('RUNNING'))
  expect((await last.find([id]))[0]?.epoch).not.toBe(epoch)
})

test('the log and the events of a deleted sandbox stay for its owner and operators', async () => {
  const { sandboxes, backend, run, events } = await open()
  const row = await startAndWait(sandboxes)
  backend.log = `the last words of ${canary}`
  await sandboxes.remove(row, { actor: 'user:olga' })
  await eventually(async () => expect((await events(ann, row.id)).at(-1)).toEqual(['deleted', null, null]))
  for (const as of [ann, operator])
    expect(await run('getSandboxLog', as, row.id)).toMatchObject({
      is_live: false,
      text: 'the last words of ****',
    })
  for (const as of strangers)
    await expect(run('getSandboxLog', as, row.id)).rejects.toMatchObject({ code: 'not_found' })
  expect(await events(ann, row.id)).toContainEqual(['delete', 'user:olga', null])
  await expect(run('restartSandbox', ann, row.id)).rejects.toMatchObject({ code: 'not_found' })
})

test('a backend that does not give its log holds up no removal', async () => {
  const { sandboxes, backend, run } = await open()
  const row = await startAndWait(sandboxes)
  backend.readLog = async () => {
    throw new Error('the engine is down')
  }
  await sandboxes.remove(row)
  await eventually(() => expect(backend.sandboxes.size).toBe(0))
  expect(await run('getSandboxLog', ann, row.id)).toMatchObject({ is_live: true, text: '' })
})
