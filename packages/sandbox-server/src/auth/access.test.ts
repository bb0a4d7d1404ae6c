import { createApp, type Handlers, listen } from '@slipway/http'
import { Problem, type Route, type Scope, sandboxServerRoutes } from '@slipway/protocol'
import type { AuditFilter, SandboxRow } from '@slipway/storage/control-plane'
import { expect, onTestFinished, test } from 'vitest'
import { keyHandlers, userKeyHandlers } from '../admin/key-handlers.ts'
import { organizationHandlers } from '../admin/organization-handlers.ts'
import { overviewHandlers } from '../admin/overview-handlers.ts'
import { quotaHandlers } from '../admin/quota-handlers.ts'
import { usageHandlers } from '../admin/usage-handlers.ts'
import { userHandlers } from '../admin/user-handlers.ts'
import { auditHandlers } from '../audit/audit-handlers.ts'
import { createSpecs } from '../sandboxes/testing/sandboxes-fixture.ts'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { issueApiKey } from './api-keys.ts'
import { Authenticator } from './authenticator.ts'

const routes: Readonly<Record<string, Route>> = sandboxServerRoutes
const ids = {
  a: '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0caa',
  b: '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0cbb',
}
type Org = keyof typeof ids
const all: readonly Scope[] = ['read', 'write', 'admin', 'operate']
const now = () => Date.now() * 1000
const sandboxKey = 'key-of-a-sandbox'
const sandboxes = (['a', 'b'] as const).map((org) => {
  const state = { spec: 'x', status: 'RUNNING', wanted: 'running', detail: null, created_at: 1 }
  return { id: `sandbox-${org}`, owner: `ann-${org}`, org: ids[org], ...state }
})

/**
 * Two organisations, each with an administrator `root-X` and a user `ann-X`; `both` is in both. Handlers of
 * administrators are the real ones, all others answer 200.
 */
async function openServer() {
  const trial = await openTestControlPlane()
  const { users } = trial.controlPlane
  const keys: Record<string, string> = { none: '', wrong: 'wrong', sandbox: sandboxKey }
  for (const org of Object.keys(ids) as Org[])
    await users.addOrg({ id: ids[org], name: org, daily_conversation_limit: null, created_at: 1 })
  const addUser = async (id: string, orgs: readonly Org[], is_admin = false) => {
    const org = orgs[0] === undefined ? null : ids[orgs[0]]
    const limits = { daily_conversation_limit: null, created_at: 1 }
    await users.addUser({ id, name: id, email: null, org, is_admin, ...limits })
    for (const one of orgs) await users.addMember(ids[one], id)
  }
  const addKey = async (name: string, user: string, scopes: readonly Scope[], org?: Org) => {
    const request = { scopes, org_id: org === undefined ? undefined : ids[org] }
    keys[name] = (await issueApiKey(users, user, request, now())).key
  }
  await addUser('root', [], true)
  for (const org of ['a', 'b'] as const) {
    await addUser(`root-${org}`, [org], true)
    await addUser(`ann-${org}`, [org])
  }
  await addUser('both', ['a', 'b'])
  await addKey('read', 'ann-a', ['read'])
  await addKey('write', 'ann-a', ['write'])
  await addKey('all, no admin', 'ann-a', all)
  await addKey('all, no admin, bound', 'ann-a', all, 'a')
  await addKey('operate', 'both', ['operate'])
  await addKey('admin only', 'root', ['admin'])
  await addKey('admin', 'root', all)
  await addKey('admin, bound', 'root-a', all, 'a')
  await addKey('admin only, bound', 'root-a', ['admin'], 'a')
  const removed: string[] = []
  const rows = sandboxes as unknown as SandboxRow[]
  const { conversations } = trial.controlPlane
  for (const row of sandboxes) {
    const more = { backend: 'model', key_hash: null, sealed: Buffer.alloc(0), epoch: null, addresses: '{}' }
    const times = { changed_at: 1, used_at: 1, caught_up_at: null, deletes_at: null }
    await trial.controlPlane.sandboxes.add({ ...row, ...more, ...times } as SandboxRow)
    const { org, owner } = row
    const blank = { parent: null, title: row.id, status: null, members: '{}', created_at: 1, updated_at: 1 }
    await conversations.add({ ...blank, id: `conversation of ${row.id}`, owner, org, sandbox: row.id })
  }
  const sandboxVerbs = {
    find: async () => rows,
    lastUse: () => 1,
    pause: async ({ id }: SandboxRow) => {
      if (id === 'broken') throw new Error('a secret of the engine')
      removed.push(`paused ${id}`)
    },
    get: async (_: unknown, id: string) => {
      const row = id === 'broken' && rows[0] ? { ...rows[0], id } : rows.find((one) => one.id === id)
      if (row === undefined) throw new Problem('not_found', 'There is no such sandbox')
      return row
    },
    remove: async ({ id }: SandboxRow) => void removed.push(id),
  }
  const audit = sandboxes.map(({ id, org }) => ({
    id,
    org,
    caller: 'user:x',
    created_at: 1,
    status: 200,
    route: '/',
    method: 'PUT',
  }))
  const auditLog = {
    rows: {
      search: async ({ org }: AuditFilter) => ({
        items: audit.filter((one) => org === undefined || one.org === org),
        next_page_id: null,
      }),
    },
    settle: async () => {},
  }
  const real = {
    ...keyHandlers({ users, now }),
    ...userKeyHandlers({ users, now }),
    ...userHandlers({
      users,
      removeUser: async (id) => void removed.push(id),
      eraseUser: async (id) => {
        removed.push(id)
        return { user: id, erased_at: '', counts: {}, digest: '' }
      },
      repeatErasure: async () => undefined,
      now,
    }),
    ...organizationHandlers({ users, specs: { find: () => undefined }, exemptOrgs: [], now }),
    ...quotaHandlers({
      users,
      sandboxes: { listRunning: async () => [] } as never,
      quota: { status: async () => ({ limit: null, used: 0, resetAt: now() }) } as never,
      storageQuota: { status: async () => ({ conversations: 0, bytes: 0 }) } as never,
      maxSandboxes: 1,
    }),
    ...auditHandlers({ auditLog: auditLog as never }),
    ...usageHandlers({ controlPlane: trial.controlPlane, now }),
    ...overviewHandlers({
      controlPlane: trial.controlPlane,
      sandboxes: sandboxVerbs as never,
      specs: createSpecs([{}]),
      log: () => {},
    }),
  }
  const answer = () => ({ json: null })
  const handlers = Object.fromEntries(
    Object.entries(routes).map(([name, { access }]) => [
      name,
      access === 'admin' || access === 'server' || access === 'organization' || name === 'createApiKey'
        ? real[name as keyof typeof real]
        : answer,
    ]),
  ) as unknown as Handlers<typeof sandboxServerRoutes>
  const authenticator = new Authenticator({
    users,
    sandboxes: { findByKey: async (key) => (key === sandboxKey ? rows[0] : undefined) },
    keys: [],
    now,
  })
  const app = createApp(sandboxServerRoutes, handlers, {
    openapi: {},
    identify: authenticator.authenticate.bind(authenticator),
    log: () => {},
  })
  const listening = await listen(app, { host: '127.0.0.1', port: 0, stopMs: 200 })
  onTestFinished(async () => {
    await listening.close()
    await trial[Symbol.asyncDispose]()
  })
  const call = async (key: string, method: string, path: string, body?: unknown) => {
    const response = await fetch(listening.url + path, {
      method,
      headers: {
        ...(key === 'none' ? {} : { 'x-session-api-key': keys[key] ?? '' }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
    return { status: response.status, text, json: text === '' || !isJson ? undefined : JSON.parse(text) }
  }
  return { call, keys, users, removed }
}

test('who may call what: every route with every kind of key', async () => {
  const { call, keys } = await openServer()
  const lines = await Promise.all(
    Object.values(routes).map(async ({ method, path }) => {
      const cells = Object.keys(keys).map(async (key) => {
        const { status } = await call(key, method, path.replaceAll(/\{\w+\*?\}/g, 'x'))
        return status === 401 || status === 403 ? '' : key
      })
      const allowed = (await Promise.all(cells)).filter((key) => key !== '')
      const isEverybody = allowed.length === Object.keys(keys).length
      return `${method} ${path}: ${isEverybody ? 'everybody' : allowed.join('; ')}`
    }),
  )
  await expect(`${lines.sort().join('\n')}\n`).toMatchFileSnapshot('./testing/access-table.txt')
})

const unknown = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c00'
const newKey = (org: string | undefined, scopes: readonly Scope[] = ['admin']) => ({ scopes, org_id: org })
const quota = { daily_conversation_limit: 3 }

/** Method, path, body; and the status with an administrator's key that is bound to organisation A. */
const boundCells: readonly (readonly [string, string, unknown, number])[] = [
  ['PUT', `/api/admin/quota/orgs/${ids.a}/quota`, quota, 200],
  ['PUT', `/api/admin/quota/orgs/${ids.b}/quota`, quota, 404],
  ['PUT', '/api/admin/quota/users/ann-a/quota', quota, 200],
  ['PUT', '/api/admin/quota/users/ann-b/quota', quota, 404],
  ['PUT', '/api/admin/quota/users/both/quota', quota, 403],
  ['GET', '/api/admin/quota/users/ann-a/quota', undefined, 200],
  ['GET', '/api/admin/quota/users/ann-b/quota', undefined, 404],
  ['POST', '/api/admin/users', { name: 'n' }, 201],
  ['POST', '/api/admin/users', { name: 'n', org_id: ids.a }, 201],
  ['POST', '/api/admin/users', { name: 'n', org_id: ids.b }, 404],
  ['POST', '/api/admin/users', { name: 'n', is_admin: true }, 403],
  ['PATCH', '/api/admin/users/ann-a', { name: 'n' }, 200],
  ['PATCH', '/api/admin/users/ann-a', { is_admin: true }, 403],
  ['PATCH', '/api/admin/users/ann-a', { org_id: ids.b }, 404],
  ['PATCH', '/api/admin/users/ann-b', { name: 'n' }, 404],
  ['PATCH', '/api/admin/users/both', { name: 'n' }, 403],
  ['PATCH', '/api/admin/users/root', { name: 'n' }, 404],
  ['POST', '/api/admin/users/ann-a/keys', newKey(ids.a), 201],
  ['POST', '/api/admin/users/both/keys', newKey(ids.a), 201],
  ['POST', '/api/admin/users/both/keys', newKey(ids.b), 403],
  ['POST', '/api/admin/users/root-a/keys', newKey(undefined), 403],
  ['POST', '/api/admin/users/ann-b/keys', newKey(ids.a), 404],
  ['POST', '/api/admin/organizations', { name: 'C' }, 403],
  ['PUT', `/api/admin/organizations/${ids.a}/members/ann-a`, undefined, 200],
  ['PUT', `/api/admin/organizations/${ids.a}/members/ann-b`, undefined, 404],
  ['PUT', `/api/admin/organizations/${ids.b}/members/ann-a`, undefined, 404],
  ['DELETE', `/api/admin/organizations/${ids.b}/members/both`, undefined, 404],
  ['DELETE', `/api/admin/organizations/${unknown}/members/both`, undefined, 404],
  ['DELETE', '/api/admin/sandboxes/sandbox-b', undefined, 404],
  ['DELETE', '/api/admin/sandboxes/sandbox-a', undefined, 200],
  ['DELETE', '/api/admin/users/ann-b', undefined, 404],
  ['DELETE', '/api/admin/users/both', undefined, 403],
  ['DELETE', '/api/admin/users/ann-a', undefined, 200],
]

test('an administrator’s key of an organisation acts on that organisation only', async () => {
  const { call, removed, users } = await openServer()
  for (const [method, path, body, status] of boundCells) {
    const answer = await call('admin, bound', method, path, body)
    expect([method, path, body, answer.status]).toEqual([method, path, body, status])
    if (status === 201 && answer.json.org_id !== undefined) expect(answer.json.org_id).toBe(ids.a)
  }
  expect(removed).toEqual(['sandbox-a', 'ann-a'])
  const body = { action: 'pause', ids: ['sandbox-b', 'sandbox-a', 'sandbox-a', 'none', 'broken'] }
  const missing = { status: 404, detail: 'There is no such sandbox' }
  expect((await call('admin, bound', 'POST', '/api/admin/sandboxes/actions', body)).json).toEqual({
    results: [
      { id: 'sandbox-b', ...missing },
      { id: 'sandbox-a', status: 200, detail: null },
      { id: 'sandbox-a', status: 200, detail: null },
      { id: 'none', ...missing },
      { id: 'broken', status: 500, detail: 'It failed; the log of the server says why' },
    ],
  })
  expect(removed.splice(2)).toEqual(['paused sandbox-a'])
  const foreignOrg = await call('admin, bound', 'GET', `/api/admin/sandboxes?org_id=${ids.b}`)
  expect(foreignOrg.json).toEqual({ items: [], next_page_id: null })
  expect(await users.getUser('ann-b')).toMatchObject({ name: 'ann-b', daily_conversation_limit: null })
  const shown = [
    ['users', 'both', 'ann-b'],
    ['organizations', ids.a, ids.b],
    ['sandboxes', 'sandbox-a', 'sandbox-b'],
    ['conversations', 'sandbox-a', 'sandbox-b'],
    ['sandboxes?sort_order=COST', 'sandbox-a', 'sandbox-b'],
    ['audit', ids.a, ids.b],
  ] as const
  for (const [path, own, foreign] of shown) {
    const ofBound = await call('admin, bound', 'GET', `/api/admin/${path}`)
    expect([ofBound.status, ofBound.text]).toEqual([200, expect.stringContaining(own)])
    expect(ofBound.text).not.toContain(foreign)
    expect((await call('admin', 'GET', `/api/admin/${path}`)).text).toContain(foreign)
  }
})

test('no key makes one with more than it has', async () => {
  const { call } = await openServer()
  const make = async (key: string, path: string, body: unknown) =>
    (await call(key, 'POST', path, body)).status
  for (const scope of ['read', 'write'] as const) {
    expect(await make('admin only', '/api/admin/users/root/keys', newKey(undefined, [scope]))).toBe(403)
    expect(await make('admin only, bound', '/api/admin/users/root-a/keys', newKey(ids.a, [scope]))).toBe(403)
  }
  expect(await make('admin only', '/api/admin/users/root/keys', newKey(undefined))).toBe(201)
  expect(await make('write', '/api/keys', newKey(undefined, ['read']))).toBe(403)
  expect(await make('admin, bound', '/api/keys', newKey(undefined, all))).toBe(403)
})
