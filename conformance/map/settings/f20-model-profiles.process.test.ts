import { afterEach, expect } from 'vitest'
import { errorReply } from '../../support/mock-provider.ts'
import { expectAnswer, expectUnauthorized, filesWith } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import { finishReply, type Json, OwnMapServer, openMapServer } from '../map-server.ts'
import { StoredDocument } from '../stored-document.ts'
import { removeProfiles } from './remove-profiles.ts'

const map = openMapServer()
const base = '/api/profiles'
/** What a case that failed has left. */
afterEach(() => removeProfiles(map))
const own = { hasOwnServer: true }
const keyEnv = { SLIPWAY_SECRET_KEY: 'the-first-secret-key-of-the-map' }
type Server = Pick<typeof map, 'request' | 'requestOrThrow'>
const llm = { model: 'openai/gpt-4o', api_key: 'map-profile-key' }
const save = (name: string, more: object = {}, status = 201, on: Server = map, rest: object = {}) =>
  expectAnswer(on, status, 'POST', `${base}/${name}`, { body: { llm: { ...llm, ...more }, ...rest } })
const remove = (name: string) => expectAnswer(map, 200, 'DELETE', `${base}/${name}`)
const activate = (name: string, status = 200, shape?: object, on: Server = map) =>
  expectAnswer(on, status, 'POST', `${base}/${name}/activate`, {}, shape)
interface Profile {
  readonly config: Json
  readonly api_key_set: boolean
}
const read = (name: string, expose?: string, on: Server = map) =>
  on.requestOrThrow<Profile>('GET', `${base}/${name}`, {
    ...(expose === undefined ? {} : { headers: { 'x-expose-secrets': expose } }),
  })
interface List {
  readonly profiles: readonly (Json & { readonly name: string })[]
  readonly active_profile: string | null
}
const list = (on: Server = map) => on.requestOrThrow<List>('GET', base)
const entry = async (name: string) => (await list()).profiles.find((one) => one.name === name)
interface Settings {
  readonly agent_settings: { readonly llm?: Json }
  readonly active_profile: string | null
}
const settings = (on: Server = map) =>
  on.requestOrThrow<Settings>('GET', '/api/settings', { headers: { 'x-expose-secrets': 'plaintext' } })
const patch = (body: object) => map.requestOrThrow('PATCH', '/api/settings', { body })
const validate = (config: object, shape: object) =>
  expectAnswer(map, 200, 'POST', `${base}/map-draft/validate`, { body: { llm: config } }, shape)
const connect = (more: object = {}) =>
  map.requestOrThrow<{ id: string }>('POST', '/api/llm/provider-connections', {
    body: { display_name: 'map', provider: 'openai', api_key: 'map-linked-key', ...more },
  })

mapCase('F20.auth-required', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['GET', base],
    ['GET', `${base}/map`],
    ['POST', `${base}/map`, { llm }],
    ['POST', `${base}/map/validate`, { llm }],
    ['DELETE', `${base}/map`],
    ['POST', `${base}/map/rename`, { new_name: 'x' }],
    ['POST', `${base}/map/activate`],
  )
})
mapCase('F20.save', 'a saved profile is listed by its members and read back', async () => {
  expect(await save('map-save')).toMatchObject({ name: 'map-save', message: "Profile 'map-save' saved" })
  expect(await entry('map-save')).toEqual({
    name: 'map-save',
    model: 'openai/gpt-4o',
    base_url: null,
    provider_connection_id: null,
    provider_connection_broken: false,
    api_key_set: true,
  })
  expect((await read('map-save')).config).toMatchObject({ model: 'openai/gpt-4o' })
  await remove('map-save')
})
mapCase(
  'F20.key-encrypted-at-rest',
  'no stored file has the key',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: keyEnv })
    await save('map-rest', {}, 201, server)
    await server.stop()
    expect(await filesWith(server, 'map-profile-key')).toEqual([])
  },
  own,
)
mapCase('F20.get-secrets', 'the key is hidden, plain or sealed as asked', async () => {
  await save('map-get')
  expect(await read('map-get')).toMatchObject({ api_key_set: true, config: { api_key: null } })
  expect((await read('map-get', 'plaintext')).config.api_key).toBe('map-profile-key')
  for (const mode of ['encrypted', 'true'])
    expect((await read('map-get', mode)).config.api_key).toMatch(/^gAAAAA/)
  await expectAnswer(map, 400, 'GET', `${base}/map-get`, { headers: { 'x-expose-secrets': 'yes' } })
  await remove('map-get')
})
mapCase('F20.save-encrypted-roundtrip', 'a sealed key posted back is the key', async () => {
  await save('map-round')
  await save('map-round', { api_key: (await read('map-round', 'encrypted')).config.api_key })
  expect((await read('map-round', 'plaintext')).config.api_key).toBe('map-profile-key')
  await remove('map-round')
})
mapCase('F20.save-without-secrets', 'include_secrets false stores no key', async () => {
  await save('map-bare', {}, 201, map, { include_secrets: false })
  expect((await entry('map-bare'))?.api_key_set).toBe(false)
  expect(await read('map-bare', 'plaintext')).toMatchObject({ api_key_set: false, config: { api_key: null } })
  await remove('map-bare')
})
mapCase('F20.not-found', 'unknown names are 404', async () => {
  const detail = { detail: "Profile 'map-none' not found" }
  await expectAnswer(map, 404, 'GET', `${base}/map-none`, {}, detail)
  await activate('map-none', 404, detail)
  for (const new_name of ['map-other', 'map-none'])
    await expectAnswer(map, 404, 'POST', `${base}/map-none/rename`, { body: { new_name } }, detail)
})
mapCase('F20.name-rules', 'names begin with a letter or digit and have at most 64 characters', async () => {
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['POST', '', { llm }],
    ['DELETE', '', undefined],
    ['POST', '/validate', { llm }],
    ['POST', '/activate', undefined],
    ['POST', '/rename', { new_name: 'x' }],
  ] as const)
    await expectAnswer(map, 422, method, `${base}/-map${path}`, body === undefined ? {} : { body })
  await save('m'.repeat(64))
  await remove('m'.repeat(64))
  await save('m'.repeat(65), {}, 422)
  await expectAnswer(map, 422, 'POST', `${base}/map-bad`, { body: {} })
  await expectAnswer(map, 422, 'POST', `${base}/map-bad`, { body: { llm: { api_key: 'x' } } })
  expect(await entry('map-bad')).toBeUndefined()
})
mapCase('F20.profile-limit', 'at 50 profiles another is 409, an overwrite 201', async () => {
  const present = (await list()).profiles.length
  for (let n = present; n < 50; n++) await save(`map-l${n}`)
  expect((await save('map-more', {}, 409)).detail).toMatch(/^Profile limit reached \(50\)/)
  await save('map-l49')
  for (let n = present; n < 50; n++) await remove(`map-l${n}`)
})
mapCase(
  'F20.validate-live',
  'a draft that works is valid, also with a sealed key, and not saved',
  async () => {
    const model = await map.openModel({ text: 'ok' })
    await save('map-live')
    for (const api_key of ['map-profile-key', (await read('map-live', 'encrypted')).config.api_key])
      await validate({ ...model.llm('chat'), api_key }, { valid: true, error: null })
    expect(model.requests.map(({ headers }) => headers.authorization)).toEqual(
      Array(2).fill('Bearer map-profile-key'),
    )
    expect(await entry('map-draft')).toBeUndefined()
    await remove('map-live')
  },
)
/** As providers answer: the texts decide in the reference, too. */
const errorsByStatus: Readonly<Record<number, object>> = {
  400: { message: 'refused', type: 'invalid_request_error' },
  401: { message: 'Incorrect API key provided', type: 'invalid_request_error' },
  429: { message: 'Rate limit reached', type: 'requests' },
  500: { message: 'The server had an error', type: 'server_error' },
}
const refused = async (status: number, more: object = {}) => {
  const model = await map.openModel()
  model.replyWithoutTools = errorReply(status, { error: errorsByStatus[status] })
  return { ...model.llm('chat'), api_key: 'map-draft-key', num_retries: 0, ...more }
}
mapCase('F20.validate-rejects', 'a refusing provider is a typed error without the key', async () => {
  for (const [status, type] of [
    [400, 'LLMBadRequestError'],
    [401, 'LLMAuthenticationError'],
  ] as const) {
    const answer = await validate(await refused(status), { valid: false, error: { type } })
    expect(JSON.stringify(answer)).not.toContain('map-draft-key')
  }
})
mapCase(
  'F20.validate-bad-key-type',
  '401 is an authentication error',
  async () => {
    const model = await map.openModel()
    const error = {
      message: 'Authentication Fails, Your api key is invalid',
      type: 'authentication_error',
      code: 'invalid_request_error',
    }
    model.replyWithoutTools = errorReply(401, { error })
    const config = { ...model.llm('chat'), model: 'deepseek/deepseek-chat', num_retries: 0 }
    await validate(config, { valid: false, error: { type: 'LLMAuthenticationError' } })
  },
  { faultThere: 'a bad request' },
)
mapCase('F20.validate-provider-errors', 'lasting errors are not valid, passing ones are', async () => {
  const unavailable = { valid: false, error: { type: 'LLMServiceUnavailableError' } }
  await validate(await refused(500), unavailable)
  await validate({ ...llm, base_url: 'http://127.0.0.1:9/v1', num_retries: 0 }, unavailable)
  await validate(await refused(429), { valid: true })
  const model = await map.openModel()
  model.replyWithoutTools = () => {}
  await validate({ ...model.llm('chat'), num_retries: 0, timeout: 1 }, { valid: true })
  const { messages, max_tokens } = model.requests[0]?.body ?? {}
  expect(messages).toMatchObject([
    { role: 'system', content: expect.anything() },
    { role: 'user', content: expect.anything() },
  ])
  expect(JSON.stringify(messages)).toContain('Reply with one token.')
  expect(JSON.stringify(messages)).toContain('ping')
  expect(max_tokens).toBe(1)
})
mapCase(
  'F20.validate-subscription-login',
  'a subscription without sign-in is not valid at once',
  async () => {
    const error = { type: 'ValueError', message: expect.stringContaining('subscription login is required') }
    await validate({ model: 'openai/gpt-5', auth_type: 'subscription' }, { valid: false, error })
  },
)
mapCase(
  'F20.validate-unreachable-bounded',
  'an address that refuses is answered with default retries',
  async () => {
    await validate({ ...llm, base_url: 'http://127.0.0.1:9/v1' }, { valid: false })
  },
)
mapCase('F20.validate-hang-bounded', 'a provider that never answers has a verdict within 30 s', async () => {
  const model = await map.openModel()
  model.replyWithoutTools = () => {}
  const { num_retries: _, ...config } = model.llm('chat') as Json
  await validate(config, { valid: expect.any(Boolean) })
})
mapCase('F20.activate', 'the model of the profile becomes that of the settings', async () => {
  await save('map-act', { temperature: 0.5 })
  await activate('map-act', 200, { llm_applied: true })
  expect(await settings()).toMatchObject({
    active_profile: 'map-act',
    agent_settings: { llm: { ...llm, temperature: 0.5 } },
  })
  expect((await list()).active_profile).toBe('map-act')
  await remove('map-act')
})
mapCase(
  'F20.activate-conversation',
  'a conversation from the settings runs with the active profile',
  async () => {
    const model = await map.openModel(finishReply())
    await save('map-run', model.llm('chat', { temperature: 0.5, max_output_tokens: 77 }))
    await activate('map-run')
    const { agent_settings } = await map.requestOrThrow<{ agent_settings: object }>('GET', '/api/settings', {
      headers: { 'x-expose-secrets': 'encrypted' },
    })
    const { id, agent } = await map.requestOrThrow<{ id: string; agent: Json }>(
      'POST',
      '/api/conversations',
      {
        body: {
          agent_settings,
          secrets_encrypted: true,
          autotitle: false,
          workspace: { working_dir: map.directory },
        },
      },
    )
    await map.sendMessage(id, 'Go.', true)
    await map.waitForStatus(id, 'finished')
    expect(agent.llm).toMatchObject({ temperature: 0.5 })
    const { max_tokens, max_completion_tokens } = model.requests[0]?.body ?? {}
    expect(max_completion_tokens ?? max_tokens).toBe(77)
    await remove('map-run')
  },
)
mapCase('F20.activate-acp', 'with ACP settings only the pointer moves', async () => {
  await save('map-acp')
  await patch({ agent_settings_diff: { agent_kind: 'acp' } })
  await activate('map-acp', 200, { llm_applied: false })
  const found = await settings()
  expect([found.active_profile, found.agent_settings.llm]).toEqual(['map-acp', undefined])
  await patch({ agent_settings_diff: { agent_kind: 'openhands' } })
  await remove('map-acp')
})
mapCase('F20.sdk-get-llm', 'the reads of the SDK: a profile by name, and the active one', async () => {
  await save('map-sdk', { num_retries: 0 })
  await activate('map-sdk')
  const name = (await settings()).active_profile
  expect((await read(String(name), 'plaintext')).config).toMatchObject({ ...llm, num_retries: 0 })
  await expectAnswer(map, 404, 'GET', `${base}/map-none`)
  await remove('map-sdk')
})
mapCase('F20.ts-client', 'the published client saves, reads, renames, activates and deletes', async () => {
  const { ProfilesClient } = await import('@openhands/typescript-client/clients')
  const client = new ProfilesClient({ host: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) })
  await client.saveProfile('map-ts', { llm })
  expect(JSON.stringify(await client.listProfiles())).toContain('map-ts')
  expect(await client.getProfile('map-ts')).toMatchObject({ config: { api_key: null } })
  const plain = await client.getProfile('map-ts', { exposeSecrets: 'plaintext' })
  expect(plain).toMatchObject({ config: { api_key: 'map-profile-key' } })
  await client.renameProfile('map-ts', 'map-ts-2')
  await client.activateProfile('map-ts-2')
  await client.deleteProfile('map-ts-2')
  await expect(client.getProfile('map-ts')).rejects.toMatchObject({ status: 404 })
  await expect(client.getProfile('-map')).rejects.toMatchObject({ status: 422 })
})
mapCase('F20.activate-dangling-provider', 'a link to nothing is broken and not activated', async () => {
  await save('map-dangling', { provider_connection_id: '0'.repeat(32), base_url: 'http://127.0.0.1:9/v1' })
  expect(await entry('map-dangling')).toMatchObject({
    provider_connection_broken: true,
    api_key_set: false,
  })
  expect((await read('map-dangling')).config).toMatchObject({ api_key: null, base_url: null })
  const before = (await settings()).active_profile
  await activate('map-dangling', 422)
  expect((await settings()).active_profile).toBe(before)
  await remove('map-dangling')
})
mapCase('F20.activate-linked-provider', 'a linked profile takes the key of the connection', async () => {
  const { id } = await connect()
  await save('map-linked', { provider_connection_id: id })
  expect(await entry('map-linked')).toMatchObject({ api_key_set: true, provider_connection_broken: false })
  expect(await read('map-linked')).toMatchObject({ api_key_set: true, config: { api_key: null } })
  await activate('map-linked')
  expect((await settings()).agent_settings.llm?.api_key).toBe('map-linked-key')
  await patch({ active_profile: null, agent_settings_diff: { llm: { provider_connection_id: null } } })
  await remove('map-linked')
  await map.requestOrThrow('DELETE', `/api/llm/provider-connections/${id}`)
})
mapCase(
  'F20.sdk-get-llm-linked',
  'a plain read of a linked profile has the key of the connection',
  async () => {
    const { id } = await connect()
    await save('map-sdk-linked', { provider_connection_id: id })
    expect((await read('map-sdk-linked', 'plaintext')).config.api_key).toBe('map-linked-key')
    await remove('map-sdk-linked')
    await map.requestOrThrow('DELETE', `/api/llm/provider-connections/${id}`)
  },
)
differs(
  'F20.no-cipher',
  'without any key profiles work; sealed reads are 503',
  'a server without a configured secret key',
  async () => {
    await using server = await OwnMapServer.open()
    await save('map-open', {}, 201, server)
    expect((await read('map-open', 'plaintext', server)).config.api_key).toBe('map-profile-key')
    await activate('map-open', 200, {}, server)
    expect((await read('map-open', 'encrypted', server)).config.api_key).toMatch(/^gAAAAA/)
  },
)
mapCase(
  'F20.persist-restart',
  'profiles, keys and the pointer survive a restart',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: keyEnv })
    await save('map-kept', { temperature: 0.5 }, 201, server)
    await activate('map-kept', 200, {}, server)
    await server.restart()
    expect((await read('map-kept', 'plaintext', server)).config).toMatchObject({ ...llm, temperature: 0.5 })
    expect((await list(server)).active_profile).toBe('map-kept')
  },
  own,
)
mapCase('F20.rename', 'pointer and references follow a rename', async () => {
  await save('map-old')
  await activate('map-old')
  await map.requestOrThrow('POST', '/api/agent-profiles/map-f20-ref', {
    body: { agent_kind: 'openhands', llm_profile_ref: 'map-old' },
  })
  await expectAnswer(map, 200, 'POST', `${base}/map-old/rename`, { body: { new_name: 'map-new' } })
  await expectAnswer(map, 404, 'GET', `${base}/map-old`)
  expect((await read('map-new', 'plaintext')).config.api_key).toBe('map-profile-key')
  expect([(await list()).active_profile, (await settings()).active_profile]).toEqual(['map-new', 'map-new'])
  await expectAnswer(
    map,
    200,
    'GET',
    '/api/agent-profiles/map-f20-ref',
    {},
    {
      profile: { llm_profile_ref: 'map-new' },
    },
  )
  await map.requestOrThrow('DELETE', '/api/agent-profiles/map-f20-ref')
  await remove('map-new')
})
mapCase('F20.rename-errors', 'an existing target is 409, the same name 200, no name 422', async () => {
  await save('map-a')
  await save('map-b', { model: 'openai/other' })
  const rename = (body: object, status: number) =>
    expectAnswer(map, status, 'POST', `${base}/map-a/rename`, { body })
  await rename({ new_name: 'map-b' }, 409)
  expect((await read('map-b')).config.model).toBe('openai/other')
  expect((await rename({ new_name: 'map-a' }, 200)).message).toContain('unchanged (same name)')
  for (const body of [{}, { new_name: '-x' }]) await rename(body, 422)
  for (const name of ['map-a', 'map-b']) await remove(name)
})
mapCase('F20.delete-guarded', 'a profile that an agent profile needs stays', async () => {
  await save('map-guard')
  await map.requestOrThrow('POST', '/api/agent-profiles/map-f20-guard', {
    body: { agent_kind: 'openhands', llm_profile_ref: 'map-guard' },
  })
  const { detail } = await expectAnswer(map, 409, 'DELETE', `${base}/map-guard`)
  expect(detail).toContain('map-f20-guard')
  await read('map-guard')
  await map.requestOrThrow('DELETE', '/api/agent-profiles/map-f20-guard')
  await remove('map-guard')
})
mapCase('F20.delete', 'a delete clears the pointer, keeps the model in use and may be repeated', async () => {
  await save('map-del')
  await activate('map-del')
  await remove('map-del')
  const found = await settings()
  expect([found.active_profile, (await list()).active_profile]).toEqual([null, null])
  expect(found.agent_settings.llm).toMatchObject(llm)
  await remove('map-del')
})
mapCase('F20.json-alias-guard', 'a name with .json does not get round the guard of a delete', async () => {
  await save('map-alias')
  await map.requestOrThrow('POST', '/api/agent-profiles/map-f20-alias', {
    body: { agent_kind: 'openhands', llm_profile_ref: 'map-alias' },
  })
  const status = await map.requestStatus('DELETE', `${base}/map-alias.json`)
  expect([status, (await entry('map-alias'))?.name]).toEqual([
    status === 200 ? 200 : expect.any(Number),
    'map-alias',
  ])
  await map.requestOrThrow('DELETE', '/api/agent-profiles/map-f20-alias')
  await remove('map-alias')
})
mapCase(
  'F20.secret-key-rotation',
  'a key that cannot be opened is not activated',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: keyEnv })
    await save('map-sealed', {}, 201, server)
    await server.restart('SIGTERM', { SLIPWAY_SECRET_KEY: 'another-secret-key-of-the-map' })
    expect((await server.request('POST', `${base}/map-sealed/activate`)).status).toBeGreaterThanOrEqual(400)
    await server.restart('SIGTERM', keyEnv)
    expect((await settings(server)).active_profile).toBe(null)
  },
  own,
)
mapCase(
  'F20.corrupt-files',
  'a file that is no profile is not listed, 400, and repaired by a save; damaged settings are 409',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    for (const name of ['map-good', 'map-cut', 'map-list', 'map-empty', 'map-later'])
      await save(name, {}, 201, server)
    await activate('map-good', 200, {}, server)
    const file = (name: string) => new StoredDocument(server, `profiles/${name}.json`)
    const later = { ...(await file('map-later').readJson<object>()), schema_version: 2 }
    const damaged = {
      'map-cut': (await file('map-cut').read()).slice(0, 40),
      'map-list': '["not", "an", "object"]',
      'map-empty': '',
      'map-later': JSON.stringify(later),
    }
    for (const [name, text] of Object.entries(damaged)) await file(name).write(text)
    for (const [name, text] of Object.entries(damaged)) {
      const detail = expect.stringContaining(`Failed to load profile \`${name}\``)
      await expectAnswer(server, 400, 'GET', `${base}/${name}`, {}, { detail })
      await activate(name, 400, { detail }, server)
      expect(await file(name).read()).toBe(text)
    }
    const { profiles, active_profile } = await list(server)
    expect([profiles.map(({ name }) => name), active_profile]).toEqual([['map-good'], 'map-good'])
    await save('map-cut', { model: 'openai/mended' }, 201, server)
    expect((await read('map-cut', undefined, server)).config.model).toBe('openai/mended')
    for (const name of Object.keys(damaged)) await expectAnswer(server, 200, 'DELETE', `${base}/${name}`)
    for (const name of Object.keys(damaged)) await expectAnswer(server, 404, 'GET', `${base}/${name}`)
    await save('map-other', {}, 201, server)
    await new StoredDocument(server, 'settings.sealed').whileDamaged('{"agent_settings": ', async () => {
      const detail = expect.stringContaining('Settings file is corrupted or encrypted with a different key')
      await activate('map-other', 409, { detail }, server)
    })
    expect((await list(server)).active_profile).toBe('map-good')
  },
  own,
)
const noLock = 'one server owns its data directory: there is no lock that another program could hold'
notApplicable('F20.store-busy', 'a lock held by another process', noLock)
notApplicable('F20.store-busy-responsive', 'other requests while a lock is held', noLock)

endFamily('F20', 35)
