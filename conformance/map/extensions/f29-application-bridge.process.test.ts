import { afterAll, beforeAll, expect } from 'vitest'
import { expectAnswer } from '../answers.ts'
import { differs, endFamily, externalUrl, mapCase } from '../frame.ts'
import { OwnMapServer, openMapServer, waitFor } from '../map-server.ts'
import { Applications } from './application.ts'
import { BridgeClient, bridgeCookie, controlOrigin, setCookie } from './bridge-client.ts'

/** The origin of the applications; another server is its own. */
const ingress = externalUrl ?? 'http://127.0.0.1:4'
const env = { SLIPWAY_APP_BACKEND_URL: ingress, SLIPWAY_ALLOWED_ORIGINS: controlOrigin }
const own = { hasOwnServer: true }
const notReady = { exception: '503: Canvas App backend is not ready' }

const map = openMapServer(env)
const applications = new Applications(map)
const bridge = new BridgeClient(map, () => ingress)
let cookie = ''
let otherCookie = ''

beforeAll(async () => {
  for (const name of ['bridged', 'bridged-too']) await applications.start({ name })
  cookie = await bridge.open('bridged')
  otherCookie = await bridge.open('bridged-too')
}, 60_000)
afterAll(async () => {
  // Another server installs nothing by force while a program runs.
  for (const name of ['bridged', 'bridged-too']) await applications.ask(200, 'DELETE', `installed/${name}`)
})

/** A server of one case with a started application. */
async function openOwn(more: Readonly<Record<string, string>> = {}) {
  const server = await OwnMapServer.open({ isProcess: true, env: { ...env, ...more }, key: 'map-key-29' })
  const client = new BridgeClient(server, () => ingress)
  const apps = new Applications(server)
  await apps.start({ name: 'app' })
  return { server, client, apps, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

mapCase('F29.ingress-advertised', 'the server says where the bridge is', async () => {
  const shape = {
    app_backend_ingress_url: ingress,
    capabilities: expect.arrayContaining(['canvas_app_backend_bridge_v1']),
  }
  await expectAnswer(map, 200, 'GET', '/server_info', { isAnonymous: true }, shape)
})

mapCase(
  'F29.ingress-config-errors',
  'without a usable address of the bridge it answers 503',
  async () => {
    await using server = await OwnMapServer.open({
      isProcess: true,
      env: { SLIPWAY_ALLOWED_ORIGINS: controlOrigin },
      key: 'map-key-29',
    })
    const client = new BridgeClient(server, () => ingress)
    const unset = '503: Canvas App backend ingress is not configured'
    const info = await expectAnswer(server, 200, 'GET', '/server_info')
    expect(info.app_backend_ingress_url).toBeNull()
    expect(info.capabilities).not.toContain('canvas_app_backend_bridge_v1')
    for (const method of ['POST', 'DELETE'] as const)
      expect(await client.session(method, 'app')).toMatchObject({ status: 503, json: { exception: unset } })
    const any = { cookie: `${bridgeCookie}=any` }
    expect(await client.call('GET', 'app/echo', any)).toMatchObject({
      status: 503,
      json: { exception: unset },
    })
    expect(await client.socket('app/ws', any).status).toBe(403)
    expect(await client.session('POST', 'app', { hasKey: false })).toMatchObject({ status: 401 })

    await server.restart('SIGTERM', { SLIPWAY_APP_BACKEND_URL: 'ftp://apps.test' })
    await expectAnswer(server, 200, 'GET', '/server_info', {}, { app_backend_ingress_url: 'ftp://apps.test' })
    const misconfigured = { exception: '503: Canvas App backend ingress is misconfigured' }
    expect(await client.session('POST', 'app')).toMatchObject({ status: 503, json: misconfigured })
    expect(await client.call('GET', 'app/echo', any)).toMatchObject({ status: 503, json: misconfigured })

    await server.restart('SIGTERM', { SLIPWAY_APP_BACKEND_URL: 'http://apps.test:4' })
    await new Applications(server).start({ name: 'app' })
    const refused = await client.session('POST', 'app', { host: 'apps.test:4' })
    const insecure = { exception: '503: Canvas App sessions require HTTPS or a loopback secure context' }
    expect(refused).toMatchObject({ status: 503, json: insecure })
    expect(setCookie(refused)).toBe('')
    expect((await client.session('POST', 'app')).status).toBe(421)
  },
  own,
)

mapCase('F29.session-bootstrap', 'a key is exchanged for a cookie of one application', async () => {
  const answer = await bridge.session('POST', 'bridged')
  expect(answer).toMatchObject({
    status: 200,
    json: {
      ingress_url: `${ingress}/app-backends/bridged/`,
      iframe_sandbox: 'allow-forms allow-modals allow-popups allow-same-origin allow-scripts',
    },
    headers: {
      'access-control-allow-origin': controlOrigin,
      'access-control-allow-credentials': 'true',
    },
  })
  const secondsLeft = (Date.parse(String(answer.json.expires_at)) - Date.now()) / 1000
  expect(secondsLeft).toBeGreaterThan(240)
  expect(secondsLeft).toBeLessThanOrEqual(300)
  expect(setCookie(answer)).toMatch(/^oh_app_backend_session=[\w-]{20,};/)
  for (const part of [
    'HttpOnly',
    'Max-Age=300;',
    'Path=/app-backends/bridged;',
    'SameSite=none',
    'Secure',
    'Partitioned',
  ])
    expect(setCookie(answer)).toContain(part)
  expect(cookie).not.toBe(otherCookie)
  expect(await bridge.call('GET', 'bridged/echo', { cookie })).toMatchObject({ status: 200 })
  const preflight = await bridge.call('OPTIONS', 'bridged/session', {
    origin: controlOrigin,
    headers: {
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'x-session-api-key',
    },
  })
  expect(preflight.status).toBeLessThan(300)
  expect(preflight.headers).toMatchObject({
    'access-control-allow-origin': controlOrigin,
    'access-control-allow-credentials': 'true',
    'access-control-allow-headers': expect.stringMatching(/x-session-api-key/i),
  })
})

mapCase('F29.session-key-required', 'nothing but the key is exchanged', async () => {
  const calls = [
    { hasKey: false },
    { hasKey: false, headers: { 'x-session-api-key': 'wrong' } },
    { hasKey: false, headers: { authorization: `Bearer ${map.key}` } },
    { hasKey: false, cookie },
  ]
  for (const call of calls) {
    const answer = await bridge.session('POST', 'bridged', call)
    expect(answer).toMatchObject({ status: 401, json: { detail: 'Unauthorized' } })
    expect(setCookie(answer)).toBe('')
  }
})

mapCase('F29.session-ingress-host', 'another host is 421', async () => {
  const { port } = new URL(ingress)
  const detail = 'Canvas App request must use the configured ingress origin'
  const host = `localhost:${port}`
  const answer = await bridge.session('POST', 'bridged', { host })
  expect(answer).toMatchObject({ status: 421, json: { detail } })
  expect(setCookie(answer)).toBe('')
  const headers = { 'x-forwarded-host': new URL(ingress).host }
  expect((await bridge.session('POST', 'bridged', { host, headers })).status).toBe(421)
  expect((await bridge.call('GET', 'bridged/echo', { cookie, host: 'other.test:1' })).status).toBe(421)
  expect((await bridge.call('GET', 'bridged/echo', { cookie })).status).toBe(200)
})

mapCase(
  'F29.session-forwarded-proto',
  'forwarded headers do not count unless trusted',
  async () => {
    const headers = { 'x-forwarded-proto': 'https' }
    expect(await bridge.session('POST', 'bridged', { headers })).toMatchObject({
      status: 200,
      json: { ingress_url: `${ingress}/app-backends/bridged/` },
    })
    expect((await bridge.call('GET', 'bridged/echo', { cookie, headers })).status).toBe(200)
  },
  { faultThere: 'the scheme of the client counts' },
)

differs(
  'F29.session-origin-rules',
  'origins without permission are 403',
  'pages of other origins: other ports of this machine need permission too',
  async () => {
    await expectRefusedOrigins()
    expect((await bridge.session('POST', 'bridged', { origin: 'http://127.0.0.1:5173' })).status).toBe(403)
  },
  async () => {
    await expectRefusedOrigins()
    expect((await bridge.session('POST', 'bridged', { origin: 'http://127.0.0.1:5173' })).status).toBe(200)
  },
)

async function expectRefusedOrigins(): Promise<void> {
  for (const [origin, status] of [
    [undefined, 403],
    ['https://foreign.test', 403],
    ['null', 403],
    [ingress, 409],
  ] as const) {
    const answer = await bridge.session('POST', 'bridged', { origin })
    expect(answer.status, `${origin}: ${answer.text}`).toBe(status)
    expect(setCookie(answer)).toBe('')
  }
}

mapCase(
  'F29.session-configured-control-origin',
  'permitted origins by name and pattern',
  async () => {
    await using ownServer = await openOwn({
      SLIPWAY_ALLOWED_ORIGINS: 'https://listed.example',
      SLIPWAY_ALLOWED_ORIGIN_PATTERN: 'https://[a-z]+\\.pattern\\.example',
      DOCKER_HOST_ADDR: '10.254.0.9',
    })
    const { client, server, apps } = ownServer
    const permitted = ['https://listed.example', 'https://app.pattern.example', 'http://10.254.0.9:3000']
    for (const origin of permitted) {
      const answer = await client.session('POST', 'app', { origin })
      expect(answer, origin).toMatchObject({
        status: 200,
        headers: { 'access-control-allow-origin': origin },
      })
      const headers = { 'access-control-request-method': 'POST' }
      const preflight = await client.call('OPTIONS', 'app/session', { origin, headers })
      expect(preflight.headers).toMatchObject({ 'access-control-allow-origin': origin })
    }
    for (const origin of [
      'https://foreign.test',
      'https://listed.example:8443',
      'http://listed.example',
      'https://app.pattern.example.foreign.test',
      'https://pattern.example',
      'http://10.254.0.90:3000',
    ])
      expect((await client.session('POST', 'app', { origin })).status, origin).toBe(403)
    const minted = await client.session('POST', 'app', { origin: 'https://listed.example' })
    const [session = ''] = setCookie(minted).split(';')
    expect((await client.call('GET', 'app/echo', { cookie: session })).status).toBe(200)
    const unsafe = { cookie: session, origin: 'https://listed.example' }
    expect(await client.call('POST', 'app/echo', unsafe)).toMatchObject({
      status: 403,
      json: { detail: 'Origin is not allowed' },
    })
    const revoked = await client.session('DELETE', 'app', { origin: permitted[1], cookie: session })
    expect(revoked.status).toBe(204)
    expect((await client.call('GET', 'app/echo', { cookie: session })).status).toBe(401)

    const cleared = { SLIPWAY_ALLOWED_ORIGIN_PATTERN: '', DOCKER_HOST_ADDR: '' }
    await server.restart('SIGTERM', { ...cleared, SLIPWAY_ALLOWED_ORIGINS: controlOrigin })
    await apps.backend('app', 'start', (await apps.backend('app')).revision)
    for (const origin of permitted)
      expect((await client.session('POST', 'app', { origin })).status, origin).toBe(403)
    expect((await client.session('POST', 'app')).status).toBe(200)
  },
  own,
)

mapCase('F29.session-backend-not-ready', 'a program that is not ready is 503', async () => {
  const answer = await bridge.session('POST', 'nothing')
  expect(answer).toMatchObject({ status: 503, json: notReady })
  expect(setCookie(answer)).toBe('')
  expect(await bridge.call('GET', 'nothing/echo', { cookie })).toMatchObject({ status: 503, json: notReady })
  const invalid = { status: 422, json: { detail: [{ loc: ['path', 'extension_name'] }] } }
  expect(await bridge.session('POST', 'Not_Valid')).toMatchObject(invalid)
  expect(await bridge.call('GET', 'Not_Valid/echo')).toMatchObject(invalid)
})

mapCase('F29.proxy-get', 'safe methods reach the program', async () => {
  expect(await bridge.call('GET', 'bridged/echo?view=main', { cookie })).toMatchObject({
    status: 200,
    json: { method: 'GET', path: '/echo', query: '?view=main' },
  })
  const asset = await bridge.call('GET', 'bridged/assets/app.js', { cookie })
  expect(asset.json).toMatchObject({ path: '/assets/app.js' })
  expect((await bridge.call('HEAD', 'bridged/echo', { cookie })).status).toBe(200)
  expect((await bridge.call('OPTIONS', 'bridged/echo', { cookie })).json).toMatchObject({ method: 'OPTIONS' })
  const preflight = await bridge.call('OPTIONS', 'bridged/echo', {
    cookie,
    origin: ingress,
    headers: { 'access-control-request-method': 'POST' },
  })
  expect(preflight.status).toBeLessThan(300)
  expect(preflight.json).not.toHaveProperty('method')
  const page = await bridge.call('GET', 'bridged/session', { cookie })
  expect(page).toMatchObject({ status: 200, json: { path: '/session' } })
})

mapCase('F29.proxy-cookie-required', 'without the cookie 401', async () => {
  for (const call of [
    {},
    { cookie: `${bridgeCookie}=unknown-token` },
    { cookie: otherCookie },
    { hasKey: true },
  ])
    expect(await bridge.call('GET', 'bridged/echo', call)).toMatchObject({
      status: 401,
      json: { detail: 'Unauthorized' },
    })
  expect((await bridge.call('GET', 'bridged-too/echo', { cookie: otherCookie })).status).toBe(200)
})

mapCase('F29.proxy-unsafe-methods', 'other methods need the origin of the bridge', async () => {
  const body = '{"a":1}'
  const headers = { 'content-type': 'application/json' }
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    const answer = await bridge.call(method, 'bridged/echo', { cookie, origin: ingress, body, headers })
    expect(answer).toMatchObject({ status: 200, json: { method, path: '/echo', body } })
    for (const call of [
      { cookie },
      { cookie, origin: controlOrigin },
      { cookie: `${bridgeCookie}=unknown-token` },
    ])
      expect(await bridge.call(method, 'bridged/echo', { ...call, body, headers })).toMatchObject({
        status: 403,
        json: { detail: 'Origin is not allowed' },
      })
    expect((await bridge.call(method, 'bridged/echo', { origin: ingress, body })).status).toBe(401)
  }
})

mapCase('F29.proxy-root', 'the root in both forms', async () => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
    for (const path of ['bridged', 'bridged/'])
      expect(await bridge.call(method, path, { cookie, origin: ingress })).toMatchObject({
        status: 200,
        json: { method, path: '/' },
      })
  expect((await bridge.call('GET', 'bridged/?path=echo', { cookie })).json).toMatchObject({
    path: '/',
    query: '?path=echo',
  })
  expect((await bridge.call('POST', 'bridged', { cookie })).status).toBe(403)
  expect((await bridge.call('GET', 'bridged')).status).toBe(401)
})

mapCase(
  'F29.proxy-root-path-query',
  'a parameter of the name path is a parameter',
  async () => {
    for (const query of ['?path=echo', '?path=..'])
      expect(await bridge.call('GET', `bridged${query}`, { cookie })).toMatchObject({
        status: 200,
        json: { path: '/', query },
      })
    const socket = bridge.socket('bridged?path=ws', { cookie })
    expect(await socket.closed).toBe(1011)
    expect(socket.messages).toEqual([])
  },
  { faultThere: 'the parameter becomes the path' },
)

mapCase('F29.proxy-credentials-stripped', 'the program sees no credentials', async () => {
  const keys = 'session_api_key=leak&X-Session-API-Key=leak&Authorization=leak'
  const { json } = await bridge.call('POST', `bridged/echo?view=main&${keys}`, {
    cookie: `${cookie}; other=1`,
    origin: ingress,
    hasKey: true,
    headers: { authorization: 'Bearer leak', 'x-custom': 'kept' },
    body: '{}',
  })
  expect(json).toMatchObject({ query: '?view=main', body: '{}' })
  expect(json.headers).toMatchObject({ 'x-custom': 'kept', origin: ingress })
  for (const name of ['cookie', 'authorization', 'x-session-api-key'])
    expect(json.headers).not.toHaveProperty(name)
  expect(JSON.stringify(json)).not.toContain('leak')
})

mapCase(
  'F29.proxy-request-framing',
  'the framing of bodies stays',
  async () => {
    const get = await bridge.call('GET', 'bridged/echo', { cookie })
    expect(get.json.body).toBe('')
    expect(get.json.headers).not.toHaveProperty('transfer-encoding')
    const post = await bridge.call('POST', 'bridged/echo', { cookie, origin: ingress, body: '{"qa":"body"}' })
    expect(post.json).toMatchObject({ body: '{"qa":"body"}', headers: { 'content-length': '13' } })
    expect(post.json.headers).not.toHaveProperty('transfer-encoding')
  },
  { faultThere: 'bodies are chunked' },
)

mapCase('F29.proxy-response-filter', 'redirects and cookies do not pass', async () => {
  const redirect = await bridge.call('GET', 'bridged/redirect', { cookie })
  expect(redirect).toMatchObject({
    status: 502,
    json: { exception: '502: Upstream redirect is not allowed' },
  })
  expect(redirect.headers).not.toHaveProperty('location')
  const answer = await bridge.call('GET', 'bridged/cookie', { cookie })
  expect(answer).toMatchObject({ status: 200, json: { path: '/cookie' } })
  expect(setCookie(answer)).toBe('')
})

mapCase(
  'F29.proxy-response-headers',
  'one Date and one Server header',
  async () => {
    const { rawHeaders } = await bridge.call('GET', 'bridged/echo', { cookie })
    const names = rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase())
    expect(names.filter((name) => name === 'date')).toHaveLength(1)
    expect(names.filter((name) => name === 'server').length).toBeLessThanOrEqual(1)
  },
  { faultThere: 'two of each' },
)

mapCase('F29.proxy-path-traversal', 'paths that climb are 400', async () => {
  for (const path of [
    '%2e%2e/secret',
    '%252e%252e/secret',
    '%25252e%25252e/secret',
    'a%5cb',
    '%2e/x',
    '../x',
  ])
    for (const method of ['GET', 'POST'])
      expect(await bridge.call(method, `bridged/${path}`), path).toMatchObject({
        status: 400,
        json: { detail: 'Invalid backend path' },
      })
  const headers = {
    ...{ connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  }
  const handshake = await bridge.call('GET', 'bridged/%2e%2e/ws', { cookie, origin: ingress, headers })
  expect(handshake.status).toBe(403)
  const named = await bridge.call('GET', 'bridged/app%2Ejs', { cookie })
  expect(named.status).toBe(200)
  expect(decodeURIComponent(String(named.json.path))).toBe('/app.js')
})

mapCase('F29.ws-bridge', 'frames pass both ways', async () => {
  const socket = bridge.socket('bridged/ws?view=main&session_api_key=leak', {
    cookie: `${cookie}; other=1`,
    hasKey: true,
  })
  const echo = await socket.ask('hello')
  expect(echo).toEqual({ kind: 'echo', echo: 'hello', query: '?view=main' })
  socket.close()
  for (const path of ['bridged', 'bridged/no-socket-here']) {
    const refused = bridge.socket(path, { cookie })
    expect(await refused.closed).toBe(1011)
    expect(refused.messages).toEqual([])
  }
})

mapCase('F29.ws-handshake-rejections', 'sockets without origin or cookie are 403', async () => {
  for (const call of [
    { cookie, origin: undefined },
    { cookie, origin: controlOrigin },
    {},
    { cookie: `${bridgeCookie}=unknown-token` },
    { cookie: otherCookie },
    { hasKey: true },
  ])
    expect(await bridge.socket('bridged/ws', call).status, JSON.stringify(call)).toBe(403)
  expect(await bridge.socket(`bridged/ws?session_api_key=${map.key}`, {}).status).toBe(403)
})

mapCase(
  'F29.ws-subprotocol',
  'subprotocols are negotiated',
  async () => {
    const plain = bridge.socket('bridged/ws', { cookie })
    await plain.ask('one')
    expect(plain.protocol).toBe('')
    plain.close()
    const socket = bridge.socket('bridged/ws', { cookie }, ['map.v1', 'map.v2'])
    expect(await socket.ask('two')).toMatchObject({ echo: 'two' })
    expect(socket.protocol).toBe('map.v1')
    socket.close()
  },
  { faultThere: 'subprotocols are dropped' },
)

mapCase('F29.session-revoke', 'a revoked session closes its sockets', async () => {
  const [one, two] = [await bridge.open('bridged'), await bridge.open('bridged')]
  const socket = bridge.socket('bridged/ws', { cookie: one })
  await socket.ask('before')
  const revoked = await bridge.session('DELETE', 'bridged', { cookie: one })
  expect(revoked.status).toBe(204)
  for (const part of [`${bridgeCookie}=""`, 'Max-Age=0;', 'Path=/app-backends/bridged;'])
    expect(setCookie(revoked)).toContain(part)
  expect(await socket.closed).toBe(1000)
  expect((await bridge.call('GET', 'bridged/echo', { cookie: one })).status).toBe(401)
  expect(await bridge.socket('bridged/ws', { cookie: one }).status).toBe(403)
  for (const [call, status] of [
    [{ hasKey: false }, 401],
    [{ origin: 'https://foreign.test' }, 403],
    [{ origin: ingress }, 409],
  ] as const)
    expect((await bridge.session('DELETE', 'bridged', { cookie: two, ...call })).status).toBe(status)
  expect((await bridge.call('GET', 'bridged/echo', { cookie: two })).status).toBe(200)
  expect((await bridge.session('DELETE', 'bridged')).status).toBe(204)
})

mapCase('F29.backend-lifecycle-revokes', 'a stop of the program revokes its sessions', async () => {
  const { revision } = await applications.start({ name: 'stopped' })
  for (const stop of [
    () => applications.backend('stopped', 'stop'),
    () => applications.ask(200, 'PATCH', 'installed/stopped', { enabled: false }),
  ]) {
    const former = await bridge.open('stopped')
    const socket = bridge.socket('stopped/ws', { cookie: former })
    await socket.ask('before')
    await stop()
    expect(await socket.closed).toBe(1000)
    expect(await bridge.call('GET', 'stopped/echo', { cookie: former })).toMatchObject({
      status: 503,
      json: notReady,
    })
    expect((await bridge.session('POST', 'stopped')).status).toBe(503)
    expect(await bridge.socket('stopped/ws', { cookie: former }).status).toBe(403)
    expect((await bridge.session('DELETE', 'stopped', { cookie: former })).status).toBe(204)
    await applications.ask(200, 'PATCH', 'installed/stopped', { enabled: true })
    await applications.backend('stopped', 'start', revision)
    expect((await bridge.call('GET', 'stopped/echo', { cookie: former })).status).toBe(401)
  }
  const former = await bridge.open('stopped')
  const { pid } = await applications.backend('stopped')
  process.kill(pid)
  const crashed = await waitFor(
    () => applications.backend('stopped'),
    ({ state, pid }) => state === 'unhealthy' && (pid as number | null) === null,
  )
  expect(crashed).toMatchObject({ detail: expect.any(String), pid: null })
  expect((await bridge.call('GET', 'stopped/echo', { cookie: former })).status).toBe(503)
  await applications.backend('stopped', 'start', revision)
  expect((await bridge.call('GET', 'stopped/echo', { cookie: former })).status).toBe(401)
  const fresh = await bridge.open('stopped')
  expect((await bridge.call('GET', 'stopped/echo', { cookie: fresh })).status).toBe(200)
})

mapCase(
  'F29.backend-crash-detected',
  'a dead program is 503 at once',
  async () => {
    const { pid, revision } = await applications.start({ name: 'crashed' })
    const former = await bridge.open('crashed')
    expect((await bridge.call('GET', 'crashed/echo', { cookie: former })).status).toBe(200)
    process.kill(pid)
    const answer = await waitFor(
      () => bridge.call('GET', 'crashed/echo', { cookie: former }),
      ({ status }) => status === 503,
    )
    expect(answer.json).toMatchObject(notReady)
    expect((await applications.backend('crashed')).state).not.toBe('ready')
    await applications.backend('crashed', 'start', revision)
  },
  { faultThere: 'noticed by a request of the status alone' },
)

mapCase(
  'F29.trusted-forwarded-headers',
  'forwarded headers count when trusted',
  async () => {
    await using ownServer = await openOwn({ SLIPWAY_TRUST_FORWARDED_HEADERS: '1' })
    const { client } = ownServer
    const host = 'localhost:5'
    const headers = { 'x-forwarded-host': new URL(ingress).host }
    const opened = await client.session('POST', 'app', { host, headers })
    expect(opened).toMatchObject({ status: 200, json: { ingress_url: `${ingress}/app-backends/app/` } })
    const [session = ''] = setCookie(opened).split(';')
    expect((await client.call('GET', 'app/echo', { cookie: session, host, headers })).status).toBe(200)
    expect((await client.call('GET', 'app/echo', { cookie: session, host })).status).toBe(421)
    for (const wrong of [{ 'x-forwarded-proto': 'https' }, { 'x-forwarded-host': 'apps.test' }])
      expect((await client.session('POST', 'app', { headers: wrong })).status).toBe(421)
  },
  own,
)

mapCase(
  'F29.sessions-not-persisted',
  'sessions do not survive a restart',
  async () => {
    await using ownServer = await openOwn()
    const { server, client, apps } = ownServer
    const former = await client.open('app')
    await server.restart()
    const { state, revision, prepared_revision } = await apps.backend('app')
    expect({ state, prepared_revision }).toEqual({ state: 'stopped', prepared_revision: revision })
    expect((await client.call('GET', 'app/echo', { cookie: former })).status).toBe(503)
    await apps.backend('app', 'start', revision)
    expect((await client.call('GET', 'app/echo', { cookie: former })).status).toBe(401)
    const fresh = await client.open('app')
    expect((await client.call('GET', 'app/echo', { cookie: fresh })).status).toBe(200)
  },
  own,
)

mapCase(
  'F29.session-ttl',
  'sessions end after their time',
  async () => {
    await using ownServer = await openOwn({ SLIPWAY_APP_BACKEND_SESSION_SECONDS: '3' })
    const { client } = ownServer
    const former = await client.open('app')
    const socket = client.socket('app/ws', { cookie: former })
    await socket.ask('before')
    expect(await socket.closed).toBe(1000)
    expect((await client.call('GET', 'app/echo', { cookie: former })).status).toBe(401)
  },
  own,
)

mapCase('F29.uninstall-revokes', 'an uninstall revokes sessions', async () => {
  await applications.start({ name: 'removed' })
  const former = await bridge.open('removed')
  const socket = bridge.socket('removed/ws', { cookie: former })
  await socket.ask('before')
  await applications.ask(200, 'DELETE', 'installed/removed')
  expect(await socket.closed).toBe(1000)
  expect(await bridge.call('GET', 'removed/echo', { cookie: former })).toMatchObject({
    status: 503,
    json: notReady,
  })
  expect((await bridge.session('POST', 'removed')).status).toBe(503)
})

endFamily('F29', 29)
