import { systemClock } from '@slipway/shared/time'
import { Cipher } from '@slipway/storage'
import { AuditTrail, type ControlPlaneStore } from '@slipway/storage/control-plane'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createFixture } from '../sandboxes/testing/sandboxes-fixture.ts'
import { temporaryDirectory } from '../testing/fixtures.ts'
import { Accounts } from './accounts.ts'
import { eraseUser, repeatErasure } from './erase-user.ts'

const now = () => systemClock.now() * 1000
const user = { name: 'Ann Smith', email: 'ann@example.org', org: null, daily_conversation_limit: null }

/** A user with something of each kind, and sandboxes on a backend in memory. */
async function openWork() {
  const at = await createFixture()
  const { controlPlane, backend } = at
  const { users, conversations, startTasks, pendingMessages, documents, audit } = controlPlane
  const directory = temporaryDirectory()
  onTestFinished(() => directory[Symbol.dispose]())
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const accounts = new Accounts({ documents, cipher, model: undefined, maxProfiles: 5 })
  const sandboxes = await at.open()
  const add = async (id: string) => {
    await users.addUser({ id, is_admin: false, ...user, created_at: 1 })
    const key = {
      hash: `hash ${id}`,
      user: id,
      org: null,
      name: 'laptop of Ann',
      scopes: [],
      created_by: null,
    }
    const times = { not_before: null, expires_at: null, created_at: 1, used_at: null }
    await users.addKey({ id: `key-${id}`, ...key, ...times })
    const sandbox = await sandboxes.start({ owner: id })
    const row = { owner: id, org: null, title: 'Salary of Ann', status: null, members: '{}', parent: null }
    for (const name of ['one', 'two'])
      await conversations.add({
        id: `${name}-${id}`,
        sandbox: sandbox.id,
        ...row,
        created_at: 1,
        updated_at: 1,
      })
    const task = {
      owner: id,
      org: null,
      status: 'ERROR',
      detail: null,
      sandbox: null,
      agent_url: null,
    } as const
    const rest = { request: '{}', quota_day: null, created_at: 1, updated_at: 1 }
    await startTasks.add({ id: `task-${id}`, conversation: null, ...task, ...rest })
    await pendingMessages.add({ id: `m-${id}`, target: 't', owner: id, message: '{}', created_at: 1 }, 9)
    await accounts.userSecrets.save('TOKEN_OF_ANN', { value: 'secret value' }, id)
    await accounts.gitProviders.update(id, { github: { token: 'token' } })
    await sandboxes.waitSettled(sandbox.id, AbortSignal.timeout(20_000))
    return sandbox.id
  }
  const ids = { ann: await add('ann'), ben: await add('ben') }
  const route = { method: 'POST', route: '/x', request_id: 'r' }
  const trail = new AuditTrail({ ...route, action: 'createSecret', target_type: 'secret' }, 5)
  trail.setCaller({ caller: 'user:ann', via: 'key-ann', org: null })
  trail.target = 'TOKEN_OF_ANN'
  await audit.put(trail.toRow([], 201))
  const changed = new AuditTrail({ ...route, action: 'patchUser', target_type: 'user' }, 6)
  changed.target = 'ann'
  await changed.run(() => users.updateUser('ann', { email: 'smith@example.org' }))
  return { ...at, controlPlane, backend, cipher, accounts, sandboxes, ids }
}

type Work = Awaited<ReturnType<typeof openWork>>

/** The verbs that `eraseUser` needs, over one control plane. */
function depsOf({ accounts, cipher, sandboxes }: Work, controlPlane: ControlPlaneStore) {
  const records = { get: async (ids: readonly string[]) => ids.map(() => ({ head: 3 })) as never }
  const overwriteRemoved = vi.fn(async () => {})
  const storage = { conversations: records, overwriteRemoved }
  const conversations = {
    remove: async (_: unknown, id: string) => void (await controlPlane.conversations.remove(id)),
  }
  const starter = { cancel: async () => {} }
  return { controlPlane, sandboxes, accounts, cipher, storage, conversations, starter, now }
}

/** Everything in the database, as text. */
async function readAll({ controlPlane }: Work): Promise<string> {
  const { users, sandboxes, conversations, startTasks, pendingMessages, documents, audit } = controlPlane
  const all = [
    await users.getUser('ann'),
    await users.listKeys('ann'),
    await sandboxes.search({ owner: 'ann' }, { limit: 100 }),
    await conversations.listIds('ann'),
    await startTasks.search({ owner: 'ann' }, { limit: 100, sort_order: 'CREATED_AT' }),
    await pendingMessages.listIds('ann'),
    await documents.list('ann'),
    await audit.search({ limit: 100 }),
  ]
  return JSON.stringify(all)
}

const counts = {
  ...{ sandboxes: 1, conversations: 2, events: 6, start_tasks: 1, pending_messages: 1, keys: 1 },
  ...{ secrets: 1, profiles: 0, git_providers: 1, documents: 2, memberships: 0, audit_lines: 2 },
}

test('all data of a person goes, lines of the audit stay under a pseudonym, and others keep theirs', async () => {
  const work = await openWork()
  const deps = depsOf(work, work.controlPlane)
  const erasure = await eraseUser(deps, 'ann', AbortSignal.timeout(20_000))
  expect(erasure).toMatchObject({ counts, digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) })
  expect(work.backend.sandboxes.has(work.ids.ann)).toBe(false)
  expect(work.backend.sandboxes.has(work.ids.ben)).toBe(true)
  const text = await readAll(work)
  expect(text).not.toMatch(/Ann|smith|"ann"|user:ann|TOKEN/)
  const { items } = await work.controlPlane.audit.search({ limit: 10 })
  expect(items).toMatchObject([
    { action: 'patchUser', target: erasure.user, before: null, after: null },
    { action: 'createSecret', caller: `user:${erasure.user}`, target: null },
  ])
  expect(await work.controlPlane.users.getUser('ben')).toMatchObject(user)
  expect(await work.accounts.userSecrets.getValue('TOKEN_OF_ANN', 'ben')).toBe('secret value')
  expect(deps.storage.overwriteRemoved).toHaveBeenCalledOnce()
}, 60_000)

test('a repeat is answered by id and by pseudonym, overwrites files again, and leaves no id in the audit', async () => {
  const work = await openWork()
  const deps = depsOf(work, work.controlPlane)
  const signal = AbortSignal.timeout(20_000)
  const erasure = await eraseUser(deps, 'ann', signal)
  for (const id of ['ann', erasure.user]) {
    const trail = new AuditTrail(
      { action: 'eraseUser', method: 'POST', route: '/x', target_type: 'user', request_id: 'r' },
      7,
    )
    trail.target = id
    expect(await trail.run(() => repeatErasure(deps, id, signal))).toEqual(erasure)
    expect(trail.toRow([], 200).target).toBe(erasure.user)
  }
  expect(deps.storage.overwriteRemoved).toHaveBeenCalledTimes(3)
  expect(await repeatErasure(deps, 'ben', signal)).toBeUndefined()
}, 60_000)

test('a later user of the same id, as the first one of a server, has a certificate of their data', async () => {
  const work = await openWork()
  const { users } = work.controlPlane
  const deps = depsOf(work, work.controlPlane)
  const first = await eraseUser(deps, 'ann', AbortSignal.timeout(20_000))
  await users.addUser({ id: 'ann', is_admin: true, ...user, created_at: now() + 1 })
  await work.accounts.userSecrets.save('OTHER', { value: 'secret value' }, 'ann')
  const second = await eraseUser(deps, 'ann', AbortSignal.timeout(20_000))
  expect(second.counts).toMatchObject({ conversations: 0, secrets: 1 })
  expect(second.digest).not.toBe(first.digest)
  expect(await repeatErasure(deps, 'ann', AbortSignal.timeout(20_000))).toEqual(second)
  expect(await users.getUser('ann')).toBeUndefined()
}, 60_000)

test('a sandbox that the user has deleted before is gone too before all is certified', async () => {
  const work = await openWork()
  const { sandboxes, ids, controlPlane, backend } = work
  let isDown = true
  backend.before = (verb) => {
    if (verb === 'remove' && isDown) throw new Error('the engine is down')
  }
  const [row] = await sandboxes.find([ids.ann])
  if (row !== undefined) await sandboxes.remove(row)
  const erasing = eraseUser(depsOf(work, controlPlane), 'ann', AbortSignal.timeout(20_000))
  const first = await Promise.race([erasing, systemClock.sleep(1_000)])
  expect(first).toBeUndefined()
  isDown = false
  expect(await erasing).toMatchObject({ counts })
  expect(backend.sandboxes.has(ids.ann)).toBe(false)
  const left = [
    await controlPlane.sandboxEvents.list(ids.ann),
    await controlPlane.sandboxEvents.getLog(ids.ann),
  ]
  expect(left).toEqual([[], undefined])
}, 60_000)

test('broken off at each change, a repeat continues and certifies the same', async () => {
  let at = 0
  for (let isBroken = true; isBroken; at++) {
    const work = await openWork()
    isBroken = false
    let left = at
    const breaking = <T extends object>(rows: T): T =>
      new Proxy(rows, {
        get(object, name) {
          const member = Reflect.get(object, name)
          if (typeof member !== 'function') return member
          return (...given: unknown[]) => {
            const changes = /^(remove|update|pseudonymise)/.test(String(name))
            if (changes && !isBroken && left-- === 0) {
              isBroken = true
              throw new Error('broken off')
            }
            return member.apply(object, given)
          }
        },
      })
    const { controlPlane } = work
    const broken = {
      ...controlPlane,
      users: breaking(controlPlane.users),
      conversations: breaking(controlPlane.conversations),
      startTasks: breaking(controlPlane.startTasks),
      pendingMessages: breaking(controlPlane.pendingMessages),
      documents: breaking(controlPlane.documents),
      audit: breaking(controlPlane.audit),
    }
    const first = await eraseUser(depsOf(work, broken), 'ann', AbortSignal.timeout(20_000)).catch(String)
    expect(typeof first === 'string').toBe(isBroken)
    const erasure = await eraseUser(depsOf(work, controlPlane), 'ann', AbortSignal.timeout(20_000))
    expect(erasure, `broken off at change ${at}`).toMatchObject({ counts })
    expect(await readAll(work)).not.toMatch(/Ann|smith|"ann"|user:ann|TOKEN/)
    expect(work.backend.sandboxes.has(work.ids.ann)).toBe(false)
  }
  expect(at).toBeGreaterThan(8)
}, 120_000)
