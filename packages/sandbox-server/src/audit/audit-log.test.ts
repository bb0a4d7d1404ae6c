import { ConsoleTokens, consoleHandlers, createApp, type Handlers, listen } from '@slipway/http'
import { sandboxServerRoutes } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { expect, onTestFinished, test } from 'vitest'
import { Accounts } from '../accounts/accounts.ts'
import { profileHandlers } from '../accounts/profile-handlers.ts'
import { removeUser } from '../accounts/remove-user.ts'
import { secretHandlers } from '../accounts/secret-handlers.ts'
import { settingsHandlers } from '../accounts/settings-handlers.ts'
import { keyHandlers, userKeyHandlers } from '../admin/key-handlers.ts'
import { organizationHandlers } from '../admin/organization-handlers.ts'
import { quotaHandlers } from '../admin/quota-handlers.ts'
import { userHandlers } from '../admin/user-handlers.ts'
import { issueApiKey } from '../auth/api-keys.ts'
import { Authenticator, auditCaller, defaultUserId } from '../auth/authenticator.ts'
import { consoleAccounts } from '../auth/console-accounts.ts'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { auditHandlers } from './audit-handlers.ts'
import { AuditLog } from './audit-log.ts'

const secret = 'sk-secret-value-of-a-test'

/** The handlers of accounts, keys and organisations over a real store, with an audit. */
async function startServer() {
  const opened = await openTestControlPlane()
  const { controlPlane, cipher } = opened
  const { users, documents } = controlPlane
  const now = () => systemClock.now() * 1000
  const none = { name: null, email: null, org: null, daily_conversation_limit: null, created_at: now() }
  await users.addUser({ id: defaultUserId, is_admin: true, ...none })
  const { key } = await issueApiKey(users, defaultUserId, { scopes: ['read', 'write', 'admin'] }, now())
  const auditLog = new AuditLog({ rows: controlPlane.audit, clock: systemClock, log: () => {} })
  const accounts = new Accounts({ documents, cipher, model: undefined, maxProfiles: 5 })
  const quota = { status: async () => ({}) } as never
  const authenticator = new Authenticator({
    ...{ users, keys: [], now },
    sandboxes: { findByKey: async () => undefined },
  })
  const real = {
    ...keyHandlers({ users, now }),
    ...userKeyHandlers({ users, now }),
    ...userHandlers({
      users,
      removeUser: (id, how) => removeUser({ controlPlane } as never, id, how),
      eraseUser: {} as never,
      repeatErasure: {} as never,
      now,
    }),
    ...organizationHandlers({ users, specs: { find: () => undefined }, exemptOrgs: [], now }),
    ...quotaHandlers({ users, sandboxes: {} as never, quota, storageQuota: quota, maxSandboxes: 1 }),
    ...profileHandlers({ accounts }),
    ...secretHandlers({ accounts, lookupSecrets: {} as never }),
    ...settingsHandlers({ accounts, users, sandboxes: {} as never }),
    ...auditHandlers({ auditLog }),
    ...consoleHandlers({
      ...{ server: 'sandbox', version: '1', tokens: new ConsoleTokens() },
      accounts: consoleAccounts({ users, authenticator, now }),
    }),
  }
  const unused = () => ({ json: null })
  const handlers = Object.fromEntries(
    Object.keys(sandboxServerRoutes).map((name) => [name, real[name as keyof typeof real] ?? unused]),
  ) as unknown as Handlers<typeof sandboxServerRoutes>
  const app = createApp(sandboxServerRoutes, handlers, {
    identify: authenticator.authenticate.bind(authenticator),
    openTrail: auditLog.openTrail,
    auditCaller,
    log: () => {},
  })
  const listening = await listen(app, { host: '127.0.0.1', port: 0, stopMs: 200 })
  onTestFinished(async () => {
    await listening.close()
    await auditLog[Symbol.asyncDispose]()
    await opened[Symbol.asyncDispose]()
  })
  const call = async (method: string, path: string, body?: unknown, as = key) => {
    const response = await fetch(listening.url + path, {
      method,
      headers: { 'x-session-api-key': as, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return {
      status: response.status,
      text,
      json: response.headers.get('content-type') === 'application/json' ? JSON.parse(text) : undefined,
    }
  }
  const lines = async (query = '') => (await call('GET', `/api/admin/audit${query}`)).json.items
  return { call, lines, key }
}

test('each change says who, what, about whom, before and after', { timeout: 20_000 }, async () => {
  const { call, lines } = await startServer()
  const { id } = (await call('POST', '/api/admin/users', { name: 'Ann' })).json
  await call('PUT', `/api/admin/quota/users/${id}/quota`, { daily_conversation_limit: 5, max_sandboxes: 2 })
  await call('PATCH', `/api/admin/users/${id}`, { name: 'Ann B.' })
  const { id: org } = (await call('POST', '/api/admin/organizations', { name: 'Blue' })).json
  await call('PUT', `/api/admin/organizations/${org}/members/${id}`)
  const { id: keyId, key } = (await call('POST', `/api/admin/users/${id}/keys`, { name: 'first' })).json
  await call('POST', '/api/v1/secrets', { name: 'TOKEN', value: secret }, key)
  const profile = { llm: { model: 'm', api_key: secret } }
  await call('POST', '/api/v1/settings/profiles/fast', profile, key)
  await call('POST', '/api/v1/settings', { agent_settings_diff: { llm: { api_key: secret } } }, key)
  await call('DELETE', `/api/admin/organizations/${org}/members/${id}`)
  await call('DELETE', `/api/admin/users/${id}`)
  const root = { caller: `user:${defaultUserId}`, allowed_by: { role: 'administrator', scope: 'admin' } }
  const ann = { caller: `user:${id}`, via: keyId, allowed_by: { role: 'user', scope: 'write' } }
  const found = await lines()
  expect(found.toReversed()).toMatchObject([
    { ...root, action: 'createUser', status: 201, target: { type: 'user', id }, after: { name: 'Ann' } },
    {
      ...{ ...root, action: 'setUserQuota', target: { type: 'quota', id } },
      before: { daily_conversation_limit: null },
      after: { daily_conversation_limit: 5, max_sandboxes: 2 },
    },
    { ...root, action: 'patchUser', before: { name: 'Ann' }, after: { name: 'Ann B.' } },
    { ...root, action: 'createOrganization', target: { id: org }, after: { name: 'Blue' } },
    { ...root, action: 'joinOrganization', target: { id: org }, after: { user: id } },
    { ...root, action: 'createUserKey', target: { type: 'key', id: keyId }, after: { user: id } },
    {
      ...{ ...ann, action: 'createSecret', target: { type: 'secret', id: 'TOKEN' } },
      after: { TOKEN: { value: '**********' } },
    },
    {
      ...{ ...ann, action: 'saveUserProfile', target: { type: 'profile', id: 'fast' } },
      after: { profiles: { fast: { model: 'm', api_key: '**********' } } },
    },
    {
      ...{ ...ann, action: 'changeSettings', target: { type: 'settings', id: null } },
      after: { agent_settings: { llm: { api_key: '**********' } } },
    },
    { ...root, action: 'leaveOrganization', before: { user: id } },
    { ...root, action: 'deleteUser', target: { id }, before: { name: 'Ann B.', keys: [keyId] }, after: null },
  ])
  const text = JSON.stringify(found)
  expect(text).not.toContain(secret)
  expect(text).not.toContain(key)
})

test('what is refused has a line with the status, the caller where the key is known, and no right', async () => {
  const { call, lines } = await startServer()
  const { id, key } = (await call('POST', '/api/keys', { scopes: ['read'] })).json
  await call('DELETE', '/api/admin/users/u', undefined, key)
  await call('POST', '/api/admin/users', { name: 'x' }, 'wrong-key')
  await call('DELETE', '/api/admin/users/unknown')
  await call('POST', '/api/admin/users', { name: 7 })
  const caller = `user:${defaultUserId}`
  const refused = await lines('?refused=true')
  expect(refused.toReversed()).toMatchObject([
    { action: 'deleteUser', status: 403, caller, via: id, allowed_by: null, target: { id: null } },
    { action: 'createUser', status: 401, caller: null, via: null, allowed_by: null },
    { action: 'deleteUser', status: 404, caller, target: { type: 'user', id: 'unknown' } },
    { action: 'createUser', status: 422, caller, after: null },
  ])
})

test('what is done in a sandbox has the right by which it was allowed', async () => {
  const { call, lines } = await startServer()
  const { key } = (await call('POST', '/api/keys', { scopes: ['read', 'operate'] })).json
  const { key: reader } = (await call('POST', '/api/keys', { scopes: ['read'] })).json
  for (const as of [undefined, key, reader])
    await call('POST', '/api/v1/sandboxes/sb-1/restart', undefined, as)
  const target = { type: 'sandbox', id: 'sb-1' }
  const role = 'administrator'
  expect((await lines('?action=restartSandbox')).toReversed()).toMatchObject([
    { status: 200, target, allowed_by: { role, scope: 'write' } },
    { status: 200, target, allowed_by: { role, scope: 'operate' } },
    { status: 403, allowed_by: null },
  ])
})

test('a change that an answer does not wait for is in its line', async () => {
  await using opened = await openTestControlPlane()
  const { audit, users } = opened.controlPlane
  await using auditLog = new AuditLog({ rows: audit, clock: systemClock, log: () => {} })
  const trail = auditLog.openTrail('createUser', sandboxServerRoutes.createUser, 'r')
  const row = {
    id: 'u',
    name: 'Ann',
    email: null,
    org: null,
    is_admin: false,
    daily_conversation_limit: null,
  }
  let added: unknown
  trail.run(() => {
    added = users.addUser({ ...row, created_at: 1 })
  })
  trail.end({ status: 201 } as never)
  await added
  await auditLog.settle()
  const { items } = await audit.search({ limit: 10 })
  expect(items).toMatchObject([{ status: 201, target: 'u', after: { name: 'Ann' } }])
})

test('console sign-ins name the user and the session, refused ones have a line too', async () => {
  const { call, lines, key } = await startServer()
  await call('POST', '/console/session', { key: 'wrong-key' }, '')
  await call('POST', '/console/session', { key }, '')
  const [signedIn, refused] = await lines()
  expect(refused).toMatchObject({ action: 'startConsoleSession', status: 401, caller: null, after: null })
  expect(signedIn).toMatchObject({
    ...{ action: 'startConsoleSession', status: 200, caller: `user:${defaultUserId}`, allowed_by: null },
    target: { type: 'key', id: expect.any(String) },
    after: { user: defaultUserId, name: 'console session' },
  })
})

test('lines are exported as JSON and CSV, filtered, without formulas', async () => {
  const { call } = await startServer()
  const { id } = (await call('POST', '/api/admin/users', { name: '=1+1, "x"' })).json
  await call('DELETE', `/api/admin/users/${id}`)
  await call('DELETE', '/api/admin/users/=cmd')
  const json = await call('GET', '/api/admin/audit/export?action=deleteUser')
  expect(
    json.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).target.id),
  ).toEqual(['=cmd', id])
  const csv = await call('GET', `/api/admin/audit/export?format=csv&target=${id}`)
  const [head, ...rest] = csv.text.trim().split('\r\n')
  expect(head).toMatch(/^time,action,status,caller,via/)
  expect(rest.map((line) => line.split(',')[1])).toEqual(['deleteUser', 'createUser'])
  expect((await call('GET', '/api/admin/audit/export?format=csv&target==cmd')).text).toContain(",'=cmd,")
  expect((await call('GET', '/api/admin/audit/export?format=xml')).status).toBe(422)
  expect((await call('GET', '/api/admin/audit/export?to=2000-01-01T00:00:00Z')).text).toBe('')
})
