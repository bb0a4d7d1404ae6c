import { afterEach, expect } from 'vitest'
import { expectAnswer, expectUnauthorized, filesWith } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import { finishReply, OwnMapServer, openMapServer } from '../map-server.ts'
import { StoredDocument, withChangedCharacter } from '../stored-document.ts'
import { removeProfiles } from './remove-profiles.ts'

const map = openMapServer()
const base = '/api/llm/provider-connections'
/** What a case that failed has left. */
afterEach(() => removeProfiles(map))
const own = { hasOwnServer: true }
const keyEnv = { SLIPWAY_SECRET_KEY: 'the-first-secret-key-of-the-map' }
interface Connection {
  readonly id: string
  readonly display_name: string
  readonly [member: string]: unknown
}
const create = (more: object = {}, on: Pick<typeof map, 'request'> = map) => {
  const body = { display_name: 'map', provider: 'openai', api_key: 'map-connection-key', ...more }
  return expectAnswer<Connection>(on, 201, 'POST', base, { body })
}
const change = (id: string, body: object, status = 200, shape?: object) =>
  expectAnswer<Connection>(map, status, 'PATCH', `${base}/${id}`, { body }, shape)
const remove = (id: string, status = 200) => expectAnswer(map, status, 'DELETE', `${base}/${id}`)
const link = (name: string, id: string, more: object = {}, on: Pick<typeof map, 'requestOrThrow'> = map) =>
  on.requestOrThrow('POST', `/api/profiles/${name}`, {
    body: { llm: { model: 'openai/gpt-4o', provider_connection_id: id, ...more } },
  })
const activate = (name: string, on: Pick<typeof map, 'request'> = map) =>
  expectAnswer(on, 200, 'POST', `/api/profiles/${name}/activate`)
const activeLlm = async (on: Pick<typeof map, 'requestOrThrow'> = map) =>
  (
    await on.requestOrThrow<{ agent_settings: { llm: Record<string, unknown> } }>('GET', '/api/settings', {
      headers: { 'x-expose-secrets': 'plaintext' },
    })
  ).agent_settings.llm
/** Points the settings away from linked profiles, and deletes them. */
async function release(...names: readonly string[]): Promise<void> {
  await map.requestOrThrow('PATCH', '/api/settings', {
    body: {
      active_profile: null,
      agent_settings_diff: { llm: { provider_connection_id: null, api_key: null } },
    },
  })
  for (const name of names) await map.requestOrThrow('DELETE', `/api/profiles/${name}`)
}
const models = async (query: Record<string, string> = {}) =>
  (await map.requestOrThrow<{ models: string[] }>('GET', '/api/llm/models', { query })).models

mapCase('F23.acp-discovery-errors', 'a program that does not start is an error of the answer', async () => {
  await expectUnauthorized(map, ['POST', '/api/acp/models'])
  await expectAnswer(map, 422, 'POST', '/api/acp/models', { body: {} })
  const count = () => map.requestOrThrow<number>('GET', '/api/conversations/count')
  const before = await count()
  const agent_settings = { agent_kind: 'acp', acp_server: 'custom', acp_command: ['/nothing/there'] }
  for (const refresh of [false, true])
    await expectAnswer(
      map,
      200,
      'POST',
      '/api/acp/models',
      { body: { agent_settings, refresh } },
      { available_models: [], current_model_id: null, error: { code: 'ACPSpawnError' } },
    )
  expect(await count()).toBe(before)
})
mapCase('F23.auth-required', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['GET', '/api/llm/providers'],
    ['GET', '/api/llm/models'],
    ['GET', '/api/llm/models/verified'],
    ['GET', base],
    ['POST', base, { display_name: 'x', api_key: 'y' }],
    ['PATCH', `${base}/any`, { display_name: 'x' }],
    ['DELETE', `${base}/any`],
  )
})
mapCase('F23.providers', 'names of providers, sorted and once each', async () => {
  const { providers } = await map.requestOrThrow<{ providers: string[] }>('GET', '/api/llm/providers')
  expect(providers).toEqual(expect.arrayContaining(['deepseek', 'openai', 'anthropic']))
  expect(providers).toEqual([...new Set(providers)].sort())
})
mapCase('F23.models', 'all models, sorted and once each, none of Bedrock', async () => {
  const found = await models()
  expect(found).toEqual([...new Set(found)].sort())
  expect(found.filter((id) => id.startsWith('bedrock'))).toEqual([])
  expect(found.filter((id) => id.startsWith('deepseek/'))).not.toEqual([])
})
mapCase('F23.models-filter', 'one provider has its own ids only; an unknown one none', async () => {
  const found = await models({ provider: 'deepseek' })
  expect(found.length).toBeGreaterThan(0)
  expect(found.filter((id) => id.includes('/') && !id.startsWith('deepseek/'))).toEqual([])
  for (const id of await models({ provider: 'openrouter' })) expect(id).toMatch(/^openrouter\//)
  expect(await models({ provider: 'no-such-provider' })).toEqual([])
})
mapCase('F23.models-no-bedrock', 'no id is one of Bedrock only', async () => {
  for (const provider of ['deepseek', 'anthropic'])
    expect((await models({ provider })).filter((id) => /^[a-z]+\.[a-z].*:\d+$/.test(id))).toEqual([])
})
differs(
  'F23.verified-models',
  'the chosen models by provider, each once',
  'models to offer first',
  async () => {
    const answer = await map.requestOrThrow<{ models: Record<string, string[]> }>(
      'GET',
      '/api/llm/models/verified',
    )
    expect(Object.keys(answer.models)).toEqual(expect.arrayContaining(['anthropic', 'openai', 'deepseek']))
    for (const ids of Object.values(answer.models)) {
      expect(ids.length).toBeGreaterThan(0)
      expect(new Set(ids).size).toBe(ids.length)
    }
  },
)
mapCase('F23.catalog-ts-client', 'the published client reads the same catalog', async () => {
  const { LLMMetadataClient } = await import('@openhands/typescript-client/clients')
  const client = new LLMMetadataClient({
    host: map.url,
    ...(map.key === undefined ? {} : { apiKey: map.key }),
  })
  expect(await client.getModels()).toEqual(await models())
  expect(await client.getModels('deepseek')).toEqual(await models({ provider: 'deepseek' }))
  expect(await client.getProviders()).toContain('deepseek')
  expect(Object.keys(await client.getVerifiedModels())).toContain('deepseek')
  const stranger = new LLMMetadataClient({ host: map.url, apiKey: 'a-wrong-key' })
  await expect(stranger.getProviders()).rejects.toMatchObject({ status: 401 })
})
mapCase('F23.conn-create', 'the server makes the id and never shows the key', async () => {
  const made = await create({ provider: undefined })
  expect(made).toMatchObject({
    provider: 'custom',
    api_key_set: true,
    id: expect.stringMatching(/^[0-9a-f]{32}$/),
  })
  expect(made.created_at).toBe(made.updated_at)
  expect(JSON.stringify(made)).not.toContain('map-connection-key')
  const second = await create({ display_name: 'second' })
  const ids = (await map.requestOrThrow<Connection[]>('GET', base)).map(({ id }) => id)
  expect(ids.indexOf(made.id)).toBeLessThan(ids.indexOf(second.id))
  for (const { id } of [made, second]) await remove(id)
})
mapCase(
  'F23.conn-key-encrypted',
  'no stored file has the key',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: keyEnv })
    await create({}, server)
    await server.stop()
    expect(await filesWith(server, 'map-connection-key')).toEqual([])
  },
  own,
)
mapCase(
  'F23.no-cipher',
  'without any key a linked profile still applies the connection',
  async () => {
    await using server = await OwnMapServer.open()
    const { id } = await create({}, server)
    expect(JSON.stringify(await server.requestOrThrow('GET', base))).not.toContain('map-connection-key')
    await link('map-open', id, {}, server)
    await activate('map-open', server)
    expect((await activeLlm(server)).api_key).toBe('map-connection-key')
  },
  own,
)
mapCase('F23.conn-create-validation', 'missing, empty, too long and unknown members are 422', async () => {
  const before = await map.requestOrThrow('GET', base)
  const good = { display_name: 'map', provider: 'openai', api_key: 'k' }
  for (const body of [
    { display_name: 'map' },
    { ...good, api_key: '' },
    { api_key: 'k' },
    { ...good, display_name: '' },
    { ...good, provider: '' },
    { ...good, display_name: 'm'.repeat(129) },
    { ...good, extra_headers: {} },
    { ...good, id: 'mine' },
  ])
    expect([body, await map.requestStatus('POST', base, { body })]).toEqual([body, 422])
  expect(await map.requestOrThrow('GET', base)).toEqual(before)
})
mapCase('F23.conn-create-blank-key', 'a blank or masked key is 422', async () => {
  for (const api_key of ['   ', '**********'])
    await expectAnswer(map, 422, 'POST', base, { body: { display_name: 'map', provider: 'openai', api_key } })
})
mapCase('F23.linked-run', 'an agent runs with the key of the connection', async () => {
  const model = await map.openModel(finishReply())
  const { id } = await create({ base_url: `${model.url}/v1` })
  await link('map-linked', id, { api_key: 'stray-key' })
  await activate('map-linked')
  expect(await activeLlm()).toMatchObject({ api_key: 'map-connection-key', base_url: `${model.url}/v1` })
  const { agent_settings } = await map.requestOrThrow<{ agent_settings: object }>('GET', '/api/settings', {
    headers: { 'x-expose-secrets': 'encrypted' },
  })
  const made = await map.requestOrThrow<{ id: string }>('POST', '/api/conversations', {
    body: {
      agent_settings,
      secrets_encrypted: true,
      autotitle: false,
      workspace: { working_dir: map.directory },
    },
  })
  await map.sendMessage(made.id, 'Go.', true)
  await map.waitForStatus(made.id, 'finished')
  expect(model.requests[0]?.headers.authorization).toBe('Bearer map-connection-key')
  await release('map-linked')
  await remove(id)
})
mapCase(
  'F23.conn-update',
  'a change keeps id and key, and reaches the settings with an activation',
  async () => {
    const { id, created_at } = await create()
    await link('map-update', id)
    await change(id, { display_name: 'renamed', base_url: 'http://127.0.0.1:9/v1' }, 200, {
      id,
      created_at,
      display_name: 'renamed',
      api_key_set: true,
    })
    await activate('map-update')
    expect(await activeLlm()).toMatchObject({
      base_url: 'http://127.0.0.1:9/v1',
      api_key: 'map-connection-key',
    })
    await change(id, { base_url: null }, 200, { base_url: null })
    await activate('map-update')
    expect((await activeLlm()).base_url ?? null).toBe(null)
    await release('map-update')
    await remove(id)
  },
)
mapCase('F23.conn-update-validation', 'changes that cannot be meant are 422, unknown ids 404', async () => {
  const { id } = await create()
  const before = await map.requestOrThrow('GET', base)
  for (const body of [
    {},
    { api_key: null },
    { display_name: null },
    { provider: null },
    { display_name: '' },
    { extra: 1 },
  ])
    await change(id, body, 422)
  await change('0'.repeat(32), { display_name: 'x' }, 404, {
    detail: `Provider connection '${'0'.repeat(32)}' not found`,
  })
  expect(await map.requestOrThrow('GET', base)).toEqual(before)
  await remove(id)
})
mapCase('F23.conn-patch-blank-key', 'blank and masked keys replace nothing', async () => {
  const { id } = await create()
  await link('map-blank', id)
  for (const api_key of ['', '  ', '**********'])
    await map.request('PATCH', `${base}/${id}`, { body: { api_key } })
  await activate('map-blank')
  expect((await activeLlm()).api_key).toBe('map-connection-key')
  await release('map-blank')
  await remove(id)
})
mapCase('F23.conn-rotate-key', 'a new key reaches the settings with the next activation', async () => {
  const { id } = await create()
  await link('map-rotate', id)
  await activate('map-rotate')
  await change(id, { api_key: 'map-second-key' })
  expect((await activeLlm()).api_key).toBe('map-connection-key')
  await map.requestOrThrow('PATCH', '/api/settings', { body: { active_profile: 'map-rotate' } })
  expect((await activeLlm()).api_key).toBe('map-second-key')
  await release('map-rotate')
  await remove(id)
})
mapCase('F23.validate-linked-draft', 'a draft is checked with the key of its connection', async () => {
  const model = await map.openModel({ text: 'ok' })
  const { id } = await create({ base_url: `${model.url}/v1` })
  await expectAnswer(
    map,
    200,
    'POST',
    '/api/profiles/map-draft/validate',
    { body: { llm: { model: 'openai/gpt-4o', provider_connection_id: id } } },
    { valid: true },
  )
  expect(model.requests[0]?.headers.authorization).toBe('Bearer map-connection-key')
  await remove(id)
})
mapCase(
  'F23.persist-restart',
  'connections and links survive a restart',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: keyEnv })
    const { id } = await create({}, server)
    await link('map-kept', id, {}, server)
    const before = await server.requestOrThrow('GET', base)
    await server.restart()
    expect(await server.requestOrThrow('GET', base)).toEqual(before)
    await activate('map-kept', server)
    expect((await activeLlm(server)).api_key).toBe('map-connection-key')
  },
  own,
)
mapCase(
  'F23.strict-decrypt',
  'under another secret key all is 400; with the old one all is there',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: keyEnv })
    const { id } = await create({}, server)
    await link('map-strict', id, {}, server)
    await server.restart('SIGTERM', { SLIPWAY_SECRET_KEY: 'another-secret-key-of-the-map' })
    const good = { display_name: 'x', provider: 'openai', api_key: 'k' }
    for (const [method, path, body] of [
      ['GET', base, undefined],
      ['POST', base, good],
      ['PATCH', `${base}/${id}`, { display_name: 'x' }],
      ['DELETE', `${base}/${id}`, undefined],
    ] as const)
      await expectAnswer(server, 400, method, path, body === undefined ? {} : { body })
    await server.restart('SIGTERM', keyEnv)
    await activate('map-strict', server)
    expect((await activeLlm(server)).api_key).toBe('map-connection-key')
  },
  own,
)
mapCase('F23.delete-guard', 'a connection in use is not deleted', async () => {
  const { id } = await create()
  await link('map-guard', id)
  await activate('map-guard')
  const { detail } = await expectAnswer(map, 409, 'DELETE', `${base}/${id}`)
  expect(detail).toMatch(/map-guard/)
  await release('map-guard')
  await remove(id)
})
mapCase('F23.conn-delete', 'a deleted connection is gone', async () => {
  const { id } = await create()
  expect(await remove(id)).toMatchObject({ id, api_key_set: false })
  await remove(id, 404)
  await change(id, { display_name: 'x' }, 404)
  expect(JSON.stringify(await map.requestOrThrow('GET', base))).not.toContain(id)
})
mapCase('F23.conn-limit', 'the 65th is 409, until one is deleted', async () => {
  const made: string[] = []
  const present = (await map.requestOrThrow<Connection[]>('GET', base)).length
  for (let n = present; n < 64; n++) made.push((await create({ display_name: `map ${n}` })).id)
  const body = { display_name: 'more', provider: 'openai', api_key: 'k' }
  await expectAnswer(
    map,
    409,
    'POST',
    base,
    { body },
    {
      detail: 'Provider connection limit reached (64). Delete one before adding another.',
    },
  )
  await remove(String(made.pop()))
  made.push((await create()).id)
  for (const id of made) await remove(id)
})
mapCase(
  'F23.corrupt-file',
  'with a damaged file all is 400 and the file stays; restored, all is there',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    const { id } = await create({}, server)
    const file = new StoredDocument(server, 'provider-connections.sealed')
    const stored = await file.read()
    const body = { display_name: 'x', provider: 'openai', api_key: 'k' }
    for (const text of ['', '{"schema_version": 2}', stored.slice(0, 40), withChangedCharacter(stored)])
      await file.whileDamaged(text, async () => {
        await expectAnswer(server, 400, 'GET', base)
        await expectAnswer(server, 400, 'POST', base, { body })
        await expectAnswer(server, 400, 'PATCH', `${base}/${id}`, { body: { display_name: 'x' } })
        await expectAnswer(server, 400, 'DELETE', `${base}/${id}`)
      })
    await link('map-restored', id, {}, server)
    await activate('map-restored', server)
    expect((await activeLlm(server)).api_key).toBe('map-connection-key')
  },
  own,
)
const noLock = 'one server owns its data directory: there is no lock that another program could hold'
notApplicable('F23.store-busy', 'a lock held by another process', noLock)
notApplicable('F23.store-busy-responsive', 'other requests while a lock is held', noLock)

endFamily('F23', 27)
