import { readdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect } from 'vitest'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  heldReply,
  type Json,
  OwnMapServer,
  type OwnMapServerOptions,
  openModel,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const initKey = 'init-key-of-the-pool'
const own = { hasOwnServer: true }

/** A server that waits for its settings. */
async function openDormant(options: OwnMapServerOptions = {}): Promise<OwnMapServer> {
  const deferred = { SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: initKey }
  return await OwnMapServer.open({ ...options, env: { ...deferred, ...options.env } })
}

async function init(server: OwnMapServer, body: unknown, key: string | undefined = initKey) {
  const headers: Record<string, string> = key === undefined ? {} : { 'x-init-api-key': key }
  return await server.request<Json>('POST', '/api/init', { body, headers, isAnonymous: true })
}

async function initState(server: OwnMapServer): Promise<Json> {
  return (await server.request<Json>('GET', '/api/init', { isAnonymous: true })).body
}

/** A server that became ready by an init with these members. */
async function openReady(body: object, options: OwnMapServerOptions = {}): Promise<OwnMapServer> {
  const server = await openDormant(options)
  const found = await init(server, body)
  if (found.status !== 200) {
    await server[Symbol.asyncDispose]()
    throw new Error(`init answered ${found.status}: ${JSON.stringify(found.body)}`)
  }
  return server
}

const withKey = { headers: { 'x-session-api-key': 'user-key' } }

mapCase(
  'F03.dormant-boot',
  'a dormant server is alive and ready, and says its state without a key',
  async () => {
    await using server = await openDormant()
    expect(await server.request('GET', '/alive')).toMatchObject({ status: 200, body: { status: 'ok' } })
    expect(await server.request('GET', '/ready')).toMatchObject({ status: 200, body: { status: 'ready' } })
    expect(await initState(server)).toEqual({ state: 'dormant', error: null })
  },
  own,
)

mapCase(
  'F03.dormant-gates-api',
  'every other route is 503 with the reason in exception',
  async () => {
    await using server = await openDormant()
    const body = { command: 'true' }
    for (const [method, path] of [
      ['GET', '/api/settings'],
      ['GET', '/api/conversations/search'],
      ['GET', '/api/bash/bash_events/search'],
      ['POST', '/api/bash/execute_bash_command'],
    ] as const) {
      const found = await server.request<Json>(method, path, method === 'POST' ? { body } : {})
      expect(found).toMatchObject({ status: 503, body: { detail: 'Internal Server Error' } })
      expect(found.body.exception).toContain("deferred-init state 'dormant'")
      expect(found.body.exception).toContain('call POST /api/init first')
    }
    expect(await server.requestStatus('GET', `/api/conversations/${unknownId}/workspace`)).toBe(503)
  },
  own,
)

mapCase(
  'F03.init-key-auth',
  'init needs its key, checked before the body',
  async () => {
    await using server = await openDormant()
    for (const [body, key] of [
      [{}, ''],
      [{}, 'wrong'],
      [{ bogus: 1 }, 'wrong'],
    ] as const)
      expect((await init(server, body, key)).status).toBe(401)
    expect((await initState(server)).state).toBe('dormant')
  },
  own,
)

mapCase(
  'F03.init-validation',
  'unknown members and values out of range are 422',
  async () => {
    await using server = await openDormant()
    for (const [body, type] of [
      [{ bogus: 1 }, 'extra_forbidden'],
      [{ max_concurrent_runs: 0 }, 'greater_than_equal'],
    ] as const)
      expect(await init(server, body)).toMatchObject({ status: 422, body: { detail: [{ type }] } })
    expect((await initState(server)).state).toBe('dormant')
  },
  own,
)

differs(
  'F03.init-redacts-secret-input',
  'echoed input of a 422 hides secrets',
  'input in a 422',
  async () => {
    await using server = await openDormant()
    const found = await init(server, { webhooks: [{ headers: { Authorization: 'Bearer sentinel-7788' } }] })
    expect(found).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', 'webhooks', 0, 'base_url'] }] },
    })
    expect(JSON.stringify(found.body)).not.toContain('sentinel-7788')
  },
)

mapCase(
  'F03.init-failure-rollback',
  'an init that fails is 500 and may be tried again',
  async () => {
    await using server = await openDormant()
    const found = await init(server, { conversations_path: '/proc/cannot-create' })
    expect(found.status).toBe(500)
    expect(found.body.exception).toContain('cannot-create')
    const state = await initState(server)
    expect(state).toMatchObject({ state: 'dormant', error: expect.stringContaining('cannot-create') })
    expect(await server.requestStatus('GET', '/api/settings')).toBe(503)
    expect((await init(server, {})).status).toBe(200)
  },
  own,
)

mapCase(
  'F03.init-success',
  'conversations are stored where the init says',
  async () => {
    await using server = await openDormant()
    const path = join(server.home, 'delivered')
    expect(await init(server, { conversations_path: path })).toMatchObject({
      status: 200,
      body: { state: 'ready' },
    })
    expect(await initState(server)).toEqual({ state: 'ready', error: null })
    await server.createConversation()
    expect(await readdir(path)).not.toEqual([])
  },
  own,
)

mapCase(
  'F03.init-delivered-webhooks',
  'delivered webhooks receive conversations with the delivered key',
  async () => {
    const requests: { path: string; headers: Record<string, unknown> }[] = []
    const sink = createServer((request, response) => {
      requests.push({ path: String(request.url), headers: request.headers })
      request.resume()
      response.end('{}')
    })
    await new Promise<void>((done) => sink.listen(0, '127.0.0.1', done))
    try {
      const base_url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}` // it listens on a port
      const webhooks = [{ base_url, headers: { 'x-delivered': 'yes' } }]
      await using server = await openReady({ webhooks, session_api_keys: ['user-key'] })
      await server.requestOrThrow('POST', '/api/conversations', {
        body: server.conversationRequest(undefined),
        ...withKey,
      })
      await waitFor(
        async () => requests,
        (all) => all.some(({ path }) => path === '/conversations'),
      )
      expect(requests.find(({ path }) => path === '/conversations')?.headers).toMatchObject({
        'x-delivered': 'yes',
        'x-session-api-key': 'user-key',
      })
    } finally {
      sink.closeAllConnections()
      sink.close()
    }
  },
  own,
)

mapCase(
  'F03.init-enforces-session-keys',
  'the delivered key is needed afterwards',
  async () => {
    await using server = await openReady({ session_api_keys: ['user-key'] })
    const path = '/api/conversations/count'
    expect(await server.requestStatus('GET', path)).toBe(401)
    expect(await server.requestStatus('GET', path, { headers: { 'x-session-api-key': 'wrong' } })).toBe(401)
    expect(await server.requestStatus('GET', path, withKey)).toBe(200)
  },
  own,
)

mapCase(
  'F03.init-applies-env',
  'delivered variables reach commands',
  async () => {
    await using server = await openReady({ env: { DELIVERED_GREETING: 'hello' } })
    expect(await server.runCommand('printf %s "$DELIVERED_GREETING"')).toBe('hello')
  },
  own,
)

mapCase(
  'F03.init-keys-gate-bash-socket',
  'the delivered key opens the bash socket, another one does not',
  async () => {
    await using server = await openReady({ session_api_keys: ['user-key'] })
    for (const [session_api_key, isOpen] of [
      ['wrong', false],
      ['user-key', true],
    ] as const) {
      await using socket = server.openSocket('/sockets/bash-events', {})
      socket.socket.on('open', () => {
        socket.socket.send(JSON.stringify({ type: 'auth', session_api_key }))
        socket.socket.send(JSON.stringify({ command: 'echo hi' }))
      })
      if (isOpen) await waitForFrames(socket, (events) => events.some(({ kind }) => kind === 'BashOutput'))
      else expect(await socket.closed).toMatchObject({ code: 4001 })
    }
  },
  own,
)

mapCase(
  'F03.init-web-url-root-path',
  'the path of a delivered web address is the prefix of every route',
  async () => {
    await using server = await openReady({ web_url: 'https://agent.example/base/one' })
    expect(await server.requestStatus('GET', '/base/one/api/conversations/count')).toBe(200)
    const { body } = await server.request<Json>('GET', '/openapi.json')
    expect(body.servers).toEqual([{ url: '/base/one' }])
  },
  own,
)

mapCase(
  'F03.init-delivered-worktree-root',
  'worktrees are made below the delivered root',
  async () => {
    await using server = await openDormant()
    const root = join(server.home, 'worktrees')
    expect((await init(server, { conversation_worktree_root: root })).status).toBe(200)
    const repository = join(server.directory, 'repository')
    const git = `git -C ${repository} -c user.name=t -c user.email=t@localhost`
    await server.runCommand(
      `git init -q ${repository} && echo 1 > ${repository}/a && ${git} add . && ${git} commit -qm first`,
    )
    const { workspace } = await server.createConversation(undefined, {
      workspace: { kind: 'LocalWorkspace', working_dir: repository },
      worktree: true,
    })
    expect((workspace as { working_dir: string }).working_dir.startsWith(root)).toBe(true)
  },
  own,
)

mapCase(
  'F03.init-delivered-max-runs',
  'the delivered limit of runs is the limit',
  async () => {
    const held = heldReply()
    await using model = await openModel()
    model.replies = [held.reply(model)]
    await using server = await openReady({ max_concurrent_runs: 1 })
    const first = await server.createConversation(model)
    const second = await server.createConversation(model)
    for (const { id } of [first, second]) await server.sendMessage(id, 'Begin.')
    expect((await server.post(first.id, 'run')).status).toBe(200)
    await held.arrived
    expect((await server.post(second.id, 'run')).status).toBe(429)
    await server.post(first.id, 'interrupt')
    await server.waitForStatus(first.id, 'paused')
    expect((await server.post(second.id, 'run')).status).toBe(200)
    held.release()
  },
  own,
)

mapCase(
  'F03.init-delivered-cors-origins',
  'delivered origins pass a preflight',
  async () => {
    await using server = await openReady({ allow_cors_origins: ['https://pages.example'] })
    const headers = { origin: 'https://pages.example', 'access-control-request-method': 'GET' }
    const found = await server.request('OPTIONS', '/api/settings', { headers, isAnonymous: true })
    expect(found.headers.get('access-control-allow-origin')).toBe('https://pages.example')
  },
  own,
)

mapCase(
  'F03.init-second-call-400',
  'a second init is 400 with the delivered key and 401 with the one of the start',
  async () => {
    await using server = await openReady({ secret_key: 'a delivered secret key of enough characters' })
    expect((await init(server, { max_concurrent_runs: 5 }, initKey)).status).toBe(401)
    const found = await init(
      server,
      { max_concurrent_runs: 5 },
      'a delivered secret key of enough characters',
    )
    expect(found).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining('server already in state: ready') },
    })
  },
  own,
)

mapCase(
  'F03.init-open-without-secret',
  'without any key init is open once; then the first delivered key is its key',
  async () => {
    await using server = await OwnMapServer.open({ env: { SLIPWAY_DEFERRED_INIT: 'true' } })
    expect((await init(server, { session_api_keys: ['user-key'] }, '')).status).toBe(200)
    expect((await init(server, {}, '')).status).toBe(401)
    expect((await init(server, { max_concurrent_runs: 5 }, 'user-key')).status).toBe(400)
  },
  own,
)

mapCase(
  'F03.init-state-not-persisted',
  'after a restart the server is dormant again',
  async () => {
    await using server = await openReady({ session_api_keys: ['user-key'] })
    await server.restart()
    expect((await initState(server)).state).toBe('dormant')
    expect(await server.requestStatus('GET', '/api/settings', withKey)).toBe(503)
    expect((await init(server, { session_api_keys: ['user-key'] })).status).toBe(200)
    expect(await server.requestStatus('GET', '/api/settings', withKey)).toBe(200)
  },
  own,
)

mapCase(
  'F03.auth-before-gate',
  'a missing key is 401 before the gate',
  async () => {
    await using server = await openDormant({ key: 'boot-key' })
    expect(await server.requestStatus('GET', '/api/settings', { isAnonymous: true })).toBe(401)
    expect(await server.requestStatus('GET', '/api/settings')).toBe(503)
  },
  own,
)

mapCase(
  'F03.not-deferred-404',
  'a server that is not deferred has no init',
  async () => {
    await using server = await OwnMapServer.open({ key: 'boot-key' })
    expect(await server.request('GET', '/api/init')).toMatchObject({
      status: 404,
      body: { detail: expect.stringContaining('deferred_init=True') },
    })
    expect((await init(server, {}, 'wrong')).status).toBe(401)
    expect((await init(server, {}, 'boot-key')).status).toBe(404)
  },
  own,
)

endFamily('F03', 20)
