import { createApp, listen } from '@slipway/http'
import { type Route, type Scope, sandboxServerRoutes } from '@slipway/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { Accounts } from '../accounts/accounts.ts'
import { issueApiKey } from '../auth/api-keys.ts'
import { Authenticator } from '../auth/authenticator.ts'
import { Organizations } from '../organizations/organizations.ts'
import { sharingHandlers } from '../organizations/sharing-handlers.ts'
import { createSpecs } from '../sandboxes/testing/sandboxes-fixture.ts'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { organizationHandlers } from './organization-handlers.ts'
import { overviewHandlers } from './overview-handlers.ts'
import { usageHandlers } from './usage-handlers.ts'

const now = () => Date.now() * 1000
const [blue, red] = ['5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0caa', '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0cbb'] as const
const people = { olga: 'owner', adam: 'admin', mia: 'member' } as const

/**
 * The organisation blue with a member of each role; of red and `sue` they know nothing. `root` is of the
 * server.
 */
async function openServer() {
  const trial = await openTestControlPlane()
  const { controlPlane } = trial
  const { users } = controlPlane
  const limits = { daily_conversation_limit: null, created_at: 1 }
  for (const [id, name] of [
    [blue, 'blue'],
    [red, 'red'],
  ] as const)
    await users.addOrg({ id, name, ...limits })
  for (const id of [...Object.keys(people), 'sue', 'root'])
    await users.addUser({ id, name: id, email: null, org: null, is_admin: id === 'root', ...limits })
  const restore = async () => {
    for (const [id, role] of Object.entries(people))
      await users.addMember(blue, id, { role, mayChangeOwners: true })
    await users.removeMember(blue, 'sue')
  }
  await restore()
  const authenticator = new Authenticator({
    ...{ users, keys: [], now },
    sandboxes: { findByKey: async () => undefined },
  })
  const routes = Object.entries<Route>(sandboxServerRoutes)
  const open = Object.fromEntries(routes.filter(([, { access }]) => access === 'organization'))
  const { documents } = controlPlane
  const accounts = new Accounts({ documents, cipher: trial.cipher, model: undefined, maxProfiles: 5 })
  const specs = createSpecs([{}])
  const organizations = new Organizations({ ...accounts, users, documents, cipher: trial.cipher, specs })
  const handlers = {
    ...organizationHandlers({ users, specs, exemptOrgs: [], now }),
    ...overviewHandlers({ controlPlane, sandboxes: {} as never, specs, log: () => {} }),
    ...usageHandlers({ controlPlane, now }),
    ...sharingHandlers({ users, accounts, organizations }),
  }
  const app = createApp(open, handlers as never, {
    identify: authenticator.authenticate.bind(authenticator),
    log: () => {},
  })
  const { port, close } = await listen(app, { host: '127.0.0.1', port: 0, stopMs: 200 })
  onTestFinished(async () => {
    await close()
    await trial[Symbol.asyncDispose]()
  })
  const as = async (user: string, scopes: readonly Scope[] = ['read', 'write'], org_id?: string) => {
    const { key } = await issueApiKey(users, user, { scopes, org_id }, now())
    return async (method: string, path: string, body?: object) => {
      const response = await fetch(`http://127.0.0.1:${port}/api/admin${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: await response.json() }
    }
  }
  return { as, users, restore, controlPlane }
}

const members = `/organizations/${blue}/members`

/** Method, path and body; the statuses for owner, admin, member and stranger. */
const cells: readonly (readonly [string, string, object | undefined, readonly number[]])[] = [
  ['GET', `/organizations/${blue}`, undefined, [200, 200, 200, 404]],
  ['GET', members, undefined, [200, 200, 403, 404]],
  ['PATCH', `/organizations/${blue}`, { allowed_models: ['m'] }, [200, 200, 403, 404]],
  ['PATCH', `/organizations/${blue}`, { allowed_models: [] }, [422, 422, 422, 422]],
  ['PATCH', `/organizations/${blue}`, { daily_conversation_limit: 9 }, [403, 403, 403, 404]],
  ['PATCH', `/organizations/${red}`, { name: 'n' }, [404, 404, 404, 404]],
  ['PUT', `${members}/sue`, { role: 'owner' }, [200, 403, 403, 404]],
  ['PUT', `${members}/mia`, { role: 'admin' }, [200, 200, 403, 404]],
  ['PUT', `${members}/mia`, { role: 'chief' }, [422, 422, 422, 422]],
  ['PUT', `${members}/olga`, { role: 'member' }, [409, 403, 403, 404]],
  ['DELETE', `${members}/olga`, undefined, [409, 403, 403, 404]],
  ['DELETE', `${members}/adam`, undefined, [200, 200, 403, 404]],
  ['DELETE', `${members}/mia`, undefined, [200, 200, 200, 404]],
  ['PUT', `${members}/nobody`, {}, [404, 404, 403, 404]],
  ['GET', `/organizations/${blue}/profiles`, undefined, [200, 200, 200, 404]],
  ['PUT', `/organizations/${blue}/profiles/p`, { llm: { model: 'a/b' } }, [200, 200, 403, 404]],
  ['PUT', `/organizations/${blue}/profiles/p`, { llm: { modell: 'a/b' } }, [422, 422, 422, 422]],
  ['POST', `/organizations/${blue}/profiles/p/activate`, undefined, [200, 200, 403, 404]],
  ['POST', `/organizations/${blue}/profiles/q/activate`, undefined, [404, 404, 403, 404]],
  ['DELETE', `/organizations/${blue}/profiles/q`, undefined, [404, 404, 403, 404]],
  ['GET', `/organizations/${blue}/mcp-servers`, undefined, [200, 200, 200, 404]],
  ['PUT', `/organizations/${blue}/mcp-servers/s`, { url: 'http://127.0.0.1:9' }, [200, 200, 403, 404]],
  ['PUT', `/organizations/${blue}/mcp-servers/s`, { url: 'http://a.b', command: 'x' }, [422, 422, 403, 404]],
  ['PUT', `/organizations/${blue}/mcp-servers/s`, { command: 'x', env: { A: '***' } }, [422, 422, 403, 404]],
  ['DELETE', `/organizations/${blue}/mcp-servers/t`, undefined, [404, 404, 403, 404]],
  ['GET', `/sandboxes?org_id=${blue}`, undefined, [200, 200, 403, 404]],
  ['GET', '/sandboxes', undefined, [403, 403, 403, 403]],
  ['GET', `/usage?org_id=${blue}&by=day`, undefined, [200, 200, 403, 404]],
  ['GET', `/usage.csv?org_id=${red}`, undefined, [404, 404, 404, 404]],
]

test('what owner, admin, member and stranger may', async () => {
  const { as, restore } = await openServer()
  const callers = Object.keys({ ...people, sue: '' }).map(async (user) => await as(user))
  for (const [method, path, body, statuses] of cells) {
    const found: number[] = []
    for (const call of await Promise.all(callers)) {
      found.push((await call(method, path, body)).status)
      await restore()
    }
    expect([method, path, body, found]).toEqual([method, path, body, statuses])
  }
})

test('members find their organisations, and a role needs the scope and the organisation of the key', async () => {
  const { as, users } = await openServer()
  const names = async (call: Awaited<ReturnType<typeof as>>) =>
    (await call('GET', '/organizations')).body.items.map(({ name }: { name: string }) => name).sort()
  expect([await names(await as('mia')), await names(await as('sue'))]).toEqual([['blue'], []])
  expect(await names(await as('root', ['read', 'admin']))).toEqual(['blue', 'red'])
  const reading = await as('olga', ['read'])
  expect((await reading('PUT', `${members}/sue`)).status).toBe(403)
  await users.addMember(red, 'olga')
  const bound = await as('olga', ['read', 'write'], red)
  expect((await bound('GET', members)).status).toBe(404)
  expect((await bound('GET', `/sandboxes?org_id=${blue}`)).status).toBe(404)
  const list = (await (await as('adam'))('GET', members)).body.items
  expect(list.map(({ id, role }: { id: string; role: string }) => [id, role]).sort()).toEqual([
    ['adam', 'admin'],
    ['mia', 'member'],
    ['olga', 'owner'],
  ])
  const root = await as('root', ['admin'])
  expect((await root('PATCH', `/organizations/${red}`, { daily_conversation_limit: 3 })).status).toBe(200)
  expect((await root('PUT', `/organizations/${red}/members/sue`, { role: 'owner' })).status).toBe(200)
})

test('secrets of what is shared are in no answer, and members see names', async () => {
  const { as, controlPlane } = await openServer()
  const [adam, mia] = [await as('adam'), await as('mia')]
  const canary = 'canary-of-the-organisation'
  const llm = { model: 'a/b', api_key: canary, base_url: `http://user:${canary}@127.0.0.1:9/v1` }
  const server = { url: `http://127.0.0.1:9/mcp?token=${canary}`, headers: { 'X-Team': canary } }
  const program = { command: 'tool', env: { TEAM: canary } }
  const at = `/organizations/${blue}`
  for (const [path, body] of [
    ['/profiles/p', { llm }],
    ['/profiles/p', { llm: { model: 'a/c' }, preserve_existing_api_key: true }],
    ['/mcp-servers/far', server],
    ['/mcp-servers/near', program],
  ] as const)
    expect((await adam('PUT', at + path, body)).status).toBe(200)
  await adam('POST', `${at}/profiles/p/activate`)
  const shown = []
  for (const call of [adam, mia])
    for (const path of ['/profiles', '/mcp-servers', '']) shown.push((await call('GET', at + path)).body)
  expect(JSON.stringify(shown)).not.toContain(canary)
  expect(shown[0]).toMatchObject({
    profiles: [{ name: 'p', model: 'a/c', api_key_set: true }],
    active_profile: 'p',
  })
  expect(shown[1].items[0]).toMatchObject({ name: 'far', server: { headers: { 'X-Team': '**********' } } })
  expect(shown[4].items).toEqual(['far', 'near'].map((name) => ({ name, server: null })))
  const { documents } = controlPlane
  for (const name of ['profiles', 'mcp'])
    expect((await documents.get(`organization:${blue}`, name))?.includes(canary)).toBe(false)
})

test('a sandbox spec that is not configured is not allowed, and one that was may stay', async () => {
  const { as, users } = await openServer()
  const root = await as('root', ['read', 'write', 'admin'])
  const known = createSpecs([{}]).list()[0]?.id ?? ''
  expect(await root('PATCH', `/organizations/${blue}`, { allowed_specs: [known, 'nospec'] })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'allowed_specs', 1], msg: 'There is no such sandbox spec' }] },
  })
  await users.updateOrg(blue, { allowed_specs: ['gone'] })
  const kept = await root('PATCH', `/organizations/${blue}`, { allowed_specs: ['gone', known] })
  expect(kept).toMatchObject({ status: 200, body: { allowed_specs: ['gone', known] } })
})
