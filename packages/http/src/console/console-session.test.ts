import { request } from 'node:http'
import { consoleRoutes } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { isHostNameOf } from '../auth/guard.ts'
import { type CallOptions, TestServer } from '../testing/test-server.ts'
import { consoleHandlers } from './console-handlers.ts'
import { ConsoleTokens } from './console-tokens.ts'

/** What pages of the own origin, of other ports and of other sites can do with a console session. */

const key = 'the-key-of-this-server'
const rights = {
  user_id: null as string | null,
  user_name: null,
  org_id: null,
  scopes: ['read' as const],
  is_admin: true,
  expiresAtMs: null,
}
/** On a server with users. */
const users: Readonly<Record<string, string>> = {
  'key-of-ann': 'ann',
  'other-key-of-ann': 'ann',
  'key-of-eve': 'eve',
}
const routes = {
  ...consoleRoutes,
  readThing: { method: 'GET', path: '/api/thing', tag: 'x', summary: 'x', responses: {} },
  changeThing: { method: 'POST', path: '/api/thing', tag: 'x', summary: 'x', responses: {} },
} as const

async function startServer(publicUrl?: string) {
  const sessions = new Map<string, string>()
  const tokens = new ConsoleTokens()
  const handlers = {
    ...consoleHandlers({
      ...{ server: 'agent', version: '1', tokens },
      publicUrl: () => publicUrl,
      accounts: {
        isKeyRequired: true,
        findUser: async (one) => {
          const signedIn = sessions.get(one) ?? one
          return signedIn === key || signedIn in users
            ? { ...rights, user_id: users[signedIn] ?? null }
            : undefined
        },
        addSession: async (one, session) => void sessions.set(session, one),
        removeSession: async (session) => sessions.delete(session),
      },
    }),
    readThing: () => ({ json: { thing: true } }),
    changeThing: () => ({ json: { changed: true } }),
  }
  const server = await TestServer.start(routes, handlers, {
    keys: [new Secret(key)],
    isSessionKey: (one) => sessions.has(one),
    isOwnHost: (host) => isHostNameOf(publicUrl, host),
    sockets: [{ path: '/sockets/x', accepts: () => true, serve: async () => {} }],
  })
  onTestFinished(() => server[Symbol.asyncDispose]())
  const host = `127.0.0.1:${server.port}`
  const page = { host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin' }
  return { server, tokens, page, host }
}

type Server = Awaited<ReturnType<typeof startServer>>

async function signIn(
  { server, page }: Server,
  body: object = { key },
  headers: CallOptions['headers'] = page,
) {
  const answer = await server.json('/console/session', body, { headers })
  const { proof = '' } = JSON.parse(answer.text)
  const [cookieLine = ''] = answer.headers['set-cookie'] ?? []
  const [cookie = ''] = cookieLine.split(';')
  const both = { ...page, cookie, 'x-console-proof': String(proof) }
  return { ...answer, proof: String(proof), cookieLine, cookie, both }
}

function upgrade(address: string, headers: Record<string, string>): Promise<number> {
  return new Promise((done) => {
    const ws = new WebSocket(address, { headers })
    ws.on('unexpected-response', (_, { statusCode = 0 }) => done(statusCode)).on('error', () => {})
    ws.on('open', () => ws.send('{}')).on('close', done)
  })
}

test('behind a proxy with a path the cookie is for that path, and for all paths at the own address', async () => {
  const it = await startServer('https://example.org/agent')
  const { page } = it
  const { host, ...others } = page
  const proxied = { ...others, host: 'example.org', origin: 'https://example.org' }
  const { cookieLine } = await signIn(it, { key }, proxied)
  expect(cookieLine).toMatch(/; Path=\/agent\/; Max-Age=86\d{3}; HttpOnly; SameSite=Strict; Secure$/)
  expect((await signIn(it)).cookieLine).toContain('; Path=/; ')
})

test('a key signs in: cookie and proof together are authorized, as neither is alone', async () => {
  const it = await startServer()
  const { server, page, host } = it
  const { status, text, cookieLine, cookie, proof, both } = await signIn(it)
  expect(status).toBe(200)
  expect(JSON.parse(text)).toMatchObject({ server: 'agent', signed_in: true, auth_required: true })
  expect(cookieLine).toMatch(
    /^slipway_console_[0-9a-f]{16}=[\w-]{43}; Path=\/; Max-Age=86\d{3}; HttpOnly; SameSite=Strict$/,
  )
  expect(text + cookieLine).not.toContain(key)
  expect((await server.call('/api/thing', { headers: both })).status).toBe(200)
  expect((await server.json('/api/thing', {}, { headers: both })).status).toBe(200)
  expect((await server.call('/api/thing', { headers: { ...page, cookie } })).status).toBe(401)
  expect((await server.call('/api/thing', { headers: { ...page, 'x-console-proof': proof } })).status).toBe(
    401,
  )
  const queried = { headers: { host, cookie } }
  expect((await server.call(`/api/thing?console_proof=${proof}`, queried)).status).toBe(200)
  expect((await server.call(`/api/thing?a=1&console_proof=${proof}&b=2`, queried)).status).toBe(200)
  const changed = await server.json(`/api/thing?console_proof=${proof}`, {}, { headers: { ...page, cookie } })
  expect(changed.status).toBe(401)
  const socket = `ws://${host}/sockets/x?console_proof=${proof}`
  expect(await upgrade(socket, { cookie, origin: `http://${host}` })).toBe(1000)
  expect(await upgrade(socket, { cookie })).toBe(4001)
  expect(await upgrade(socket, { origin: `http://${host}` })).toBe(4001)
  expect(await upgrade(socket, { cookie, origin: 'https://evil.example' })).toBe(403)
  expect(JSON.parse((await server.call('/console/session', { headers: both })).text)).toMatchObject({
    signed_in: true,
  })
  const stranger = JSON.parse((await server.call('/console/session')).text)
  expect(stranger).toMatchObject({ auth_required: true, signed_in: false, scopes: [], user_id: null })
})

test('a page on https gets a cookie that no plain connection carries', async () => {
  const it = await startServer('https://slipway.example')
  const { cookieLine } = await signIn(
    it,
    { key },
    { host: 'slipway.example', origin: 'https://slipway.example' },
  )
  expect(cookieLine).toContain('; Secure')
})

test('requests that pages of other sites and ports cause carry no session', async () => {
  const it = await startServer()
  const { server } = it
  const { both } = await signIn(it)
  for (const site of ['cross-site', 'same-site']) {
    const headers = { ...both, 'sec-fetch-site': site }
    expect((await server.call('/api/thing', { headers })).status).toBe(401)
    expect((await server.json('/api/thing', {}, { headers })).status).toBe(401)
    expect((await server.call('/console/session', { method: 'DELETE', headers })).status).toBe(401)
  }
  const { 'sec-fetch-site': _, origin: __, ...plain } = both
  for (const origin of ['https://evil.example', 'http://127.0.0.1:1', 'null']) {
    const headers = { ...plain, origin }
    expect((await server.json('/api/thing', {}, { headers })).status).toBe(403)
    expect((await server.call('/console/session', { method: 'DELETE', headers })).status).toBe(403)
    expect((await server.call('/api/thing', { headers })).headers).not.toHaveProperty(
      'access-control-allow-origin',
    )
  }
  // A form of a browser that sends neither header.
  expect((await server.json('/api/thing', {}, { headers: plain })).status).toBe(401)
  // A link that the user follows, or types, may read.
  expect((await server.call('/api/thing', { headers: { ...plain, 'sec-fetch-site': 'none' } })).status).toBe(
    200,
  )
  expect(
    (await server.json('/api/thing', {}, { headers: { ...plain, 'sec-fetch-site': 'none' } })).status,
  ).toBe(401)
  expect((await server.call('/api/thing', { headers: both })).status).toBe(200)
})

test('cookies that another port of the host sets neither replace a session nor take it over', async () => {
  const it = await startServer()
  const { server, page } = it
  const own = await signIn(it)
  const attacker = await signIn(it)
  const [name] = own.cookie.split('=')
  const [, stolen] = attacker.cookie.split('=')
  const call = (cookie: string, proof: string) =>
    server
      .call('/api/thing', { headers: { ...page, cookie, 'x-console-proof': proof } })
      .then(({ status }) => status)
  expect(await call(`${name}=${stolen}; ${own.cookie}`, own.proof)).toBe(200)
  expect(await call(`${attacker.cookie}; ${own.cookie}`, own.proof)).toBe(200)
  expect(await call(attacker.cookie, own.proof)).toBe(401)
  expect(await call(own.cookie, attacker.proof)).toBe(401)
  expect(await call(`${name}=${stolen}`, own.proof)).toBe(401)
  for (const proof of ['', 'x', `${'0'.repeat(16)}.x`, own.proof.slice(0, -1), `${own.proof}, ${own.proof}`])
    expect(await call(own.cookie, proof)).toBe(401)
  // A session that was chosen before the sign-in stays what it is: each sign-in makes another.
  expect(own.proof).not.toBe(attacker.proof)
})

test('after the sign-out nothing of the session is accepted, also by the server alone', async () => {
  const it = await startServer()
  const { server } = it
  const { both, cookie, proof } = await signIn(it)
  const other = await signIn(it)
  const answer = await server.call('/console/session', { method: 'DELETE', headers: both })
  expect(answer.status).toBe(200)
  expect(answer.headers['set-cookie']?.[0]).toMatch(
    new RegExp(`^${cookie.split('=')[0]}=; Path=/; Max-Age=0;`),
  )
  expect((await server.call('/api/thing', { headers: both })).status).toBe(401)
  expect((await server.call(`/api/thing?console_proof=${proof}`, { headers: { cookie } })).status).toBe(401)
  expect((await server.call('/console/session', { method: 'DELETE', headers: both })).status).toBe(401)
  expect((await server.call('/api/thing', { headers: other.both })).status).toBe(200)
})

test('a token signs in once, by a request of a page of the own origin', async () => {
  const it = await startServer()
  const { server, tokens, page } = it
  const { token } = tokens.create(key)
  for (const site of ['cross-site', 'same-site']) {
    const refused = await signIn(it, { token }, { ...page, 'sec-fetch-site': site })
    expect(refused.status).toBe(403)
  }
  expect((await signIn(it, { token }, { ...page, origin: 'https://evil.example' })).status).toBe(403)
  const { status, both } = await signIn(it, { token })
  expect(status).toBe(200)
  expect((await server.call('/api/thing', { headers: both })).status).toBe(200)
  expect((await signIn(it, { token })).status).toBe(401)
  const made = await server.json('/console/tokens', {}, { headers: both })
  expect(made.status).toBe(201)
  expect((await signIn(it, { token: JSON.parse(made.text).token })).status).toBe(200)
  expect((await server.json('/console/tokens', {}, { headers: page })).status).toBe(401)
  expect((await signIn(it, {})).status).toBe(401)
})

test('tokens end after ten minutes, and of many the oldest is forgotten', () => {
  let now = 1_000
  const tokens = new ConsoleTokens(() => now)
  const first = tokens.create('a')
  const second = tokens.create('b')
  now += 599_000
  expect(tokens.take(first.token)).toBe('a')
  expect(tokens.take(first.token)).toBeUndefined()
  now += 1_001
  expect(tokens.take(second.token)).toBeUndefined()
  const many = Array.from({ length: 101 }, (_, index) => tokens.create(String(index)))
  expect(many.map(({ token }) => tokens.take(token)).filter((one) => one === undefined)).toHaveLength(1)
})

test('after ten wrong keys in a minute the next of the same address waits, also a right one', async () => {
  const it = await startServer()
  for (let i = 0; i < 10; i++) expect((await signIn(it, { key: `wrong ${i}` })).status).toBe(401)
  const refused = await signIn(it)
  expect(refused.status).toBe(429)
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  // Behind a proxy all have one address. A link cannot be guessed, and still opens.
  expect((await signIn(it, { token: it.tokens.create(key).token })).status).toBe(200)
  expect((await signIn(it, { token: 'wrong' })).status).toBe(401)
  const { promise, resolve } = Promise.withResolvers<number | undefined>()
  const other = request(
    {
      ...{ host: '127.0.0.1', port: it.server.port, localAddress: '127.0.0.2', path: '/console/session' },
      ...{ method: 'POST', headers: { ...it.page, 'content-type': 'application/json' } },
    },
    (answer) => resolve(answer.resume().statusCode),
  )
  other.end(JSON.stringify({ key }))
  expect(await promise).toBe(200)
})

test('a link of another user changes the session only when that is asked for', async () => {
  const it = await startServer()
  const { both } = await signIn(it, { key: 'key-of-ann' })
  const linkOf = (user: string) => it.tokens.create(user).token
  const token = linkOf('key-of-eve')
  const refused = await signIn(it, { token }, both)
  expect([refused.status, refused.headers['set-cookie']]).toEqual([409, undefined])
  expect(refused.text).toContain('You are signed in as ann, and this link signs in as eve.')
  expect((await signIn(it, { token, replace: true }, both)).text).toContain('"user_id":"eve"')
  expect((await signIn(it, { token, replace: true }, both)).status).toBe(401)
  expect((await signIn(it, { token: linkOf('other-key-of-ann') }, both)).status).toBe(200)
  expect((await signIn(it, { token: linkOf('key-of-eve') })).status).toBe(200)
})

test('the key of a session is no key to sign in with', async () => {
  const it = await startServer()
  const { cookie, proof } = await signIn(it)
  for (const guess of [cookie.split('=')[1], proof])
    expect((await signIn(it, { key: guess })).status).toBe(401)
})
