import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { type StartedServer, startAgentServer } from '../support/agent-server.ts'
import { openServerInProcess } from '../support/server-in-process.ts'

/** A server that starts without its settings and receives them over HTTP (wire 1.21). */

const initKey = 'init-key-of-the-control-plane'
const deferredEnv = { SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: initKey }
const settings = {
  session_api_keys: ['session-key-one', 'session-key-two'],
  secret_key: 'a secret key of enough characters',
  web_url: 'https://agent.example/base',
  allow_cors_origins: ['https://pages.example'],
  max_concurrent_runs: 3,
  env: { GREETING: 'hello there', MY_TOKEN: 'token-that-nobody-sees' },
  webhooks: null,
  telemetry: { unknown: true },
}

type OpenServer = (data: string, env: Readonly<Record<string, string>>) => Promise<StartedServer>

async function openDeferredServer(
  env: Readonly<Record<string, string>> = deferredEnv,
  open: OpenServer = openServerInProcess,
) {
  const data = await mkdtemp(join(tmpdir(), 'slipway-init-'))
  let server = await open(data, env)
  const call = async (
    method: string,
    path: string,
    { body, ...headers }: { readonly body?: unknown; readonly [header: string]: unknown } = {},
  ) => {
    const response = await fetch(server.url + path, {
      method,
      headers: {
        ...(headers as Record<string, string>),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? '' : JSON.parse(text), headers: response.headers }
  }
  return {
    call,
    init: (body: unknown, key: string | undefined = initKey) =>
      call('POST', '/api/init', { body, ...(key === undefined ? {} : { 'x-init-api-key': key }) }),
    socket: (path: string, headers: Record<string, string> = {}) =>
      new WebSocket(server.url.replace('http', 'ws') + path, { headers }),
    output: () => server.output(),
    async restart() {
      await server.stop()
      server = await open(data, env)
    },
    async [Symbol.asyncDispose]() {
      await server.stop()
      await rm(data, { recursive: true })
    },
  }
}

const sessionKeyHeader = { 'x-session-api-key': 'session-key-two' }

test('before init only health, the API description and init answer; afterwards everything does', async () => {
  await using it = await openDeferredServer()
  const { call } = it
  for (const path of ['/alive', '/health', '/server_info', '/', '/openapi.json'])
    expect((await call('GET', path)).status).toBe(200)
  expect(await call('GET', '/ready')).toMatchObject({ status: 200, body: { status: 'ready' } })
  const closed = [
    '/api/conversations/search',
    '/api/init/x',
    '/api/nothing',
    '/file/create_directory',
    '/metrics',
  ]
  for (const path of closed)
    expect(await call('GET', path, sessionKeyHeader)).toMatchObject({
      status: 503,
      body: { exception: expect.stringContaining("deferred-init state 'dormant'") },
    })
  expect((await call('POST', '/api/conversations', { body: '{' })).status).toBe(503)
  for (const path of ['/sockets/bash-events', '/sockets/events/00000000-0000-4000-8000-000000000000'])
    expect(await upgradeStatus(it.socket(path))).toBe(503)

  expect(await call('GET', '/api/init')).toMatchObject({
    status: 200,
    body: { state: 'dormant' },
  })
  expect(await it.init(settings)).toMatchObject({ status: 200, body: { state: 'ready' } })
  expect(await call('GET', '/ready')).toMatchObject({ status: 200, body: { status: 'ready' } })
  expect((await call('GET', '/api/conversations/search', sessionKeyHeader)).status).toBe(200)
  expect((await call('GET', '/api/conversations/search')).status).toBe(401)
  expect((await call('GET', '/api/conversations/search', { 'x-session-api-key': initKey })).status).toBe(401)
  const socket = it.socket('/sockets/bash-events', sessionKeyHeader)
  await once(socket, 'open')
  socket.terminate()
})

test('init requires its key, and refuses without details', async () => {
  await using it = await openDeferredServer()
  for (const key of ['', 'wrong', `${initKey}x`]) {
    expect(await it.init(settings, key)).toMatchObject({ status: 401, body: { detail: 'Unauthorized' } })
    expect(await it.init('{', key)).toMatchObject({ status: 401 })
  }
  expect((await it.call('POST', '/api/init', { body: settings })).status).toBe(401)
  expect((await it.call('GET', '/api/init')).body.state).toBe('dormant')
})

test('a repeated init with the same settings succeeds, also concurrently; other settings are refused', async () => {
  await using it = await openDeferredServer()
  const { env, ...rest } = settings
  const reordered = { env: { MY_TOKEN: env.MY_TOKEN, GREETING: env.GREETING }, ...rest }
  const answers = await Promise.all([it.init(settings), it.init(reordered), it.init(settings)])
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  expect((await it.init(settings)).status).toBe(200)
  for (const other of [{}, { ...settings, session_api_keys: ['another'] }])
    for (const [key, status] of [
      [settings.secret_key, 400],
      [initKey, 401],
    ] as const)
      expect(await it.init(other, key)).toMatchObject({ status, body: { detail: expect.any(String) } })
  expect((await it.call('GET', '/api/conversations/search', { 'x-session-api-key': 'another' })).status).toBe(
    401,
  )
})

test('the settings take effect: tool environment, origins, redacted secrets', async () => {
  await using it = await openDeferredServer()
  await it.init(settings)
  const command = 'echo $GREETING $MY_TOKEN; env'
  const { body } = await it.call('POST', '/api/bash/execute_bash_command', {
    ...sessionKeyHeader,
    body: { command },
  })
  expect(body.stdout).toContain('hello there <secret-hidden>')
  expect(body.stdout).not.toMatch(/session-key|secret key of|init-key|token-that/)
  for (const origin of ['https://pages.example', 'https://agent.example']) {
    const { headers } = await it.call('GET', '/alive', { origin })
    expect(headers.get('access-control-allow-origin')).toBe(origin)
  }
  const foreign = await it.call('GET', '/alive', { origin: 'https://other.example' })
  expect(foreign.headers.get('access-control-allow-origin')).toBe(null)
})

test('invalid settings are refused with their location, and valid ones are accepted afterwards', async () => {
  await using it = await openDeferredServer()
  for (const [body, loc] of [
    [{ secret_key: 'short' }, ['body', 'secret_key']],
    [{ session_api_keys: ['a b'] }, ['body', 'session_api_keys', 0]],
    [{ webhooks: [{}] }, ['body', 'webhooks', 0, 'base_url']],
    [{ env: { 'A=B': 'x' } }, ['body', 'env', 'A=B']],
    [{ env: { A: 'x\0' } }, ['body', 'env', 'A']],
    [{ max_concurrent_runs: 0 }, ['body', 'max_concurrent_runs']],
    [{ web_url: 'javascript:1' }, ['body', 'web_url']],
    [{ web_url: 'https://host/a b/' }, ['body', 'web_url']],
    [{ conversations_path: 'relative' }, ['body', 'conversations_path']],
    [{ unknown: 1 }, ['body', 'unknown']],
  ] as const)
    expect(await it.init(body), JSON.stringify(body)).toMatchObject({
      status: 422,
      body: { detail: [{ loc }] },
    })
  expect((await it.init('{')).status).toBe(422)
  expect((await it.call('GET', '/api/init')).body.state).toBe('dormant')
  expect((await it.init({})).status).toBe(200)
})

test('after a restart the server waits again, and with the same settings all data is there', async () => {
  await using it = await openDeferredServer(deferredEnv, startAgentServer)
  await it.init(settings)
  await it.call('POST', '/api/profiles/p', {
    ...sessionKeyHeader,
    body: { llm: { model: 'm', api_key: 'sk-123456' } },
  })
  await it.restart()
  expect((await it.call('GET', '/api/profiles/p', sessionKeyHeader)).status).toBe(503)
  await it.init(settings)
  const profile = await it.call('GET', '/api/profiles/p', sessionKeyHeader)
  expect(profile).toMatchObject({ status: 200, body: { api_key_set: true } })
  expect(it.output()).not.toMatch(/session-key|secret key of|token-that/)
})

test('without an init key the secret key is the init key', async () => {
  const key = 'secret key of sixteen or more'
  await using it = await openDeferredServer({ SLIPWAY_DEFERRED_INIT: 'true', OH_SECRET_KEY: key })
  expect((await it.init({}, 'wrong')).status).toBe(401)
  expect((await it.init({}, key)).status).toBe(200)
})

test('a server without deferred init has no init route', async () => {
  await using it = await openDeferredServer({})
  expect((await it.call('GET', '/api/init')).status).toBe(404)
  expect((await it.init({})).status).toBe(404)
})

test('a server without an init key or a secret key does not start', async () => {
  const data = await mkdtemp(join(tmpdir(), 'slipway-init-'))
  for (const key of [{}, { SLIPWAY_SESSION_API_KEY: 'a-session-key' }]) {
    const starting = startAgentServer(data, { SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_NO_KEY: '', ...key })
    await expect(starting).rejects.toThrow('SLIPWAY_DEFERRED_INIT needs SLIPWAY_INIT_API_KEY')
  }
  await rm(data, { recursive: true })
})

test('a server on a public address does not start without an init key', async () => {
  const data = await mkdtemp(join(tmpdir(), 'slipway-init-'))
  const starting = startAgentServer(data, { SLIPWAY_DEFERRED_INIT: 'true' }, ['--host', '0.0.0.0'])
  await expect(starting).rejects.toThrow('Refusing to listen')
  await rm(data, { recursive: true })
})

test('session keys are also read from the variables of other servers', async () => {
  await using it = await openDeferredServer({
    OH_SESSION_API_KEYS_0: 'first',
    OH_SESSION_API_KEYS_1: 'second',
    SESSION_API_KEY: 'old',
  })
  const status = async (key: string) =>
    (await it.call('GET', '/api/conversations/count', { 'x-session-api-key': key })).status
  expect([await status('first'), await status('second'), await status('old')]).toEqual([200, 200, 401])
})

test('a server answers on a Unix socket, and removes it on exit', async () => {
  const data = await mkdtemp(join(tmpdir(), 'slipway-init-'))
  const socketPath = join(data, 'server.sock')
  const server = await startAgentServer(join(data, 'data'), {}, ['--socket', socketPath])
  expect(server.url).toBe(`http+unix://${encodeURIComponent(socketPath)}`)
  const call = request({ socketPath, path: '/ready', headers: { host: 'localhost' } })
  call.end()
  const [response] = await once(call, 'response')
  expect(response.statusCode).toBe(200)
  response.resume()
  expect(await server.stop()).toBe(0)
  await expect(rm(socketPath)).rejects.toThrow('ENOENT')
  await rm(data, { recursive: true })
})

/** The status of a refused upgrade. */
async function upgradeStatus(socket: WebSocket): Promise<number> {
  socket.on('error', () => {})
  const [, response] = await once(socket, 'unexpected-response')
  socket.terminate()
  return response.statusCode
}
