import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  bodies,
  creatingRoutes,
  fillPath,
  identifyingOperations,
  type Operation,
  type OwnedResources,
  openSandboxFixture,
  operations,
  publicPaths,
  readAllResources,
  sandboxTags,
  type Tenant,
  unknownResources,
  withoutIds,
} from '../support/sandbox-server/tenants.ts'

/**
 * Random requests with keys of one tenant and ids of another, over every route and the proxy: nothing of the
 * other is readable, changed, or distinguishable from what does not exist. SLIPWAY_TENANCY_SEED repeats a
 * run.
 */

const seed = Number(process.env.SLIPWAY_TENANCY_SEED ?? 1)
const requestCount = Number(process.env.SLIPWAY_TENANCY_REQUESTS ?? 1_000)

/** Mulberry32: the requests of a seed are the same everywhere. */
function createRandom(seed: number) {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return <T>(items: readonly T[]): T => items[Math.floor(next() * items.length)] as T
}

type Headers = Readonly<Record<string, string>>

interface Credential {
  readonly name: string
  readonly headers: Headers
  /** Of an administrator with all scopes. */
  readonly isAdmin?: true
  /** The session key of a sandbox. */
  readonly isSession?: true
}

const bearer = (key: string): Headers => ({ authorization: `Bearer ${key}` })
const session = (key: string): Headers => ({ 'x-session-api-key': key })

let fixture: Awaited<ReturnType<typeof openSandboxFixture>>
beforeAll(async () => {
  fixture = await openSandboxFixture()
}, 180_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

/** What somebody else may hold: every kind of key, alone and mixed. */
function foreignCredentials(attacker: Tenant): readonly Credential[] {
  const { user, reader, writer, bound, sandbox, resources } = attacker
  const sessionKey = String(sandbox.session_api_key)
  return [
    { name: 'key', headers: bearer(user.key) },
    { name: 'key in another header', headers: { 'x-access-token': user.key } },
    { name: 'read key', headers: bearer(reader.key) },
    { name: 'write key', headers: bearer(writer.key) },
    { name: 'key of an organisation', headers: bearer(bound.key) },
    { name: 'key and its organisation', headers: { ...bearer(user.key), 'x-org-id': resources.org } },
    { name: 'session key', headers: session(sessionKey), isSession: true },
    { name: 'session key as bearer', headers: bearer(sessionKey), isSession: true },
    { name: 'key and session key', headers: { ...bearer(user.key), ...session(sessionKey) } },
    { name: 'key of the administrator', headers: bearer(fixture.admin.key), isAdmin: true },
  ]
}

const proxied: readonly Operation[] = ['agent', 'worker_1', 'worker_2'].flatMap((name) =>
  ['GET', 'POST', 'PUT', 'DELETE'].flatMap((method) =>
    ['alive', 'server_info', 'api/conversations/count', 'api/bash/execute_bash_command', ''].map((path) => ({
      method,
      path: `/sandboxes/{sandbox_id}/${name}/${path}`,
      tag: 'proxy',
      query: [],
    })),
  ),
)
/** Lists and the like, which name nothing. */
const plainReads = operations.filter(
  ({ method, path, tag }) =>
    method === 'GET' && !path.includes('{') && !publicPaths.includes(path) && !sandboxTags.includes(tag),
)
/** Writes that name nothing, with a body that none accepts. */
const plainWrites = operations.filter(
  ({ method, path, tag, hasBody }) =>
    method !== 'GET' && hasBody === true && !path.includes('{') && !sandboxTags.includes(tag),
)
const ofSandboxes = operations.filter(({ tag }) => sandboxTags.includes(tag))
const all = [...identifyingOperations, ...proxied, ...plainReads, ...plainWrites, ...ofSandboxes]

const nameOf = ({ method, path }: Operation) => `${method} ${path}`

async function send(operation: Operation, path: string, { headers }: Credential, body?: unknown) {
  const response = await fetch(`${fixture.server.url}${path}`, {
    method: operation.method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, text: await response.text() }
}

/** One request on what belongs to the victim. Throws when it learns or changes anything. */
async function attack(operation: Operation, credential: Credential, victim: Tenant): Promise<void> {
  const name = `${credential.name}: ${nameOf(operation)}`
  const replies: { readonly status: number; readonly text: string }[] = []
  const ask = async (resources: OwnedResources, body?: unknown) => {
    const reply = await send(operation, fillPath(operation, resources), credential, body)
    replies.push(reply)
    return reply
  }
  if (sandboxTags.includes(operation.tag)) {
    const report = operation.path.includes('events') ? [] : { id: victim.resources.conversation }
    const { status } = await ask(victim.resources, operation.method === 'GET' ? undefined : report)
    expect([name, [401, 403].includes(status)]).toEqual([name, true])
  } else if (plainReads.includes(operation) || plainWrites.includes(operation)) {
    // Whatever an administrator reads of users and organisations is no secret to an administrator.
    const { status } = await ask(unknownResources(), operation.method === 'GET' ? undefined : 'no body')
    expect([name, status < 500]).toEqual([name, true])
  } else if (!(operation.tag === 'admin' && credential.isAdmin)) {
    const body = operation.tag === 'proxy' ? undefined : bodies[nameOf(operation)]
    const absent = unknownResources()
    const [foreign, missing] = [await ask(victim.resources, body), await ask(absent, body)]
    expect([name, foreign.status, withoutIds(foreign.text, victim.resources)]).toEqual([
      name,
      missing.status,
      withoutIds(missing.text, absent),
    ])
    if (operation.tag === 'proxy') expect([name, foreign.status >= 400]).toEqual([name, true])
  }
  for (const { text } of replies)
    for (const secret of victim.secrets) expect([name, text.includes(secret)]).toEqual([name, false])
}

test(`of ${requestCount} random requests none reaches another tenant (seed ${seed})`, {
  timeout: 900_000,
}, async () => {
  const pick = createRandom(seed)
  const [ann, bea] = fixture.tenants
  const read = () => Promise.all([ann, bea].map(({ user, resources }) => readAllResources(user, resources)))
  const before = await read()
  const tried = new Set<string>()
  const attackable = all.filter((operation) => !creatingRoutes.includes(nameOf(operation)))
  for (let n = 0; n < requestCount; n++) {
    const [attacker, victim] = pick([
      [ann, bea],
      [bea, ann],
    ])
    // Each route once, then by chance.
    const operation = attackable[n] ?? pick(attackable)
    tried.add(nameOf(operation))
    await attack(operation, pick(foreignCredentials(attacker)), victim)
  }
  expect(tried.size).toBe(new Set(attackable.slice(0, requestCount).map(nameOf)).size)
  expect(await read()).toEqual(before)
})

test('a key that may only read changes nothing of its own tenant, and sees no session key', {
  timeout: 180_000,
}, async () => {
  const [ann] = fixture.tenants
  const { reader, resources, sandbox } = ann
  const before = await readAllResources(ann.user, resources)
  const credential = { name: 'read key', headers: bearer(reader.key) }
  for (const operation of [...identifyingOperations, ...proxied]) {
    const reply = await send(operation, fillPath(operation, resources), credential, bodies[nameOf(operation)])
    const name = nameOf(operation)
    if (operation.method !== 'GET') expect([name, [401, 403].includes(reply.status)]).toEqual([name, true])
    expect([name, reply.text.includes(String(sandbox.session_api_key))]).toEqual([name, false])
  }
  expect(await readAllResources(ann.user, resources)).toEqual(before)
})

test('a key of an organisation finds nothing of its own tenant outside it', {
  timeout: 180_000,
}, async () => {
  const [ann] = fixture.tenants
  const before = await readAllResources(ann.user, ann.resources)
  const credential = { name: 'key of an organisation', headers: bearer(ann.bound.key) }
  // Settings, profiles and secrets belong to the user, in every organisation.
  const ofUser = /settings|secrets|profiles|users\/me|\/admin\//
  for (const operation of [...identifyingOperations, ...proxied]) {
    if (ofUser.test(operation.path)) continue
    await attack(operation, credential, ann)
  }
  expect(await readAllResources(ann.user, ann.resources)).toEqual(before)
})
