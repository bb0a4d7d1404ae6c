import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text as readAll } from 'node:stream/consumers'
import { consoleProofHeader, type SandboxInfo, storageUnavailableProblem } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { issueApiKey } from '../auth/api-keys.ts'
import { Authenticator, hashKey, keyHeaders } from '../auth/authenticator.ts'
import {
  ann,
  bob,
  createFixture,
  startAndWait,
  waitForFirstLook,
} from '../sandboxes/testing/sandboxes-fixture.ts'
import { portHost, SandboxPorts, type SandboxPortsOptions } from './sandbox-ports.ts'

interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: IncomingHttpHeaders
}

const onLoopback = { expose: 'auto', publicUrl: () => 'http://127.0.0.1:9000' } as const

/** Sandboxes whose agent servers listen on Unix sockets, and their ports. */
async function openFixture(by: Pick<SandboxPortsOptions, 'expose' | 'publicUrl'> = onLoopback) {
  const at = await createFixture()
  const socketDirectory = await mkdtemp(join(tmpdir(), 'slipway-ports-'))
  at.backend.socketDirectory = socketDirectory
  const { users, documents } = at.controlPlane
  const keys: Record<string, string> = {}
  for (const id of ['ann', 'bob']) {
    const more = { org: null, is_admin: false, daily_conversation_limit: null, created_at: 0 }
    await users.addUser({ id, name: id, email: null, ...more })
    keys[id] = (await issueApiKey(users, id, { scopes: ['read', 'write'] }, Date.now() * 1000)).key
  }
  const opened: SandboxPorts[] = []
  const begin = async () => {
    const sandboxes = await at.open({ openPort: (id) => ports.open(id), hasAllEvents: async () => true })
    const now = () => Date.now() * 1000
    const authenticator = new Authenticator({ users, sandboxes, keys: [], now })
    const ports = new SandboxPorts({
      ...{ host: '127.0.0.1', isShared: false, documents, ...by },
      proxy: { sandboxes, authenticateCaller: (header) => authenticator.authenticateCaller(header) },
      app: {
        log: (level, message, members) => at.logged.push(`${level} ${message} ${JSON.stringify(members)}`),
        identify: authenticator.authenticate.bind(authenticator),
        allowedHosts: [],
      },
    })
    opened.push(ports)
    const addressOf = async (id: string) => {
      const [row] = await sandboxes.find([id])
      const info = row && (await sandboxes.getInfo(row))
      const found = info?.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')
      expect(found?.port).toBe(Number(new URL(found?.url ?? '').port))
      return found?.url ?? ''
    }
    return { sandboxes, ports, addressOf }
  }
  onTestFinished(async () => {
    for (const one of opened) await one[Symbol.asyncDispose]()
    await rm(socketDirectory, { recursive: true, force: true })
    expect(at.logged.filter((line) => line.startsWith('error'))).toEqual([])
  })
  const server = await begin()
  const start = async (scope = ann): Promise<SandboxInfo> => {
    const row = await startAndWait(server.sandboxes, scope)
    await waitForFirstLook(at.backend, row.id)
    return await server.sandboxes.getInfo(row)
  }
  return { ...at, ...server, begin, start, keys, documents }
}

const urlOf = ({ exposed_urls }: SandboxInfo) => exposed_urls?.[0]?.url ?? ''

/** Without what `fetch` decides: any path, any Host. */
async function call(
  url: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const sent = request({ host: hostname, port, path, headers, agent: false }).end()
  const [answer] = await once(sent, 'response')
  return { status: answer.statusCode, text: await readAll(answer), headers: answer.headers }
}

const guarded = '/api/conversations/count?status=running'

test('an agent server on a Unix socket has an address without a path, which its key opens', async () => {
  const { start, backend, logged } = await openFixture()
  const info = await start()
  expect(urlOf(info)).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  const key = String(info.session_api_key)
  expect(await call(urlOf(info), guarded, { 'x-session-api-key': key })).toMatchObject({ status: 200 })
  expect(await call(urlOf(info), '/alive')).toMatchObject({ status: 200 })
  expect(await call(urlOf(info), guarded)).toMatchObject({ status: 401 })
  const page = await call(urlOf(info), '/alive')
  expect(page.headers['content-security-policy']).toContain('sandbox')
  expect(backend.agent(info.id).requests).toContain(`GET ${guarded}`)
  // A change names its sandbox in the audit, and the key nowhere.
  const changed = { method: 'POST', headers: { 'x-session-api-key': key } }
  expect((await fetch(`${urlOf(info)}/api/change`, changed)).status).toBe(404)
  const audit = () => logged.filter((line) => line.includes('"audit":true'))
  await expect.poll(audit).toEqual([expect.stringContaining(`"sandbox":"${info.id}"`)])
  expect(logged.join()).not.toContain(key)
})

test('no cookie opens a port, and no credential of the server reaches the agent server', async () => {
  const { start, backend, keys } = await openFixture()
  const info = await start()
  const key = String(info.session_api_key)
  const seen: IncomingHttpHeaders[] = []
  backend.agent(info.id).onRequest = ({ headers }) => seen.push(headers)
  for (const headers of [
    { cookie: `api_key=${keys.ann}; session_api_key=${key}; oh_workspace_session_key=${key}` },
    { authorization: `Bearer ${keys.ann}` },
    { authorization: `Bearer ${keys.ann} ${keys.ann}` },
    { authorization: `Basic ${keys.ann}` },
    ...keyHeaders.map((name) => ({ [name]: String(keys.ann), 'x-org-id': '' })),
  ])
    expect([headers, (await call(urlOf(info), guarded, headers)).status]).toEqual([headers, 401])
  const both = { 'x-session-api-key': key, cookie: `api_key=${keys.ann}; theme=dark` }
  expect((await call(urlOf(info), guarded, both)).status).toBe(200)
  expect(JSON.stringify(seen)).not.toContain(keys.ann)
  expect(seen.map(({ cookie }) => cookie).filter(Boolean)).toEqual([])
})

test('a session of the console, whose cookie browsers send to every port, is none at a port', async () => {
  const { start, backend, controlPlane, sandboxes } = await openFixture()
  const info = await start()
  const tag = hash('sha256', 'half').slice(0, 16)
  const proof = `${tag}.other-half`
  const { row } = await issueApiKey(controlPlane.users, 'ann', { scopes: ['read', 'write'] }, 0)
  const sessionKey = `slipway-console-${hash('sha256', `half\n${proof}`, 'base64url')}`
  await controlPlane.users.addKey({ ...row, id: 'console', hash: hashKey(sessionKey) })
  const seen: IncomingHttpHeaders[] = []
  backend.agent(info.id).onRequest = ({ headers }) => seen.push(headers)
  const headers = {
    cookie: `slipway_console_${tag}=half`,
    [consoleProofHeader]: proof,
    'sec-fetch-site': 'same-origin',
  }
  expect((await call(urlOf(info), guarded, headers)).status).toBe(401)
  expect(JSON.stringify(seen)).not.toContain('half')
  // The owner of a session would be told that the sandbox is paused.
  await sandboxes.pause({ ...(await sandboxes.find([info.id]))[0] } as SandboxRow)
  expect((await call(urlOf(info), guarded, headers)).status).toBe(404)
})

test('keys of another sandbox or another user find nothing at a port', async () => {
  const { start, backend, keys } = await openFixture()
  const [info, other] = [await start(), await start(bob)]
  expect(urlOf(info)).not.toBe(urlOf(other))
  const path = '/api/conversations/count?through=port'
  for (const headers of [
    { 'x-session-api-key': String(other.session_api_key) },
    { authorization: `Bearer ${other.session_api_key}` },
    { authorization: `Bearer ${keys.bob}` },
    { 'x-session-api-key': String(keys.bob) },
  ])
    expect((await call(urlOf(info), path, headers)).status).toBe(404)
  expect(backend.agent(info.id).requests.filter((request) => request.endsWith(path))).toEqual([])
})

test('names that lead to a port by DNS rebinding are refused, also with a key', async () => {
  const { start, backend } = await openFixture()
  const info = await start()
  const key = { 'x-session-api-key': String(info.session_api_key) }
  // The server itself looks at the agent server meanwhile.
  const path = '/api/conversations/count?through=port'
  const { port } = new URL(urlOf(info))
  for (const host of ['evil.example', `evil.example:${port}`, `127.0.0.1.evil.example:${port}`, '0x7f.1'])
    expect([host, (await call(urlOf(info), path, { ...key, host })).status]).toEqual([host, 403])
  const socket = new WebSocket(`${urlOf(info).replace('http', 'ws')}/sockets/x`, {
    headers: { ...key, host: 'evil.example' },
  })
  const [, refused] = await once(
    socket.on('error', () => {}),
    'unexpected-response',
  )
  expect(refused.statusCode).toBe(403)
  const foreign = { ...key, origin: 'https://evil.example' }
  const page = await call(urlOf(info), path, foreign)
  expect(page.headers['access-control-allow-origin']).toBeUndefined()
  for (const host of [`localhost:${port}`, `127.0.0.1:${port}`])
    expect((await call(urlOf(info), path, { ...key, host })).status).toBe(200)
  const passed = backend.agent(info.id).requests.filter((request) => request.endsWith(path))
  expect(passed).toEqual([`GET ${path}`, `GET ${path}`, `GET ${path}`])
})

test.each(['box.example', '192.0.2.7', '[2001:db8::5]'])(
  'a port is called by the public host %s',
  async (host) => {
    const { start, ports } = await openFixture({ expose: 'direct', publicUrl: () => `http://${host}:9000` })
    const { id } = await start()
    const url = String(await ports.open(id))
    for (const [name, status] of [
      [`${host}:${new URL(url).port}`, 200],
      ['[2001:db8::6]', 403],
    ] as const)
      expect([name, (await call(url, '/alive', { host: name })).status]).toEqual([name, status])
  },
)

test('no path leads from a port to another place', async () => {
  const { start, backend } = await openFixture()
  const [info, other] = [await start(), await start()]
  const key = { 'x-session-api-key': String(info.session_api_key) }
  for (const path of [
    '/../alive',
    '/%2e%2e/alive',
    '/..%2falive',
    '/a\\..\\alive',
    `http://127.0.0.1:${new URL(urlOf(other)).port}/alive`,
    '*',
  ])
    expect([path, (await call(urlOf(info), path, key)).status]).toEqual([
      path,
      expect.toBeOneOf([400, 401, 404]),
    ])
  // Nothing of this server is below a port: each path is one of the agent server.
  const before = backend.agent(other.id).requests.length
  for (const path of [`/sandboxes/${other.id}/agent/alive`, '/api/v1/sandboxes/search', '/metrics', '/docs'])
    expect(JSON.parse((await call(urlOf(info), path, key)).text)).toEqual({ detail: 'Not Found' })
  expect(backend.agent(info.id).requests.slice(-4)).toHaveLength(4)
  expect(backend.agent(other.id).requests).toHaveLength(before)
})

test('bodies stream both ways, and WebSockets pass', async () => {
  const { start, backend } = await openFixture()
  const info = await start()
  const key = { 'x-session-api-key': String(info.session_api_key) }
  const { server } = backend.agent(info.id)
  const upgrades: IncomingHttpHeaders[] = []
  const sockets = new WebSocketServer({ noServer: true })
  server.removeAllListeners('request').on('request', (incoming, answer) => incoming.pipe(answer))
  server.on('upgrade', (raw, net, head) => {
    upgrades.push(raw.headers)
    sockets.handleUpgrade(raw, net, head, (one) => one.on('message', (data) => one.send(`heard ${data}`)))
  })
  const { port } = new URL(urlOf(info))
  const sent = request({ host: '127.0.0.1', port, method: 'POST', path: '/x', headers: key, agent: false })
  sent.write('first')
  const [answer] = await once(sent, 'response')
  expect(String((await once(answer, 'data'))[0])).toBe('first')
  sent.write('second')
  expect(String((await once(answer, 'data'))[0])).toBe('second')
  sent.end()
  await once(answer, 'end')

  // With the key in a header, in the query, or in the first message: the agent server decides.
  for (const [query, headers] of [
    ['', key],
    [`?session_api_key=${info.session_api_key}`, { cookie: 'a=b' }],
    ['', { cookie: `session_api_key=${info.session_api_key}` }],
  ] as const) {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/sockets/events/x${query}`, { headers })
    await once(socket, 'open')
    socket.send('me')
    expect(String((await once(socket, 'message'))[0])).toBe('heard me')
    socket.close()
    await once(socket, 'close')
  }
  expect(upgrades.map(({ cookie }) => cookie)).toEqual([undefined, undefined, undefined])
})

test('a port stays with its sandbox over a pause and is closed with it', async () => {
  const { start, sandboxes, addressOf, documents } = await openFixture()
  const info = await start()
  const key = { 'x-session-api-key': String(info.session_api_key) }
  const [row] = await sandboxes.find([info.id])
  if (row === undefined) throw new Error('no sandbox')
  await sandboxes.pause(row)
  expect((await sandboxes.getInfo(row)).exposed_urls).not.toBeNull()
  const paused = await call(urlOf(info), guarded, key)
  expect([paused.status, JSON.parse(paused.text).detail.sandbox_status]).toEqual([409, 'PAUSED'])
  expect((await call(urlOf(info), '/alive')).status).toBe(404)
  await sandboxes.resume(row)
  await sandboxes.waitSettled(info.id, AbortSignal.timeout(20_000))
  expect(await addressOf(info.id)).toBe(urlOf(info))
  expect((await call(urlOf(info), guarded, key)).status).toBe(200)

  await sandboxes.remove(row)
  await expect.poll(() => call(urlOf(info), '/alive').catch(({ code }) => code)).toBe('ECONNREFUSED')
  await expect.poll(async () => await documents.get('', 'sandbox-ports')).toBeUndefined()
  // Somebody who still has the row gets no port.
  expect((await sandboxes.getInfo(row)).exposed_urls?.[0]?.url).toBe(
    `http://127.0.0.1:9000/sandboxes/${info.id}/agent`,
  )
})

test('a port is closed with its sandbox also when the answer to the removal is lost', async () => {
  const { start, sandboxes, controlPlane } = await openFixture()
  const info = await start()
  const rows = controlPlane.sandboxes
  const update = rows.update.bind(rows)
  rows.update = async (...input) => {
    rows.update = update
    await update(...input)
    throw storageUnavailableProblem('The answer is lost')
  }
  await sandboxes.remove({ ...(await sandboxes.find([info.id]))[0] } as SandboxRow).catch(() => {})
  await expect.poll(async () => (await rows.get([info.id]))[0]).toBeUndefined()
  await expect.poll(() => call(urlOf(info), '/alive').catch(({ code }) => code)).toBe('ECONNREFUSED')
})

test('an archived sandbox, whose row stays, has no port', async () => {
  const { start, ports, sandboxes, documents } = await openFixture()
  const info = await start()
  await sandboxes.archive(await sandboxes.get(ann, info.id))
  await expect.poll(() => call(urlOf(info), '/alive').catch(({ code }) => code)).toBe('ECONNREFUSED')
  await expect.poll(async () => await documents.get('', 'sandbox-ports')).toBeUndefined()
  expect(await ports.open(info.id)).toBeUndefined()
})

test('after a restart a port has its number, or another one where that is taken', async () => {
  const { start, ports, begin, sandboxes, documents } = await openFixture()
  const [kept, moved, gone] = [await start(), await start(), await start()]
  await ports[Symbol.asyncDispose]()
  await expect(call(urlOf(kept), '/alive')).rejects.toThrow('ECONNREFUSED')
  await sandboxes.remove({ ...(await sandboxes.find([gone.id]))[0] } as SandboxRow)
  const other = createServer((_, answer) => answer.end('other'))
  other.listen(Number(new URL(urlOf(moved)).port), '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  const again = await begin()
  await again.ports.restore()
  const key = ({ session_api_key }: SandboxInfo) => ({ 'x-session-api-key': String(session_api_key) })
  // Before anybody asks for the address.
  expect((await call(urlOf(kept), guarded, key(kept))).status).toBe(200)
  expect(await again.addressOf(kept.id)).toBe(urlOf(kept))
  const address = await again.addressOf(moved.id)
  expect(address).not.toBe(urlOf(moved))
  expect((await call(address, guarded, key(moved))).status).toBe(200)
  const stored = JSON.parse(String(await documents.get('', 'sandbox-ports')))
  expect(Object.keys(stored).sort()).toEqual([kept.id, moved.id].sort())
})

test.each([
  ['127.0.0.1', 'auto', 'http://127.0.0.1:3000', '127.0.0.1'],
  ['localhost', 'auto', 'http://localhost:3000', '127.0.0.1'],
  ['127.0.0.1', 'auto', 'https://slipway.example', undefined],
  ['0.0.0.0', 'auto', 'http://localhost:3000', undefined],
  ['0.0.0.0', 'auto', 'http://0.0.0.0:3000', undefined],
  ['127.0.0.1', 'relay', 'http://127.0.0.1:3000', undefined],
  ['0.0.0.0', 'direct', 'http://slipway.example:3000', '0.0.0.0'],
  ['0.0.0.0', 'direct', 'https://slipway.example', undefined],
] as const)('a server at %s (%s) that callers know as %s has ports at %s', (host, expose, publicUrl, at) => {
  expect(portHost(host, { expose, publicUrl })).toBe(at)
})
