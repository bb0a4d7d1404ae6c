import { mkdir, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { expect } from 'vitest'
import { startAgentServer } from '../../support/agent-server.ts'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  type MapClient,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  unknownId,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer({}, { isProcess: true })
const page = '<p>map page</p>'

/** A conversation whose workspace has a page. */
async function conversationWithPage(client: MapClient = server): Promise<MapConversation> {
  await mkdir(client.directory, { recursive: true })
  await writeFile(join(client.directory, 'page.html'), page)
  return await client.createConversation()
}

const auth = (key: string | undefined) => ({ type: 'auth', session_api_key: key })

/** Opens a socket without a key, sends a first frame and returns how it ended. */
async function closeAfterFirstFrame(path: string, frame: unknown, client: MapClient = server) {
  await using socket = client.openSocket(path, {})
  socket.socket.on('open', () => socket.socket.send(JSON.stringify(frame)))
  return await socket.closed
}

/** Opens a socket with a first frame and waits for an answer to it. */
async function firstAnswer(path: string, frames: readonly unknown[], client: MapClient = server) {
  await using socket = client.openSocket(path, {})
  socket.socket.on('open', () => {
    for (const frame of frames) socket.socket.send(JSON.stringify(frame))
  })
  return (await waitForFrames(socket, (events) => events.length > 0))[0]
}

/** The cookie of a mint: `name=value` and its attributes. */
async function mintCookie(client: MapClient = server, prefix = '', headers: Record<string, string> = {}) {
  const found = await client.request('POST', `${prefix}/api/auth/workspace-session`, { headers })
  expect(found.status).toBe(204)
  const cookie = found.headers.getSetCookie()[0] ?? ''
  return { cookie, pair: cookie.split(';')[0] ?? '' }
}

async function preflight(origin: string, path = '/api/settings', client: MapClient = server) {
  return await client.request('OPTIONS', path, {
    isAnonymous: true,
    headers: {
      origin,
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'x-session-api-key',
    },
  })
}

mapCase('F02.http-key-required', 'a missing or wrong key is 401', async () => {
  const path = '/api/conversations/count'
  for (const headers of [{}, { 'x-session-api-key': 'wrong' }])
    expect(await server.request('GET', path, { isAnonymous: true, headers })).toMatchObject({
      status: 401,
      body: { detail: 'Unauthorized' },
    })
  expect(await server.requestStatus('GET', path)).toBe(200)
})

mapCase('F02.http-header-only', 'no cookie, query member or bearer token opens other routes', async () => {
  const { id } = await server.createConversation()
  const path = `/api/conversations/${id}`
  const key = String(server.key)
  for (const headers of [{ cookie: `oh_workspace_session_key=${key}` }, { authorization: `Bearer ${key}` }])
    expect(await server.requestStatus('GET', path, { isAnonymous: true, headers })).toBe(401)
  const query = { session_api_key: key }
  expect(await server.requestStatus('GET', path, { isAnonymous: true, query })).toBe(401)
})

mapCase('F02.ws-first-frame', 'a first frame with the key opens every socket', async () => {
  const { id } = await server.createConversation()
  const key = auth(server.key)
  expect(await firstAnswer(`/sockets/events/${id}`, [key])).toMatchObject({
    kind: 'ConversationStateUpdateEvent',
  })
  expect(await firstAnswer(`/sockets/session/${id}`, [key])).toMatchObject({ type: 'sync' })
  expect(await firstAnswer('/sockets/bash-events', [key, { command: 'echo hi' }])).toMatchObject({
    kind: 'BashCommand',
  })
})

mapCase('F02.ws-first-frame-reject', 'other first frames close with 4001, before a look-up', async () => {
  const { id } = await server.createConversation()
  const refused = { code: 4001, reason: 'Authentication failed' }
  for (const path of [`/sockets/events/${id}`, `/sockets/session/${id}`, '/sockets/bash-events'])
    expect(await closeAfterFirstFrame(path, auth('wrong'))).toEqual(refused)
  for (const frame of [{ type: 'hello', session_api_key: server.key }, { type: 'auth' }, [1]])
    expect(await closeAfterFirstFrame('/sockets/bash-events', frame)).toEqual(refused)
  expect(await closeAfterFirstFrame(`/sockets/events/${unknownId}`, auth('wrong'))).toEqual(refused)
  expect(await closeAfterFirstFrame(`/sockets/events/${unknownId}`, auth(server.key))).toMatchObject({
    code: 4004,
  })
})

mapCase('F02.ws-auth-timeout', 'no first frame closes with 4001 after 10 s', async () => {
  await using socket = server.openSocket('/sockets/bash-events', {})
  const start = Date.now()
  expect(await socket.closed).toMatchObject({ code: 4001 })
  expect(Date.now() - start).toBeGreaterThan(8000)
})

mapCase(
  'F02.ws-legacy-key',
  'keys in a header or the query open a socket; a later key frame is ignored',
  async () => {
    const { id } = await server.createConversation()
    const key = String(server.key)
    for (const [path, headers] of [
      [`/sockets/events/${id}?session_api_key=${key}`, {}],
      [`/sockets/events/${id}`, { 'x-session-api-key': key }],
    ] as const) {
      await using socket = server.openSocket(path, headers)
      socket.socket.on('open', () => socket.socket.send(JSON.stringify(auth(key))))
      await waitForFrames(socket, (events) => events.length > 0)
      await server.sendMessage(id, 'after the frame')
      const events = await waitForFrames(socket, (all) => all.some(({ kind }) => kind === 'MessageEvent'))
      expect(events.filter(({ kind }) => kind.endsWith('ErrorEvent'))).toEqual([])
    }
  },
)

mapCase('F02.ws-legacy-reject', 'a wrong key in a header or the query refuses the upgrade', async () => {
  const path = '/sockets/bash-events'
  expect(await server.upgradeStatus(`${path}?session_api_key=wrong`)).toBe(403)
  expect(await server.upgradeStatus(path, { 'x-session-api-key': 'wrong' })).toBe(403)
})

mapCase('F02.workspace-session-mint', 'the key is exchanged for a cookie of the workspace', async () => {
  const { cookie, pair } = await mintCookie()
  expect(pair).toMatch(/^oh_workspace_session_key=./)
  for (const part of ['HttpOnly', 'Path=/api/conversations', 'SameSite=none', 'Secure', 'Partitioned'])
    expect(cookie.toLowerCase()).toContain(part.toLowerCase())
  for (const headers of [{}, { cookie: pair }]) {
    const refused = await server.request('POST', '/api/auth/workspace-session', {
      isAnonymous: true,
      headers,
    })
    expect(refused.status).toBe(401)
    expect(refused.headers.getSetCookie()).toEqual([])
  }
})

mapCase(
  'F02.workspace-cookie-access',
  'the cookie alone opens workspace files, also after a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k1' })
    const { id } = await conversationWithPage(own)
    const path = `/api/conversations/${id}/workspace/page.html`
    const { pair } = await mintCookie(own)
    for (const restarts of [false, true]) {
      if (restarts) await own.restart()
      const found = await own.request('GET', path, { isAnonymous: true, headers: { cookie: pair } })
      expect(found).toMatchObject({ status: 200, body: page })
    }
    for (const headers of [{}, { cookie: 'oh_workspace_session_key=wrong' }])
      expect(await own.requestStatus('GET', path, { isAnonymous: true, headers })).toBe(401)
  },
  { hasOwnServer: true },
)

mapCase('F02.workspace-session-delete', 'a sign-out clears the cookie', async () => {
  const path = '/api/auth/workspace-session'
  const found = await server.request('DELETE', path)
  expect(found.status).toBe(204)
  const cookie = found.headers.getSetCookie()[0] ?? ''
  expect(cookie).toMatch(/^oh_workspace_session_key=("")?;/)
  expect(cookie).toContain('Max-Age=0')
  expect(cookie).toContain('Path=/api/conversations')
  expect(await server.requestStatus('DELETE', path, { isAnonymous: true })).toBe(401)
})

mapCase(
  'F02.multiple-keys',
  'every configured key is valid',
  async () => {
    const env = {
      OH_SESSION_API_KEYS_0: 'first-key',
      OH_SESSION_API_KEYS_1: 'second-key',
      SLIPWAY_NO_KEY: '',
    }
    await using own = await OwnMapServer.open({ env })
    for (const [key, status] of [
      ['first-key', 200],
      ['second-key', 200],
      ['third-key', 401],
    ] as const)
      expect(
        await own.requestStatus('GET', '/api/conversations/count', { headers: { 'x-session-api-key': key } }),
      ).toBe(status)
  },
  { hasOwnServer: true },
)

mapCase(
  'F02.rotate-key',
  'after a restart with another key the old one is refused',
  async () => {
    await using own = await OwnMapServer.open({ key: 'old-key' })
    const { id } = await conversationWithPage(own)
    const { pair } = await mintCookie(own)
    await own.restart('SIGTERM', { SLIPWAY_SESSION_API_KEY: 'new-key' })
    const path = `/api/conversations/${id}`
    expect(await own.requestStatus('GET', path)).toBe(401)
    const headers = { 'x-session-api-key': 'new-key' }
    expect(await own.requestStatus('GET', path, { headers })).toBe(200)
    expect(
      await own.requestStatus('GET', `${path}/workspace/page.html`, {
        isAnonymous: true,
        headers: { cookie: pair },
      }),
    ).toBe(401)
    expect(await closeAfterFirstFrame(`/sockets/events/${id}`, auth('old-key'), own)).toMatchObject({
      code: 4001,
    })
  },
  { hasOwnServer: true },
)

mapCase('F02.keys-hidden-from-commands', 'commands see no key of the server', async () => {
  const environment = await server.runCommand('env')
  expect(environment).not.toMatch(/SESSION_API_KEY|SECRET_KEY/)
  if (server.key !== undefined) expect(environment).not.toContain(server.key)
})

differs(
  'F02.cors-default-origins',
  'preflights of pages of localhost are allowed',
  'pages of other origins',
  async () => {
    for (const origin of ['http://localhost:3999', 'https://pages.example', 'null'])
      expect((await preflight(origin)).headers.get('access-control-allow-origin')).toBe(null)
  },
  async () => {
    const allowed = await preflight('http://localhost:3999')
    expect(allowed.status).toBe(200)
    expect(allowed.headers.get('access-control-allow-origin')).toBe('http://localhost:3999')
    for (const origin of ['https://pages.example', 'null'])
      expect(await preflight(origin)).toMatchObject({ status: 400, body: 'Disallowed CORS origin' })
  },
)

differs(
  'F02.cors-configured-origins',
  'configured origins are allowed, others are refused',
  'status of a preflight',
  async () => {
    await using own = await OwnMapServer.open({
      key: 'k',
      env: {
        SLIPWAY_ALLOWED_ORIGINS: 'https://pages.example',
        OH_ALLOW_CORS_ORIGIN_REGEX: 'https://[a-z]+\\.pages\\.example',
        DOCKER_HOST_ADDR: 'docker.internal',
      },
    })
    const allowed = ['https://pages.example', 'https://one.pages.example', 'http://docker.internal:3000']
    for (const origin of allowed) {
      const found = await preflight(origin, '/api/settings', own)
      expect(found.status).toBe(204)
      expect(found.headers.get('access-control-allow-origin')).toBe(origin)
      expect(found.headers.get('access-control-allow-credentials')).toBe('true')
    }
    for (const origin of [
      'https://others.example',
      'https://one.pages.example.org',
      'https://x-one.pages.example:1',
      'http://docker-internal:3000',
      'http://docker.internal.example',
    ])
      expect((await preflight(origin, '/api/settings', own)).headers.get('access-control-allow-origin')).toBe(
        null,
      )
  },
)

mapCase('F02.cors-workspace-routes', 'workspace routes allow pages of every http origin', async () => {
  const { id } = await conversationWithPage()
  for (const path of ['/api/auth/workspace-session', `/api/conversations/${id}/workspace/page.html`]) {
    const found = await preflight('https://pages.example', path)
    expect(found.headers.get('access-control-allow-origin')).toBe('https://pages.example')
    expect((await preflight('null', path)).headers.get('access-control-allow-origin')).toBe(null)
  }
  expect((await preflight('https://pages.example')).headers.get('access-control-allow-origin')).toBe(null)
})

differs(
  'F02.no-auth-mode',
  'a server without keys answers calls with any key',
  'workspace cookie without keys',
  async () => {
    await using own = await OwnMapServer.open()
    expect(await own.requestStatus('GET', '/api/conversations/count')).toBe(200)
    const headers = { 'x-session-api-key': 'any' }
    expect(await own.requestStatus('GET', '/api/conversations/count', { headers })).toBe(200)
    const { id } = await own.createConversation()
    await using socket = own.openSocket(`/sockets/events/${id}`)
    await waitForFrames(socket, (events) => events.length > 0)
    expect((await mintCookie(own)).pair).toMatch(/^oh_workspace_session_key=./)
  },
)

mapCase(
  'F02.legacy-env-key',
  'SESSION_API_KEY alone sets the key',
  async () => {
    await using own = await OwnMapServer.open({ env: { SESSION_API_KEY: 'legacy-key', SLIPWAY_NO_KEY: '' } })
    const path = '/api/conversations/count'
    expect(await own.requestStatus('GET', path)).toBe(401)
    expect(await own.requestStatus('GET', path, { headers: { 'x-session-api-key': 'legacy-key' } })).toBe(200)
  },
  { hasOwnServer: true },
)

differs(
  'F02.default-bind',
  'the address follows from the key',
  'an address besides loopback without a key',
  async () => {
    await expect(
      startAgentServer(join(server.directory, 'data'), {}, ['--host', '0.0.0.0']),
    ).rejects.toThrow()
  },
)

mapCase(
  'F02.workspace-cookie-root-path',
  'the cookie fits the addresses below a prefix',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k', env: { OH_WEB_URL: 'https://agent.example/base' } })
    const { id } = await conversationWithPage(own)
    const { cookie, pair } = await mintCookie(own, '/base')
    expect(cookie).toContain('Path=/base/api/conversations')
    const path = `/base/api/conversations/${id}/workspace/page.html`
    const found = await own.request('GET', path, { isAnonymous: true, headers: { cookie: pair } })
    expect(found).toMatchObject({ status: 200, body: page })
  },
  { hasOwnServer: true },
)

mapCase(
  'F02.workspace-session-ipv6-loopback',
  'a mint over the IPv6 loopback is secure and partitioned',
  async () => {
    const cookie = await new Promise<string>((done, fail) => {
      const { port } = new URL(server.url)
      const headers = { ...server.headers, host: `[::1]:${port}` }
      const call = request(
        `${server.url}/api/auth/workspace-session`,
        { method: 'POST', headers },
        (response) => {
          response.resume()
          done(String(response.headers['set-cookie']?.[0]))
        },
      )
      call.on('error', fail)
      call.end()
    })
    expect(cookie.toLowerCase()).toContain('secure')
    expect(cookie.toLowerCase()).toContain('partitioned')
  },
)

endFamily('F02', 21)
