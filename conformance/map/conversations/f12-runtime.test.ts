import { expect } from 'vitest'
import { errorReply, type MockProvider } from '../../support/mock-provider.ts'
import { filesWith } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  finishReply,
  heldReply,
  type Json,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  unknownId,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }
const available = { runtime_status: 'available', can_resume: true, runtime_error: null }
const own = { hasOwnServer: true }
const pausePath = '/api/conversations/prepare-for-sandbox-pause'
const binding = (id: string) => `/api/conversations/${id}/credential-bindings/CODEX_AUTH_JSON`

/** Bindings keep credential files of external agents in step with their source; there are none here. */
const hasNoBindings = async () => {
  const { capabilities } = await server.requestOrThrow<{ capabilities: string[] }>('GET', '/server_info')
  expect(capabilities.filter((name) => name.startsWith('credential_binding'))).toEqual([])
  const body = { url: 'http://127.0.0.1:9/' }
  expect(await server.requestStatus('PUT', binding(unknownId), { body })).toBe(404)
}

differs(
  'F12.discovery',
  'the document lists runtime routes; capabilities name bindings',
  'credential bindings of external agents',
  async () => {
    const { paths } = await server.requestOrThrow<{ paths: Json }>('GET', '/openapi.json')
    expect(paths).toHaveProperty(['/api/conversations/{conversation_id}/runtime'])
    expect(paths).toHaveProperty(['/api/conversations/{conversation_id}/runtime/reprovision'])
    await hasNoBindings()
  },
)

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
  'sockets are closed or go on',
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

for (const [id, promise] of [
  ['F12.binding-unsupported-secret', 'another name than that of the file is 404'],
  ['F12.binding-validation', 'invalid bindings are 422 without a probe'],
  ['F12.binding-pending', 'a binding of an unknown conversation waits for it'],
  ['F12.binding-source-statuses', 'the answer of the source becomes the status'],
  ['F12.binding-source-unavailable', 'a source that fails is asked three times'],
  ['F12.binding-native-too-late', 'a loaded conversation of another kind refuses'],
  ['F12.binding-native-cold', 'a conversation of another kind never asks for a binding'],
  ['F12.binding-live-acp', 'a binding replaces the stored secret'],
  ['F12.binding-rebind', 'the same address again is accepted, another one refused'],
  ['F12.binding-required-after-pause', 'after a pause the binding is asked for'],
  ['F12.binding-required-after-restart', 'after a restart too'],
  ['F12.binding-pending-on-create', 'a waiting binding is taken at the creation'],
  ['F12.binding-pending-cleared', 'a pause drops waiting bindings'],
  ['F12.binding-profile-scope', 'a profile without the secret refuses the binding'],
] as const)
  differs(id, promise, 'credential bindings of external agents', hasNoBindings)

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
  return { source, other: await OwnMapServer.open({ key: 'k', env }) }
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
