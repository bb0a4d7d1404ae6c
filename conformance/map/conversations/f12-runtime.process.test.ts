import { expect } from 'vitest'
import { errorReply, type MockProvider } from '../../support/mock-provider.ts'
import { filesWith } from '../answers.ts'
import { endFamily, externalUrl, mapCase, notApplicable } from '../frame.ts'
import {
  finishReply,
  heldReply,
  type Json,
  type MapClient,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  unknownId,
  waitForFrames,
} from '../map-server.ts'
import { CredentialSourceServer } from './credential-source.ts'

const server = openMapServer()
const plain = { autotitle: false }
const available = { runtime_status: 'available', can_resume: true, runtime_error: null }
const own = { hasOwnServer: true }
const pausePath = '/api/conversations/prepare-for-sandbox-pause'
const binding = (id: string) => `/api/conversations/${id}/credential-bindings/CODEX_AUTH_JSON`

mapCase('F12.discovery', 'the document lists runtime routes; capabilities name bindings', async () => {
  const { paths } = await server.requestOrThrow<{ paths: Json }>('GET', '/openapi.json')
  expect(paths).toHaveProperty(['/api/conversations/{conversation_id}/runtime'])
  expect(paths).toHaveProperty(['/api/conversations/{conversation_id}/runtime/reprovision'])
  expect(Object.keys(paths).filter((path) => /sandbox-pause|credential-bindings/.test(path))).toEqual([])
  const { capabilities } = await server.requestOrThrow<{ capabilities: string[] }>('GET', '/server_info')
  expect(capabilities).toEqual(
    expect.arrayContaining([
      'credential_binding_v1',
      'credential_binding_readiness_probe_v1',
      'credential_binding_activation_guard_v1',
    ]),
  )
})

mapCase('F12.runtime-info', 'the runtime is available, the same in each view', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect(await server.requestOrThrow('GET', `/api/conversations/${id}/runtime`)).toEqual(available)
  expect((await server.getConversation(id)).runtime_info).toEqual(available)
  const { items } = await server.requestOrThrow<{ items: MapConversation[] }>(
    'GET',
    '/api/conversations/search',
  )
  expect(items.find((one) => one.id === id)?.runtime_info).toEqual(available)
  const [batch] = await server.requestOrThrow<MapConversation[]>('GET', '/api/conversations', {
    query: `ids=${id}`,
  })
  expect(batch?.runtime_info).toEqual(available)
})

mapCase('F12.runtime-reprovision', 'a new provision changes nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  await server.sendMessage(id, 'ONE')
  const before = await server.getEvents(id)
  expect(await server.post(id, 'runtime/reprovision', { any: 1 })).toMatchObject({
    status: 200,
    body: available,
  })
  expect(await server.getEvents(id)).toEqual(before)
})

mapCase('F12.runtime-errors', '404, 422 and 401', async () => {
  for (const [method, verb] of [
    ['GET', 'runtime'],
    ['POST', 'runtime/reprovision'],
  ] as const) {
    expect(await server.requestStatus(method, `/api/conversations/${unknownId}/${verb}`)).toBe(404)
    expect(await server.requestStatus(method, `/api/conversations/no-uuid/${verb}`)).toBe(422)
    expect(
      await server.requestStatus(method, `/api/conversations/${unknownId}/${verb}`, { isAnonymous: true }),
    ).toBe(401)
  }
})

// The published client has no calls for the runtime yet: its transport asks for their routes.
mapCase('F12.ts-client', 'the TypeScript client reads the runtime', async () => {
  const { HttpClient } = await import('@openhands/typescript-client')
  const { id } = await server.createConversation(undefined, plain)
  const client = new HttpClient({ baseUrl: server.url, apiKey: String(server.key) })
  const path = (of: string) => `/api/conversations/${of}/runtime`
  expect((await client.get(path(id))).data).toEqual(available)
  expect((await client.post(`${path(id)}/reprovision`)).data).toEqual(available)
  expect((await client.get(`/api/conversations/${id}`)).data).toMatchObject({ runtime_info: available })
  await expect(client.get(path(unknownId))).rejects.toMatchObject({ status: 404 })
  await expect(new HttpClient({ baseUrl: server.url }).get(path(id))).rejects.toMatchObject({ status: 401 })
})

mapCase(
  'F12.sandbox-pause-releases',
  'conversations are listed and readable after a pause; twice is the same',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id } = await other.createConversation(undefined, plain)
    await other.sendMessage(id, 'ONE')
    for (const _ of [1, 2])
      expect(await other.request('POST', pausePath)).toMatchObject({ status: 204, body: '' })
    expect(await other.requestOrThrow('GET', '/api/conversations/count')).toBe(1)
    expect((await other.getConversation(id)).execution_status).toBe('idle')
    expect(await other.requestStatus('POST', pausePath, { isAnonymous: true })).toBe(401)
  },
  own,
)

mapCase(
  'F12.runtime-cold',
  'the runtime of a conversation that is not loaded',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id } = await other.createConversation(undefined, plain)
    await other.request('POST', pausePath)
    expect(await other.requestOrThrow('GET', `/api/conversations/${id}/runtime`)).toEqual(available)
    await other.restart()
    expect(await other.requestOrThrow('GET', `/api/conversations/${id}/runtime`)).toEqual(available)
  },
  own,
)

mapCase(
  'F12.sandbox-pause-rehydrate',
  'a conversation is loaded again and runs',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const model = await server.openModel(finishReply())
    const { id } = await other.createConversation(model, plain)
    await other.sendMessage(id, 'ONE')
    const before = await other.getEvents(id)
    await other.request('POST', pausePath)
    expect(await other.getEvents(id)).toEqual(before)
    await other.sendMessage(id, 'TWO', true)
    await other.waitForStatus(id, 'finished')
  },
  own,
)

mapCase(
  'F12.sandbox-pause-running',
  'a model call is cancelled within 10 s, and the socket is told',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const held = heldReply()
    const model = await server.openModel()
    model.replies = [held.reply(model)]
    const { id } = await other.createConversation(model, plain)
    await using socket = other.openSocket(`/sockets/events/${id}`)
    await waitForFrames(socket, (frames) => frames.length > 0)
    await other.sendMessage(id, 'Begin.', true)
    await held.arrived
    const start = Date.now()
    expect(await other.requestStatus('POST', pausePath)).toBe(204)
    expect(Date.now() - start).toBeLessThan(10_000)
    held.release()
    expect((await other.getConversation(id)).execution_status).toBe('paused')
    const kinds = (await other.getEvents(id)).map(({ kind }) => kind)
    expect(kinds).toContain('PauseEvent')
    expect(kinds).toContain('InterruptEvent')
    expect(socket.events().map(({ value }) => value)).toContain('paused')
  },
  own,
)

mapCase(
  'F12.sandbox-pause-websocket',
  'sockets are closed or continue',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id } = await other.createConversation(undefined, plain)
    await using socket = other.openSocket(`/sockets/events/${id}`)
    await waitForFrames(socket, (frames) => frames.length > 0)
    await other.request('POST', pausePath)
    await other.sendMessage(id, 'AFTER')
    const told = waitForFrames(socket, (frames) => frames.some(({ kind }) => kind === 'MessageEvent'))
    await Promise.race([told, socket.closed])
  },
  { ...own, faultThere: 'open and silent' },
)

const codexAgent = { kind: 'ACPAgent', acp_command: ['codex-acp'], acp_server: 'codex' }
const sentinel = 'sentinel-codex-copy'
const ownCopy = { CODEX_AUTH_JSON: { kind: 'StaticSecret', value: sentinel } }

/** Binds the credential of a conversation; answers of a refusal have a body. */
async function bind(
  client: MapClient,
  id: string,
  url: string,
  headers?: Readonly<Record<string, string>>,
): Promise<{ status: number; body: Json }> {
  return await client.request<Json>('PUT', binding(id), { body: { url, headers } })
}

/** A conversation of an external agent that has the credential in its own secret. */
async function createCodex(client: MapClient, more: object = {}): Promise<string> {
  const { id } = await client.createConversation(undefined, {
    ...plain,
    agent: codexAgent,
    secrets: ownCopy,
    ...more,
  })
  return id
}

/** The names of the stored secrets; the reference shows them in a file alone. */
async function expectSecrets(client: MapClient, id: string, names: readonly string[]): Promise<void> {
  if (externalUrl !== undefined) return
  const { secret_registry } = await client.getConversation(id)
  expect(Object.keys(Object(Object(secret_registry).secret_sources))).toEqual(names)
}

/** What a conversation answers that may not run without its binding. */
async function expectRequired(client: MapClient, id: string): Promise<void> {
  const refusal = {
    status: 409,
    body: { detail: 'credential_binding_activation_required', retryable: true },
  }
  const path = `/api/conversations/${id}`
  expect(await client.request('GET', `${path}/events/search`)).toMatchObject(refusal)
  expect(await client.request('GET', `${path}/events/count`)).toMatchObject(refusal)
  expect(await client.request('POST', `${path}/run`)).toMatchObject(refusal)
  expect((await client.getConversation(id)).id).toBe(id)
  expect(await client.requestOrThrow('GET', `${path}/runtime`)).toEqual(available)
  for (const socketPath of [`/sockets/events/${id}`, `/sockets/session/${id}?after_seq=-1`]) {
    await using socket = client.openSocket(socketPath)
    expect(await socket.closed).toMatchObject({
      code: 1013,
      reason: 'credential_binding_activation_required',
    })
  }
}

mapCase('F12.binding-unsupported-secret', 'another name than that of the file is 404', async () => {
  await using source = await CredentialSourceServer.open()
  for (const name of ['GITHUB_TOKEN', 'codex_auth_json']) {
    const path = `/api/conversations/${unknownId}/credential-bindings/${name}`
    expect(await server.request('PUT', path, { body: { url: source.url } })).toMatchObject({
      status: 404,
      body: { detail: 'Not Found' },
    })
  }
  expect(source.requests).toEqual([])
})

mapCase('F12.binding-validation', 'invalid bindings are 422 without a probe', async () => {
  await using source = await CredentialSourceServer.open()
  const { url } = source
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`X-Map-${n}`, 'v']))
  const badHeaders = expect.stringContaining('Invalid credential binding headers')
  for (const [body, issue] of [
    [{ url, more: 1 }, { type: 'extra_forbidden' }],
    [{ headers: {} }, { type: 'missing' }],
    [{ url: '' }, { type: 'string_too_short' }],
    [{ url: `${url}/${'x'.repeat(4096)}` }, { type: 'string_too_long' }],
    [{ url, headers: { 'X-Map': '' } }, { msg: badHeaders }],
    [{ url, headers: many }, { msg: badHeaders }],
    [{ url, headers: { 'X-Map': 'v'.repeat(8193) } }, { msg: badHeaders }],
  ] as const) {
    const reply = await server.request('PUT', binding(unknownId), { body })
    expect(reply).toMatchObject({ status: 422, body: { detail: [issue] } })
  }
  const other = `/api/conversations/${unknownId}/credential-bindings/GITHUB_TOKEN`
  expect(await server.request('PUT', other, { body: {} })).toMatchObject({
    status: 422,
    body: { detail: [{ type: 'missing' }] },
  })
  expect(await server.request('PUT', binding('not-a-uuid'), { body: { url } })).toMatchObject({
    status: 422,
    body: { detail: [{ type: 'uuid_parsing' }] },
  })
  expect(await server.requestStatus('PUT', binding(unknownId), { body: { url }, isAnonymous: true })).toBe(
    401,
  )
  expect(source.requests).toEqual([])
})

mapCase('F12.binding-pending', 'a binding of an unknown conversation waits for it', async () => {
  await using source = await CredentialSourceServer.open()
  const id = crypto.randomUUID()
  expect((await bind(server, id, source.url, { Authorization: 'Bearer map-pending' })).status).toBe(204)
  expect(source.requests).toMatchObject([{ method: 'GET', headers: { authorization: 'Bearer map-pending' } }])
  expect(await server.requestStatus('GET', `/api/conversations/${id}`)).toBe(404)
})

mapCase('F12.binding-source-statuses', 'the answer of the source becomes the status', async () => {
  const rejected = { status: 403, body: { detail: 'Credential binding authorization was rejected' } }
  const invalid = { status: 422, body: { detail: 'Credential binding source is invalid' } }
  for (const [status, body, reply] of [
    [401, {}, rejected],
    [403, {}, rejected],
    [400, {}, invalid],
    [404, {}, invalid],
    [422, {}, invalid],
    [409, {}, { status: 409, body: { detail: 'Credential binding source changed' } }],
    [501, {}, { status: 501, body: { exception: '501: Credential binding source is unsupported' } }],
    [200, 'not-json', invalid],
    [200, { value: '{}' }, invalid],
    [200, { value: '{}', version: '' }, invalid],
    [200, { value: 1, version: 'v1' }, invalid],
  ] as const) {
    await using source = await CredentialSourceServer.open(status, body)
    expect(await bind(server, unknownId, source.url)).toMatchObject(reply)
    expect(source.requests).toHaveLength(1)
  }
  for (const url of ['ftp://127.0.0.1/cred', 'not a url'])
    expect(await bind(server, unknownId, url)).toMatchObject(invalid)
})

mapCase('F12.binding-source-unavailable', 'a source that fails is asked three times', async () => {
  const unavailable = { status: 502, body: { exception: '502: Credential binding source is unavailable' } }
  await using source = await CredentialSourceServer.open(503, {})
  for (const url of [source.url, 'http://127.0.0.1:9/cred']) {
    const start = performance.now()
    expect(await bind(server, unknownId, url)).toMatchObject(unavailable)
    expect(performance.now() - start).toBeGreaterThanOrEqual(740)
  }
  expect(source.requests).toHaveLength(3)
})

mapCase('F12.binding-native-too-late', 'a loaded conversation of another kind refuses', async () => {
  await using source = await CredentialSourceServer.open()
  const { id } = await server.createConversation(undefined, plain)
  await server.getEvents(id)
  expect(await bind(server, id, source.url)).toMatchObject({
    status: 409,
    body: { detail: 'Credential binding activation arrived after ACP initialization' },
  })
  expect((await server.getEvents(id)).length).toBeGreaterThanOrEqual(0)
})

mapCase(
  'F12.binding-native-cold',
  'a conversation of another kind never asks for a binding',
  async () => {
    await using source = await CredentialSourceServer.open()
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id } = await other.createConversation(undefined, plain)
    expect(await other.requestStatus('POST', pausePath)).toBe(204)
    expect([204, 409]).toContain((await bind(other, id, source.url)).status)
    await other.getEvents(id)
    expect(await other.requestStatus('POST', pausePath)).toBe(204)
    await other.getEvents(id)
    // Nor does one that is created with the id of a binding that waits.
    const waiting = crypto.randomUUID()
    expect((await bind(other, waiting, source.url)).status).toBe(204)
    await other.createConversation(undefined, { ...plain, conversation_id: waiting, secrets: ownCopy })
    await expectSecrets(other, waiting, ['CODEX_AUTH_JSON'])
    await other.requestStatus('POST', pausePath)
    await other.getEvents(waiting)
  },
  { ...own, faultThere: 'asked for after a pause' },
)

mapCase('F12.binding-live-acp', 'a binding replaces the stored secret', async () => {
  await using source = await CredentialSourceServer.open()
  const id = await createCodex(server)
  await expectSecrets(server, id, ['CODEX_AUTH_JSON'])
  expect((await bind(server, id, source.url, { Authorization: 'Bearer map-first' })).status).toBe(204)
  expect(source.requests).toMatchObject([{ headers: { authorization: 'Bearer map-first' } }])
  await expectSecrets(server, id, [])
  await server.getEvents(id)
})

mapCase(
  'F12.binding-rebind',
  'the same address again is accepted, another one refused',
  async () => {
    await using source = await CredentialSourceServer.open()
    await using other = await OwnMapServer.open({ key: 'k' })
    const id = await createCodex(other)
    for (const name of ['map-first-header', 'map-second-header']) {
      expect((await bind(other, id, source.url, { Authorization: name })).status).toBe(204)
      expect(source.requests.at(-1)?.headers.authorization).toBe(name)
    }
    expect(await bind(other, id, `${source.url}/other`)).toMatchObject({
      status: 409,
      body: { detail: 'Credential binding activation arrived after ACP initialization' },
    })
    for (const text of ['map-first-header', 'map-second-header', sentinel])
      expect(await filesWith(other, text)).toEqual([])
  },
  own,
)

mapCase(
  'F12.binding-required-after-pause',
  'after a pause the binding is asked for',
  async () => {
    await using source = await CredentialSourceServer.open()
    await using other = await OwnMapServer.open({ key: 'k' })
    const id = await createCodex(other)
    expect((await bind(other, id, source.url)).status).toBe(204)
    await other.getEvents(id)
    expect(await other.requestStatus('POST', pausePath)).toBe(204)
    await expectRequired(other, id)
    expect((await bind(other, id, source.url)).status).toBe(204)
    await other.getEvents(id)
  },
  own,
)

mapCase(
  'F12.binding-required-after-restart',
  'after a restart too',
  async () => {
    await using source = await CredentialSourceServer.open()
    await using other = await OwnMapServer.open({ key: 'k' })
    const id = await createCodex(other)
    expect((await bind(other, id, source.url)).status).toBe(204)
    await other.restart()
    await expectRequired(other, id)
    expect((await bind(other, id, source.url)).status).toBe(204)
    await other.getEvents(id)
    expect(await other.requestStatus('POST', pausePath)).toBe(204)
    await expectRequired(other, id)
    expect(await other.requestStatus('DELETE', `/api/conversations/${id}`)).toBe(200)
    expect(await other.requestStatus('GET', `/api/conversations/${id}`)).toBe(404)
  },
  own,
)

mapCase('F12.binding-pending-on-create', 'a waiting binding is taken at the creation', async () => {
  await using source = await CredentialSourceServer.open()
  const id = crypto.randomUUID()
  expect((await bind(server, id, source.url)).status).toBe(204)
  expect(await createCodex(server, { conversation_id: id })).toBe(id)
  await expectSecrets(server, id, [])
  await server.getEvents(id)
  expect(await server.requestStatus('POST', pausePath)).toBe(204)
  await expectRequired(server, id)
})

mapCase('F12.binding-pending-cleared', 'a pause drops waiting bindings', async () => {
  await using source = await CredentialSourceServer.open()
  const id = crypto.randomUUID()
  expect((await bind(server, id, source.url)).status).toBe(204)
  expect(await server.requestStatus('POST', pausePath)).toBe(204)
  expect(await createCodex(server, { conversation_id: id })).toBe(id)
  await expectSecrets(server, id, ['CODEX_AUTH_JSON'])
  await server.getEvents(id)
})

mapCase('F12.binding-profile-scope', 'a profile without the secret refuses the binding', async () => {
  await using source = await CredentialSourceServer.open()
  const path = '/api/agent-profiles/map-without-secrets'
  const profile = { agent_kind: 'acp', acp_server: 'codex', secret_refs: [] }
  expect(await server.requestStatus('POST', path, { body: profile })).toBe(201)
  const { profile: saved } = await server.requestOrThrow<{ profile: { id: string } }>('GET', path)
  const { id } = await server.createConversation(undefined, {
    ...plain,
    agent: undefined,
    agent_profile_id: saved.id,
  })
  expect(await bind(server, id, source.url)).toMatchObject({
    status: 403,
    body: { detail: 'Credential binding authorization was rejected' },
  })
  await server.getEvents(id)
  expect(await server.requestStatus('POST', pausePath)).toBe(204)
  await server.getEvents(id)
  await server.request('DELETE', path)
})

mapCase(
  'F12.runtime-launched-profile',
  'the profile of the environment is that of its conversations',
  async () => {
    const launched = { agent_profile_id: unknownId, revision: 7, secret_refs: ['MAP_ALLOWED'] }
    const env = { OH_RUNTIME_LAUNCHED_PROFILE: JSON.stringify(launched) }
    await using other = await OwnMapServer.open({ key: 'k', env })
    const { id } = await other.createConversation(undefined, plain)
    expect((await other.getConversation(id)).launched_agent_profile).toEqual(launched)
    await other.restart()
    expect((await other.getConversation(id)).launched_agent_profile).toEqual(launched)
    const profile = { agent_kind: 'openhands', secret_refs: ['MAP_OWN'] }
    await other.requestOrThrow('POST', '/api/profiles/map-model', { body: { llm: { model: 'openai/m' } } })
    const profilePath = '/api/agent-profiles/map-own'
    await other.requestOrThrow('POST', profilePath, { body: { ...profile, llm_profile_ref: 'map-model' } })
    const { profile: saved } = await other.requestOrThrow<{ profile: Json & { id: string } }>(
      'GET',
      profilePath,
    )
    const body = {
      ...{ ...plain, agent_profile_id: saved.id },
      workspace: { kind: 'LocalWorkspace', working_dir: other.directory },
    }
    const own = await other.requestOrThrow<MapConversation>('POST', '/api/conversations', { body })
    expect(own.launched_agent_profile).toMatchObject({
      agent_profile_id: saved.id,
      secret_refs: ['MAP_OWN'],
    })
  },
  own,
)

const rejected = errorReply(401, { error: { message: 'Bad key', type: 'invalid_request_error' } })

/** A server with managed keys for the models of the providers, and the source of the keys. */
async function openManaged(...providers: readonly MockProvider[]) {
  const source = await server.openModel()
  source.bodyForGet = 'map-fresh-key\n'
  const env = {
    OH_LLM_API_KEY_REFRESH_URL: `${source.url}/key`,
    OH_LLM_API_KEY_REFRESH_BASE_URLS: providers.map(({ url }) => `${url}/v1/`).join(','),
    OH_LLM_API_KEY_REFRESH_HEADERS: `{"X-Map": "\${MAP_REFRESH_VALUE}"}`,
    MAP_REFRESH_VALUE: 'map-refresh-header',
    SLIPWAY_LOG_LEVEL: 'info',
  }
  return { source, other: await OwnMapServer.open({ key: 'k', env, isProcess: true }) }
}

const keysOf = ({ requests }: MockProvider) => requests.map(({ headers }) => headers.authorization)

mapCase(
  'F12.managed-key-refresh',
  'a rejected key is fetched again once',
  async () => {
    const model = await server.openModel(rejected, finishReply())
    const { source, other } = await openManaged(model)
    await using _ = other
    const { id } = await other.createConversation(model, plain)
    await other.sendMessage(id, 'Begin.', true)
    await other.waitForStatus(id, 'finished')
    expect(source.gets).toMatchObject([{ path: '/key', headers: { 'x-map': 'map-refresh-header' } }])
    expect(keysOf(model)).toEqual(['Bearer sk-far', 'Bearer map-fresh-key'])
    await other.stop()
    for (const secret of ['map-fresh-key', 'map-refresh-header']) {
      expect(await filesWith(other, secret)).toEqual([])
      expect(other.output()).not.toContain(secret)
    }
  },
  own,
)

mapCase(
  'F12.managed-key-scope',
  'only for listed addresses',
  async () => {
    const [model, foreign] = [await server.openModel(), await server.openModel()]
    const { source, other } = await openManaged(model)
    await using _ = other
    const run = async (provider: MockProvider, status: string) => {
      provider.replies = [rejected, finishReply()]
      const { id } = await other.createConversation(provider, plain)
      await other.sendMessage(id, 'Begin.', true)
      await other.waitForStatus(id, status)
      return await other.getEvents(id, { kind: 'ConversationErrorEvent' })
    }
    expect(await run(model, 'finished')).toEqual([])
    expect(await run(foreign, 'error')).toMatchObject([{ code: 'LLMAuthenticationError' }])
    expect(keysOf(foreign)).toEqual(['Bearer sk-far'])
    expect(source.gets).toHaveLength(1)
    await other.restart('SIGTERM', { OH_LLM_API_KEY_REFRESH_BASE_URLS: '' })
    expect(await run(model, 'error')).toMatchObject([{ code: 'LLMAuthenticationError' }])
    expect(source.gets).toHaveLength(1)
    expect(other.output()).toContain('stays off')
  },
  own,
)

mapCase(
  'F12.managed-key-switch',
  'also after a switch',
  async () => {
    const model = await server.openModel(rejected, finishReply(), rejected, finishReply())
    const { source, other } = await openManaged(model)
    await using _ = other
    const { id } = await other.createConversation(model, plain)
    await other.sendMessage(id, 'One.', true)
    await other.waitForStatus(id, 'finished')
    const llm = model.llm('chat', { api_key: 'sk-switched', usage_id: 'switched' })
    expect(await other.post(id, 'switch_llm', { llm })).toMatchObject({ status: 200 })
    await other.sendMessage(id, 'Two.', true)
    await other.waitForEvent(
      id,
      ({ kind, value }) => kind === 'ConversationStateUpdateEvent' && value === 'running',
    )
    await other.waitForStatus(id, 'finished')
    expect(source.gets).toHaveLength(2)
    expect(keysOf(model).slice(2)).toEqual(['Bearer sk-switched', 'Bearer map-fresh-key'])
  },
  own,
)

for (const id of ['F12.docker-runtime-contract', 'F12.docker-runtime'] as const)
  notApplicable(
    id,
    'one container for each conversation',
    'containers are the work of the sandbox server, not of the agent server',
  )

endFamily('F12', 30)
