import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect } from 'vitest'
import { expectAnswer, expectUnauthorized, filesWith } from '../answers.ts'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  finishReply,
  type Json,
  OwnMapServer,
  openMapServer,
  openModel,
  toolReply,
  waitFor,
} from '../map-server.ts'
import { openOAuthMcpServer } from './oauth-server.ts'

const map = openMapServer({}, { isProcess: true })
const stored = (key: string) => `/api/settings/mcp/${key}`
const test = '/api/mcp/test'

/** An MCP server: over standard input and output, or over HTTP behind a bearer token. */
const tools = ['echo', 'env', 'fail', 'sleep'].map((name) => ({
  name,
  description: name,
  inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
}))
const stdioScript = `
let rest = ''
setTimeout(() => process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\\n')
  rest = lines.pop()
  for (const line of lines) if (line.trim() !== '') answer(JSON.parse(line))
}), Number(process.argv[2] ?? 0))
const write = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
const text = (value, isError = false) => ({ content: [{ type: 'text', text: value }], isError })
function answer({ id, method, params }) {
  if (id === undefined) return
  if (method === 'initialize')
    return write({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'map', version: '1' } } })
  if (method === 'tools/list') return write({ id, result: { tools: ${JSON.stringify(tools)} } })
  if (method !== 'tools/call') return write({ id, result: {} })
  const { name, arguments: args = {} } = params
  if (name === 'echo') write({ id, result: text('MAP_ECHO:' + args.text) })
  if (name === 'env') write({ id, result: text('MAP_ENV:' + (process.env[args.text] ?? 'unset')) })
  if (name === 'fail') write({ id, result: text('MAP_FAIL', true) })
  if (name === 'no-such-tool') write({ id, error: { code: -32602, message: 'Unknown tool' } })
}
`
let bearer: Server
beforeAll(async () => {
  bearer = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    if (request.headers.authorization !== 'Bearer map-bearer') return response.writeHead(401).end()
    if (request.method !== 'POST') return response.writeHead(405).end()
    const { id, method, params } = JSON.parse(body)
    if (id === undefined) return response.writeHead(202).end()
    const serverInfo = { name: 'map', version: '1' }
    const results: Json = {
      initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo },
      'tools/list': { tools: tools.slice(0, 1) },
      'tools/call': { content: [{ type: 'text', text: 'MAP_HTTP' }] },
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }))
  })
  await new Promise<void>((done) => bearer.listen(0, '127.0.0.1', done))
})
afterAll(() => {
  bearer.closeAllConnections()
  bearer.close()
})
const bearerUrl = () => `http://127.0.0.1:${(bearer.address() as AddressInfo).port}/mcp`

/** The stdio server; `delayMs` delays its handshake. */
async function program(on: { upload: typeof map.upload; directory: string } = map, delayMs = 0) {
  const file = `${on.directory}/mcp-server.cjs`
  await on.upload(file, stdioScript)
  return { command: process.execPath, args: [file, String(delayMs)] }
}
const probe = (body: object, status = 200, shape?: object) =>
  expectAnswer(map, status, 'POST', test, { body }, shape)
const call = (name: string, text = '') => ({ tool_call: { name, arguments: { text } } })
const getServers = async (expose = 'plaintext', from: Pick<typeof map, 'requestOrThrow'> = map) => {
  const found = await from.requestOrThrow<{ agent_settings: { mcp_config: Json } }>('GET', '/api/settings', {
    headers: { 'x-expose-secrets': expose },
  })
  return found.agent_settings.mcp_config
}

mapCase('F19.auth', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['POST', test, { server: { command: 'true' } }],
    ['POST', '/api/mcp/oauth/start', { server: { url: 'http://127.0.0.1:9/mcp' } }],
    ['GET', '/api/mcp/oauth/status/any'],
    ['POST', '/api/mcp/oauth/callback/any', { callback_url: 'http://localhost:1/callback' }],
    ['POST', stored('map-auth'), { command: 'true' }],
    ['PATCH', stored('map-auth'), { enabled: false }],
    ['DELETE', stored('map-auth')],
  )
})

mapCase(
  'F19.settings-create',
  'a server is stored, redacted in answers; a second create is 409',
  async () => {
    const body = { url: 'http://127.0.0.1:9/mcp', headers: { 'x-token': 'map-header-secret' } }
    const made = await expectAnswer(map, 201, 'POST', stored('map-create'), { body })
    expect(JSON.stringify(made)).not.toContain('map-header-secret')
    expect(JSON.stringify(await getServers('none-of-them').catch(() => ''))).not.toContain(
      'map-header-secret',
    )
    expect((await getServers())['map-create']).toMatchObject(body)
    await expectAnswer(map, 409, 'POST', stored('map-create'), { body: { url: 'http://127.0.0.1:8/mcp' } })
    expect((await getServers())['map-create']).toMatchObject(body)
    await expectAnswer(map, 200, 'DELETE', stored('map-create'))
  },
)

mapCase('F19.settings-validation', 'servers that cannot work are 422 and not stored', async () => {
  for (const body of [
    { transport: 'stdio', args: ['x'] },
    { transport: 'http', headers: {} },
    { command: 'true', unknown_member: 1 },
    { url: 'http://127.0.0.1:9/mcp', transport: 'websocket' },
    {
      url: 'http://127.0.0.1:9/mcp',
      headers: { Authorization: 'Bearer x' },
      auth: { strategy: 'bearer', value: 'y' },
    },
  ])
    expect([body, await map.requestStatus('POST', stored('map-bad'), { body })]).toEqual([body, 422])
  expect(await getServers()).not.toHaveProperty('map-bad')
})

mapCase(
  'F19.settings-empty-server',
  'an empty server is 422',
  async () => {
    const { status } = await map.request('POST', stored('map-empty'), { body: {} })
    // While it is stored, conversations have no tools of other servers.
    await map.request('DELETE', stored('map-empty'))
    expect(status).toBe(422)
  },
  { faultThere: 'stored' },
)

mapCase('F19.settings-patch', 'a change merges; null removes a header; unknown keys are 404', async () => {
  const headers = { a: 'map-a', b: 'map-b' }
  await map.requestOrThrow('POST', stored('map-patch'), {
    body: { transport: 'http', url: 'http://127.0.0.1:9/mcp', headers },
  })
  const change = (body: object, status = 200) =>
    expectAnswer(map, status, 'PATCH', stored('map-patch'), { body })
  await change({ enabled: false })
  expect((await getServers())['map-patch']).toMatchObject({ enabled: false, headers })
  await change({ headers: { a: null }, enabled: null })
  expect((await getServers())['map-patch']).toMatchObject({ enabled: true, headers: { b: 'map-b' } })
  await change({ unknown_member: 1 }, 422)
  await change({ url: null }, 422)
  await expectAnswer(map, 404, 'PATCH', stored('map-none'), { body: { enabled: false } })
  await map.requestOrThrow('DELETE', stored('map-patch'))
})

mapCase('F19.settings-delete', 'one server goes, the others keep their credentials', async () => {
  for (const name of ['map-del-a', 'map-del-b'])
    await map.requestOrThrow('POST', stored(name), {
      body: { command: 'true', env: { T: `${name}-secret` } },
    })
  await expectAnswer(map, 200, 'DELETE', stored('map-del-a'))
  const found = await getServers()
  expect(found).not.toHaveProperty('map-del-a')
  expect(found['map-del-b']).toMatchObject({ env: { T: 'map-del-b-secret' } })
  await expectAnswer(map, 404, 'DELETE', stored('map-del-a'))
  await map.requestOrThrow('DELETE', stored('map-del-b'))
})

mapCase('F19.test-stdio', 'a test lists tools, calls one and leaves no child', async () => {
  await probe({ server: await program(), ...call('echo', 'hi'), timeout: 20 }, 200, {
    ok: true,
    tools: tools.map(({ name }) => name),
    tool_result: { is_error: false, text: 'MAP_ECHO:hi' },
  })
  expect(await map.runCommand('pgrep -f [m]cp-server.cjs || true')).toBe('')
})

mapCase('F19.test-tool-errors', 'errors of a tool are results of a test that is ok', async () => {
  const server = await program()
  for (const name of ['fail', 'no-such-tool'])
    await probe({ server, ...call(name), timeout: 20 }, 200, { ok: true, tool_result: { is_error: true } })
  await probe({ server, ...call('sleep'), timeout: 3 }, 200, { ok: true, tool_result: { is_error: true } })
})

mapCase('F19.test-connect-failures', 'what cannot be reached is 200 and not ok', async () => {
  for (const server of [
    { command: '/nothing/there' },
    { url: 'http://127.0.0.1:9/mcp', transport: 'http' },
    { command: 'false' },
  ])
    await probe({ server, timeout: 10 }, 200, {
      ok: false,
      error: expect.any(String),
      error_kind: expect.any(String),
    })
})

mapCase('F19.test-timeout', 'a handshake that never ends is a timeout, and its program ends', async () => {
  const server = await program(map, 600_000)
  await probe({ server, timeout: 2 }, 200, { ok: false, error_kind: 'timeout' })
  expect(await map.runCommand('pgrep -f [m]cp-server.cjs || true')).toBe('')
})

mapCase('F19.test-validation', 'requests that cannot be meant are 422', async () => {
  const url = 'http://127.0.0.1:9/mcp'
  for (const body of [
    {},
    { server: { command: '' } },
    { server: { url, transport: 'websocket' } },
    { server: { command: 'true' }, timeout: 0 },
    { server: { command: 'true' }, timeout: 121 },
    { server: { url, authentication: { type: 'oauth' } } },
    { server: { url, headers: { Authorization: 'Bearer x' }, auth: { strategy: 'bearer', value: 'y' } } },
  ])
    expect([body, await map.requestStatus('POST', test, { body })]).toEqual([body, 422])
})

differs(
  'F19.test-encrypted-env',
  'sealed variables are opened; keys of the server are not inherited',
  'secrets in the result of a test of an MCP server: they are hidden, as everywhere',
  async () => {
    await map.requestOrThrow('POST', stored('map-env'), {
      body: { ...(await program()), env: { MAP_TOKEN: 'map-env-secret' } },
    })
    const { env } = (await getServers('encrypted'))['map-env'] as { env: Json }
    expect(env.MAP_TOKEN).not.toBe('map-env-secret')
    const server = { ...(await program()), env }
    await probe({ server, ...call('env', 'MAP_TOKEN'), timeout: 20 }, 200, {
      tool_result: { text: 'MAP_ENV:<secret-hidden>' },
    })
    for (const name of ['SLIPWAY_SESSION_API_KEY', 'OH_SECRET_KEY'])
      await probe({ server, ...call('env', name), timeout: 20 }, 200, {
        tool_result: { text: 'MAP_ENV:unset' },
      })
    await map.requestOrThrow('DELETE', stored('map-env'))
  },
)

mapCase('F19.test-remote-bearer', 'a bearer token in each of its forms', async () => {
  const url = bearerUrl()
  for (const server of [
    { url, transport: 'http', auth: { strategy: 'bearer', value: 'map-bearer' } },
    { type: 'shttp', url, headers: { Authorization: 'Bearer map-bearer' } },
    {
      url,
      transport: 'http',
      auth: { strategy: 'header', headers: { Authorization: 'Bearer map-bearer' } },
    },
  ])
    await probe({ server, timeout: 20 }, 200, { ok: true, tools: ['echo'] })
  const server = { url, transport: 'http', auth: { strategy: 'bearer', value: 'wrong' } }
  await probe({ server, timeout: 20 }, 200, { ok: false })
})

const oauth = { auth: { strategy: 'oauth2', authentication: { type: 'oauth' } } }
mapCase(
  'F19.oauth-start-errors',
  'a start without OAuth is 400, an unreachable server a failed job',
  async () => {
    const start = (server: object, status: number, shape?: object) =>
      expectAnswer(map, status, 'POST', '/api/mcp/oauth/start', { body: { server } }, shape)
    await start({ command: 'true' }, 400)
    await start({ url: 'http://127.0.0.1:9/mcp' }, 400)
    const { job_id } = await start({ type: 'http', url: 'http://127.0.0.1:9/mcp', ...oauth }, 200, {
      ok: false,
      error_kind: 'connection',
    })
    const body = { callback_url: 'http://localhost:1/callback' }
    await expectAnswer(map, 409, 'POST', `/api/mcp/oauth/callback/${job_id}`, { body })
  },
)
mapCase('F19.oauth-unknown-job', 'an unknown job is 404; a callback without an address 422', async () => {
  await expectAnswer(map, 404, 'GET', '/api/mcp/oauth/status/none')
  const body = { callback_url: 'http://localhost:1/callback?code=x&state=y' }
  await expectAnswer(map, 404, 'POST', '/api/mcp/oauth/callback/none', { body })
  await expectAnswer(map, 422, 'POST', '/api/mcp/oauth/callback/none', { body: {} })
})
type OAuthServer = Awaited<ReturnType<typeof openOAuthMcpServer>>
const statusPath = (id: unknown) => `/api/mcp/oauth/status/${id}`
const oauthServer = ({ url }: OAuthServer) => ({ type: 'http', url, ...oauth })
/** Starts a sign-in until it waits for the consent; returns it with the address of the callback. */
async function startSignIn(
  there: OAuthServer,
  more: object = {},
  on: Pick<typeof map, 'requestOrThrow'> = map,
) {
  const body = { server: oauthServer(there), timeout: 60, ...more }
  const job = await on.requestOrThrow<Json>('POST', '/api/mcp/oauth/start', { body })
  expect(job).toMatchObject({ ok: true, authorization_url: expect.stringContaining('/authorize?') })
  expect(await on.requestOrThrow('GET', statusPath(job.job_id))).toMatchObject({
    status: 'authorizing',
    callback_ready: true,
  })
  return { id: String(job.job_id), callback: await there.consent(String(job.authorization_url)) }
}
const sendCallback = (id: string, callback_url: string, on: Pick<typeof map, 'request'> = map) =>
  on.request<Json>('POST', `/api/mcp/oauth/callback/${id}`, { body: { callback_url } })
const waitForJob = (id: string, on: Pick<typeof map, 'requestOrThrow'> = map) =>
  waitFor(
    () => on.requestOrThrow<Json>('GET', statusPath(id)),
    ({ status }) => status === 'succeeded' || status === 'failed',
  )
/** A whole sign-in; returns the state of it. */
async function signIn(there: OAuthServer, on: Pick<typeof map, 'request' | 'requestOrThrow'> = map) {
  const { id, callback } = await startSignIn(there, {}, on)
  await sendCallback(id, callback, on)
  const { oauth_state } = await waitForJob(id, on)
  return oauth_state as Json
}

mapCase('F19.oauth-flow', 'start, consent, callback, tools and sealed tokens', async () => {
  await using there = await openOAuthMcpServer()
  const { id, callback } = await startSignIn(there, call('echo', 'hi'))
  expect(callback).toMatch(/^http:\/\/localhost:\d+\/callback\?/)
  expect(await sendCallback(id, callback)).toMatchObject({ status: 200, body: { ok: true } })
  const job = await waitForJob(id)
  expect(job).toMatchObject({
    status: 'succeeded',
    tools: ['echo'],
    tool_result: { is_error: false, text: 'MAP_OAUTH:hi' },
    oauth_state: {
      tokens: { access_token: expect.any(String), refresh_token: expect.any(String) },
      client_info: { client_id: expect.any(String) },
      token_expires_at: expect.any(Number),
    },
  })
  expect(JSON.stringify(job)).not.toMatch(/map-(?:access|refresh)-/)
})
mapCase(
  'F19.oauth-callback-replay',
  'a second callback is a status or 4xx',
  async () => {
    await using there = await openOAuthMcpServer()
    const { id, callback } = await startSignIn(there)
    await sendCallback(id, callback)
    await waitForJob(id)
    expect((await sendCallback(id, callback)).status).toBeLessThan(500)
    expect(await waitForJob(id)).toMatchObject({ status: 'succeeded' })
  },
  { faultThere: '500' },
)
mapCase('F19.oauth-callback-bad-port', 'a port that is none is 400', async () => {
  await using there = await openOAuthMcpServer()
  const { id } = await startSignIn(there)
  for (const port of ['1', '99999', 'abc'])
    expect((await sendCallback(id, `http://localhost:${port}/callback?code=x`)).status).toBe(400)
  expect(await map.requestOrThrow('GET', statusPath(id))).toMatchObject({ status: 'authorizing' })
})
mapCase('F19.oauth-callback-validation', 'foreign addresses are 400 and the job waits on', async () => {
  await using there = await openOAuthMcpServer()
  const { id, callback } = await startSignIn(there)
  const { port, search } = new URL(callback)
  for (const [address, detail] of [
    [`https://localhost:${port}/callback${search}`, 'Invalid OAuth callback URL'],
    [`http://elsewhere.example:${port}/callback${search}`, 'Invalid OAuth callback URL'],
    [`http://localhost:${port}/other${search}`, 'Unexpected OAuth callback URL'],
    [`http://localhost:1/callback${search}`, 'Unexpected OAuth callback URL'],
  ] as const)
    expect(await sendCallback(id, address)).toMatchObject({ status: 400, body: { detail } })
  expect(await map.requestOrThrow('GET', statusPath(id))).toMatchObject({ status: 'authorizing' })
  await sendCallback(id, callback.replace('localhost', '127.0.0.1'))
  expect(await waitForJob(id)).toMatchObject({ status: 'succeeded' })
})
mapCase('F19.oauth-consent-denied', 'a denied consent fails the job', async () => {
  await using there = await openOAuthMcpServer()
  const { id, callback } = await startSignIn(there)
  const url = new URL(callback)
  url.searchParams.delete('code')
  url.searchParams.set('error', 'access_denied')
  expect(await sendCallback(id, url.href)).toMatchObject({
    status: 200,
    body: {
      ok: false,
      status: 'failed',
      error: 'OAuth callback returned HTTP 400',
      error_kind: 'connection',
    },
  })
  const job = await waitFor(
    () => map.requestOrThrow<Json>('GET', statusPath(id)),
    ({ error }) => String(error).includes('Access was denied'),
  )
  expect(job).toMatchObject({ ok: false, status: 'failed' })
  expect(Object.keys(job)).not.toContain('oauth_state')
})
mapCase('F19.oauth-consent-timeout', 'a consent that does not come fails the job', async () => {
  await using there = await openOAuthMcpServer()
  const { id } = await startSignIn(there, { timeout: 2 })
  expect(await waitForJob(id)).toMatchObject({
    ...{ ok: false, status: 'failed', error_kind: 'timeout' },
    error: expect.stringContaining('timed out after 2.0 seconds'),
  })
})
mapCase('F19.oauth-stored-state', 'stored tokens connect without consent', async () => {
  await using there = await openOAuthMcpServer()
  const state = await signIn(there)
  const server = { ...oauthServer(there), auth: { ...oauth.auth, state } }
  const shape = { ok: true, tools: ['echo'], tool_result: { text: 'MAP_OAUTH:again' } }
  await probe({ server, ...call('echo', 'again'), timeout: 20 }, 200, shape)
  const started = await map.requestOrThrow<Json>('POST', '/api/mcp/oauth/start', { body: { server } })
  expect(Object.keys(started)).not.toContain('authorization_url')
  expect(await waitForJob(String(started.job_id))).toMatchObject({ status: 'succeeded', tools: ['echo'] })
  const body = { url: there.url, transport: 'http', auth: server.auth }
  const made = await expectAnswer(map, 201, 'POST', stored('map-oauth'), { body })
  expect(JSON.stringify(made)).not.toContain('map-access-')
  expect(JSON.stringify((await getServers())['map-oauth'])).toContain('map-access-')
  await map.requestOrThrow('DELETE', stored('map-oauth'))
})

/** A conversation from stored settings, whose model calls `call`. */
async function startFromSettings(on: OwnMapServer, calls: readonly ReturnType<typeof toolReply>[]) {
  const model = await openModel(...calls, finishReply())
  const { agent_settings } = await on.requestOrThrow<{ agent_settings: Json }>('GET', '/api/settings', {
    headers: { 'x-expose-secrets': 'encrypted' },
  })
  const made = await on.requestOrThrow<{ id: string }>('POST', '/api/conversations', {
    body: {
      agent_settings: { ...agent_settings, llm: model.llm('chat') },
      secrets_encrypted: true,
      workspace: { working_dir: on.directory },
    },
  })
  await on.sendMessage(made.id, 'Go.', true)
  await on.waitForStatus(made.id, 'finished')
  return { id: made.id, model, events: await on.getEvents(made.id) }
}
const own = { hasOwnServer: true }

mapCase(
  'F19.oauth-refresh-writeback',
  'refreshed tokens of a stored server are stored',
  async () => {
    await using there = await openOAuthMcpServer()
    await using server = await OwnMapServer.open({
      key: 'map-key-2',
      env: { SLIPWAY_SECRET_KEY: 'a-secret-key-of-the-map' },
    })
    const state = { ...(await signIn(there, server)), token_expires_at: 1 }
    const body = { url: there.url, transport: 'http', auth: { ...oauth.auth, state } }
    await server.requestOrThrow('POST', stored('map-oauth'), { body })
    const read = async () => {
      const { auth } = (await getServers('plaintext', server))['map-oauth'] as { auth: { state: Json } }
      return auth.state as { tokens: Json; token_expires_at: number }
    }
    const before = await read()
    for (const n of [1, 2]) {
      const { model, events } = await startFromSettings(server, [toolReply('echo', { text: `hi-${n}` })])
      await using _ = model
      expect(JSON.stringify(events)).toContain(`MAP_OAUTH:hi-${n}`)
      expect(JSON.stringify(events)).not.toMatch(/map-(?:access|refresh)-/)
    }
    const after = await read()
    expect(after.tokens.access_token).not.toBe(before.tokens.access_token)
    expect(after.token_expires_at).toBeGreaterThan(Date.now() / 1000)
    expect(there.refreshes).toBe(1)
    await server.stop()
    expect(await filesWith(server, String(after.tokens.access_token))).toEqual([])
    expect(await filesWith(server, String(after.tokens.refresh_token))).toEqual([])
  },
  own,
)

mapCase(
  'F19.oauth-inline-writeback',
  'refreshed tokens of an inline server go to the webhook',
  async () => {
    await using there = await openOAuthMcpServer()
    const posts: { body: Json; key: unknown }[] = []
    const sink = createServer(async (request, response) => {
      const body = Buffer.concat(await request.toArray()).toString()
      if (request.url === '/mcp-oauth-state')
        posts.push({ body: JSON.parse(body), key: request.headers['x-session-api-key'] })
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
    await new Promise<void>((done) => sink.listen(0, '127.0.0.1', done))
    const { port } = sink.address() as AddressInfo
    try {
      await using server = await OwnMapServer.open({
        key: 'map-key-2',
        env: { SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: `http://127.0.0.1:${port}` }]) },
      })
      const state = { ...(await signIn(there, server)), token_expires_at: 1 }
      await using model = await openModel(finishReply())
      const auth = { ...oauth.auth, state }
      const mcp_config = { inline: { url: there.url, transport: 'http', auth } }
      const { id } = await server.requestOrThrow<{ id: string }>('POST', '/api/conversations', {
        body: {
          agent_settings: { llm: model.llm('chat'), tools: [], mcp_config },
          secrets_encrypted: true,
          workspace: { working_dir: server.directory },
        },
      })
      await server.sendMessage(id, 'Go.', true)
      await server.waitForStatus(id, 'finished')
      expect(JSON.stringify(await server.getEvents(id))).toContain('echo')
      const [post] = await waitFor(
        async () => posts,
        (all) => all.length > 0,
      )
      expect(post).toMatchObject({
        key: 'map-key-2',
        body: {
          server_url: there.url,
          oauth_state: {
            tokens: { access_token: expect.stringContaining('map-access-') },
            client_info: { client_id: expect.any(String) },
          },
        },
      })
      expect(await getServers('plaintext', server)).toEqual({})
    } finally {
      sink.closeAllConnections()
      sink.close()
    }
  },
  own,
)

mapCase(
  'F19.disabled-server',
  'a disabled server is neither offered nor started',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    const command = await program(server)
    await server.requestOrThrow('POST', stored('on'), { body: command })
    const touch = { command: 'touch', args: [`${server.directory}/started`], enabled: false }
    await server.requestOrThrow('POST', stored('off'), { body: touch })
    const { model, events } = await startFromSettings(server, [])
    await using _ = model
    const prompt = events.find(({ kind }) => kind === 'SystemPromptEvent')
    expect(JSON.stringify(prompt)).toContain('echo')
    expect(await server.runCommand(`ls '${server.directory}'`)).not.toContain('started')
  },
  own,
)

mapCase(
  'F19.conversation-tool',
  'an agent calls a tool of a stored server, whose program ends later',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    await server.requestOrThrow('POST', stored('map'), { body: await program(server) })
    const { id, model, events } = await startFromSettings(server, [toolReply('echo', { text: 'hi' })])
    await using _ = model
    expect(JSON.stringify(events.filter(({ kind }) => kind === 'ObservationEvent'))).toContain('MAP_ECHO:hi')
    await server.requestOrThrow('DELETE', `/api/conversations/${id}`)
    const file = `${server.directory}/mcp-server.cjs`.replace('/m', '/[m]')
    expect(
      await server.runCommand(
        `for i in $(seq 100); do pgrep -f '${file}' || break; sleep 0.1; done; pgrep -f '${file}' || true`,
      ),
    ).not.toMatch(/^\d+\n$/)
  },
  own,
)

mapCase(
  'F19.conversation-secrets-at-rest',
  'credentials of a conversation are sealed on disk',
  async () => {
    await using server = await OwnMapServer.open({
      isProcess: true,
      key: 'map-key-2',
      env: { SLIPWAY_SECRET_KEY: 'a-secret-key-of-the-map' },
    })
    const body = { command: 'true', env: { T: 'map-mcp-at-rest' }, enabled: false }
    await server.requestOrThrow('POST', stored('off'), { body })
    const { model } = await startFromSettings(server, [])
    await using _ = model
    await server.stop()
    expect(await filesWith(server, 'map-mcp-at-rest')).toEqual([])
    expect(server.output()).not.toContain('map-mcp-at-rest')
  },
  own,
)

mapCase(
  'F19.restart',
  'stored servers survive a restart',
  async () => {
    await using server = await OwnMapServer.open({
      key: 'map-key-2',
      env: { SLIPWAY_SECRET_KEY: 'a-secret-key-of-the-map' },
    })
    const body = { command: 'true', env: { T: 'map-mcp-kept' }, enabled: false }
    await server.requestOrThrow('POST', stored('kept'), { body })
    await server.restart()
    expect((await getServers('plaintext', server)).kept).toMatchObject(body)
  },
  own,
)

endFamily('F19', 28)
