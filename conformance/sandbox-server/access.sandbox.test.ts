import { type Route, sandboxServerRoutes } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { accessPage } from '../support/access-table.ts'
import {
  bodies,
  createResources,
  creatingRoutes,
  fillPath,
  harmlessQueryNames,
  identifyingQueries,
  type OwnedResources,
  refusesKey,
  unknownResources,
  withoutIds,
} from '../support/sandbox-server/tenants.ts'
import {
  administrator,
  createUser,
  createUserKey,
  openSandboxServer,
  type SandboxServerFixture,
  User,
} from '../support/sandbox-server/user.ts'

type Headers = Readonly<Record<string, string>>

interface Kind {
  /**
   * `owner`: the objects of the requests are its own, and what changes something names an object that does
   * not exist. `foreign`: they must be unknown to it. `admin`: as `owner`, on the routes of administrators.
   */
  readonly relation: 'owner' | 'foreign' | 'admin'
  readonly headers: Headers
  /** The key is one of the owner, elsewhere. */
  readonly isSameUser?: true
}

let fixture: SandboxServerFixture
let resources: OwnedResources
let secrets: readonly string[]
const kinds: Record<string, Kind> = {}

const bearer = (key: string): Headers => ({ authorization: `Bearer ${key}` })
const allScopes = ['read', 'write', 'admin', 'operate']

/** Ann with her things in organisation A, Bea with hers in B; Ann is also in C. */
beforeAll(async () => {
  fixture = await openSandboxServer()
  const { server } = fixture
  const admin = administrator(server)
  const createOrg = async (name: string, ...members: User[]) => {
    const org = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/organizations', { name })
    for (const { id } of members)
      await admin.requestOrThrow('PUT', `/api/admin/organizations/${org.id}/members/${id}`)
    return org.id
  }
  const [ann, bea] = [await createUser(server, { name: 'Ann' }), await createUser(server, { name: 'Bea' })]
  const [a, b, c] = [await createOrg('A', ann), await createOrg('B', bea), await createOrg('C', ann)]
  const createAdmin = async (org: string) => {
    const { id } = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/users', {
      name: 'An administrator',
      is_admin: true,
    })
    await admin.requestOrThrow('PUT', `/api/admin/organizations/${org}/members/${id}`)
    return await createUserKey(server, id, { scopes: allScopes, org_id: org })
  }
  const key = async (user: User, request: object) =>
    bearer((await createUserKey(server, user.id, request)).key)
  const annA = new User(server, await createUserKey(server, ann.id, { org_id: a }))
  const beaB = new User(server, await createUserKey(server, bea.id, { org_id: b }))
  resources = { ...(await createResources(server, annA)), org: a }
  const ofBea = await createResources(server, beaB)
  const sandboxKey = async (user: User, id: string) =>
    String((await user.waitForSandbox(id, 'RUNNING')).session_api_key)
  const [annSandbox, beaSandbox] = [
    await sandboxKey(annA, resources.sandbox),
    await sandboxKey(beaB, ofBea.sandbox),
  ]
  secrets = [annSandbox, ann.key, annA.key, 'value-of-mine']
  const own = (headers: Headers): Kind => ({ relation: 'owner', headers })
  const foreign = (headers: Headers): Kind => ({ relation: 'foreign', headers })
  Object.assign(kinds, {
    none: foreign({}),
    wrong: foreign(bearer('wrong')),
    'owner, read': own(await key(ann, { scopes: ['read'], org_id: a })),
    'owner, write': own(await key(ann, { scopes: ['write'], org_id: a })),
    'owner, both': own(bearer(annA.key)),
    'owner, in no organisation': own(bearer(ann.key)),
    'owner, in a console': own(await consoleSession(annA.key)),
    'console cookie alone': foreign({ ...(await consoleSession(annA.key)), 'x-console-proof': '' }),
    'owner, in another organisation': {
      ...foreign(await key(ann, { org_id: c })),
      isSameUser: true,
    },
    'sandbox of the owner': own({ 'x-session-api-key': annSandbox }),
    'another tenant': foreign(bearer(beaB.key)),
    'another tenant, in no organisation': foreign(bearer(bea.key)),
    'another tenant, read': foreign(await key(bea, { scopes: ['read'], org_id: b })),
    'another tenant, naming the organisation': foreign({ ...bearer(bea.key), 'x-org-id': a }),
    'sandbox of another tenant': foreign({ 'x-session-api-key': beaSandbox }),
    'administrator of another organisation': foreign(bearer((await createAdmin(b)).key)),
    'administrator of the organisation': { relation: 'admin', headers: bearer((await createAdmin(a)).key) },
    administrator: { relation: 'admin', headers: bearer(server.key) },
    'administrator, scope admin alone': {
      relation: 'admin',
      headers: bearer((await createUserKey(server, 'admin', { scopes: ['admin'] })).key),
    },
  })
}, 240_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

async function consoleSession(key: string): Promise<Headers> {
  const { url } = fixture.server
  const page = { origin: url, 'sec-fetch-site': 'same-origin' }
  const response = await fetch(`${url}/console/session`, {
    method: 'POST',
    headers: { ...page, 'content-type': 'application/json' },
    body: JSON.stringify({ key }),
  })
  const { proof } = (await response.json()) as { proof: string }
  const [cookie = ''] = String(response.headers.get('set-cookie')).split(';')
  return { ...page, cookie, 'x-console-proof': proof }
}

interface Row {
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly query: readonly string[]
  readonly takesBody?: boolean
}

const proxied: readonly Row[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].flatMap((method) =>
  ['agent/api/conversations', 'agent/health', 'worker_1/x'].map((rest) => ({
    ...{ method, path: `/sandboxes/{sandbox_id}/${rest}`, tag: 'proxy', query: [] },
  })),
)
const rows: readonly Row[] = [
  ...Object.values<Route>(sandboxServerRoutes).map(({ method, path, tag, query, body }) => ({
    ...{ method, path, tag, query: Object.keys(query?.shape ?? {}), takesBody: body !== undefined },
  })),
  ...['/metrics', '/openapi.json', '/docs'].map((path) => ({ method: 'GET', path, tag: 'page', query: [] })),
  ...proxied,
]
const nameOf = ({ method, path }: Row) => `${method} ${path}`
/** Belongs to the user, in every organisation. */
const ofUser = /\/settings|\/secrets|\/users\/me/
/** Makes a profile of the caller, of any name. */
const creating = new Set(creatingRoutes)
/** Descriptions of sandboxes are the same for all. */
const isPublic = new Set(['/api/v1/sandbox-specs'])
/** The agent server behind it answers for itself. */
const ofAgentServer = new Set(['/sandboxes/{sandbox_id}/agent/health'])

function relationOf({ path }: Row, { relation, isSameUser }: Kind): Kind['relation'] {
  return isSameUser === true && ofUser.test(path) ? 'owner' : relation
}

function namesObject(row: Row): boolean {
  return row.path.includes('{') || (nameOf(row) in identifyingQueries && !isPublic.has(row.path))
}

async function ask(row: Row, things: OwnedResources, headers: Headers) {
  const body = row.takesBody === true ? (bodies[nameOf(row)] ?? 'no body') : undefined
  // Starts need no body.
  const more = nameOf(row) === 'POST /api/v1/sandboxes' ? '?sandbox_spec_id=not-there' : ''
  const response = await fetch(`${fixture.server.url}${fillPath(row, things)}${more}`, {
    method: row.method,
    redirect: 'manual',
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, text: `${response.status} ${withoutIds(text, things)}`, raw: text }
}

/** One cell: the requests of one kind of key on one route. */
async function cell(row: Row, kind: Kind): Promise<string> {
  const { headers } = kind
  const relation = relationOf(row, kind)
  const changes = row.method !== 'GET'
  const refusal = ({ status, raw }: { readonly status: number; readonly raw: string }) =>
    refusesKey({ status, body: raw }) ? String(status) : undefined
  const absent = unknownResources()
  if (relation !== 'foreign' && changes && row.tag !== 'proxy') {
    return refusal(await ask(row, absent, headers)) ?? 'yes'
  }
  const found = await ask(row, resources, headers)
  if (relation === 'foreign')
    for (const secret of secrets)
      expect([nameOf(row), found.raw.includes(secret)]).toEqual([nameOf(row), false])
  const refused = refusal(found)
  if (refused !== undefined || !namesObject(row)) return refused ?? 'yes'
  const missing = await ask(row, absent, headers)
  return found.text === missing.text ? 'unknown' : 'yes'
}

test('every parameter of a query that names an object is in the table', () => {
  for (const row of rows)
    if (row.tag !== 'admin' && !row.path.includes('{') && !(nameOf(row) in identifyingQueries))
      expect([nameOf(row), row.query.filter((name) => !harmlessQueryNames.test(name))]).toEqual([
        nameOf(row),
        [],
      ])
})

test('who may do what: every route of the sandbox server with every kind of key, on things of a tenant', {
  timeout: 600_000,
}, async () => {
  const columns = Object.keys(kinds)
  const table: { route: string; cells: string[] }[] = []
  for (const row of rows) {
    const cells: string[] = []
    // The session of the console ends with its own route.
    for (const kind of Object.values(kinds))
      cells.push(row.path === '/console/session' && row.method === 'DELETE' ? 'yes' : await cell(row, kind))
    table.push({ route: nameOf(row), cells })
  }
  for (const [at, row] of rows.entries())
    for (const [index, kind] of Object.values(kinds).entries()) {
      const isOpen = ofAgentServer.has(row.path) || creating.has(nameOf(row))
      if (relationOf(row, kind) === 'foreign' && namesObject(row) && !isOpen)
        expect([nameOf(row), columns[index], table[at]?.cells[index]]).toEqual([
          nameOf(row),
          columns[index],
          expect.stringMatching(/^(401|403|unknown)$/),
        ])
    }
  const page = accessPage({
    title: 'Access to the sandbox server',
    text: `Printed by \`conformance/sandbox-server/access.sandbox.test.ts\`; do not edit. Each cell is a request that was made. Its objects (a
sandbox, a conversation, a secret, a profile, a key) belong to a tenant in one organisation; another tenant is in another organisation, and the owner
in a third one too. \`unknown\`: the answer is that for an object that does not exist. \`yes\`: the key was accepted; what changes something was sent
with an object that does not exist, where the key may change it. Otherwise the status of the refusal.`,
    columns,
    rows: table,
  })
  await expect(page).toMatchFileSnapshot('../../docs/reference/access-sandbox-server.md')
})
