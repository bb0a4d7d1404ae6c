import { expect } from 'vitest'
import { expectAnswer, expectUnauthorized, filesWith } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import { commandReply, finishReply, type Json, OwnMapServer, openMapServer } from '../map-server.ts'
import { StoredDocument, withChangedCharacter } from '../stored-document.ts'

const map = openMapServer()
const settings = '/api/settings'
const secrets = '/api/settings/secrets'
const clientOptions = () => ({ host: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) })

interface Settings {
  readonly agent_settings: Json & { readonly llm: Json }
  readonly conversation_settings: Json
  readonly misc_settings: Json
  readonly [member: string]: unknown
}
const read = (expose?: string) =>
  map.requestOrThrow<Settings>('GET', settings, {
    ...(expose === undefined ? {} : { headers: { 'x-expose-secrets': expose } }),
  })
const patch = (body: object, status = 200, shape?: object) =>
  expectAnswer(map, status, 'PATCH', settings, { body }, shape)
const setKey = () =>
  patch({ agent_settings_diff: { llm: { model: 'openai/map', api_key: 'map-model-key' } } })
const putSecret = (name: string, value: unknown, description?: string) =>
  map.request('PUT', secrets, {
    body: { name, value, ...(description === undefined ? {} : { description }) },
  })
const keyOf = async (expose = 'plaintext') => (await read(expose)).agent_settings.llm.api_key

interface Schema {
  readonly model_name: string
  readonly sections: readonly {
    readonly key: string
    readonly variant?: string | null
    readonly fields: readonly {
      readonly key: string
      readonly secret?: boolean
      readonly default?: unknown
    }[]
  }[]
}

mapCase('F18.get-defaults', 'a server that was never configured has defaults without a key', async () => {
  const found = await read()
  expect(found).toMatchObject({
    agent_settings: { agent_kind: 'openhands' },
    llm_api_key_is_set: false,
    active_profile: null,
    active_meta_profile: null,
    misc_settings: {},
  })
  expect(found.agent_settings.llm.api_key ?? null).toBe(null)
})

mapCase('F18.agent-schema', 'the form of agent settings has sections for both kinds', async () => {
  const schema = await map.requestOrThrow<Schema>('GET', `${settings}/agent-schema`)
  expect(schema.model_name).toBe('AgentSettings')
  expect(new Set(schema.sections.map(({ variant }) => variant ?? null))).toEqual(
    new Set([null, 'openhands', 'acp']),
  )
  const fields = schema.sections.flatMap((section) => section.fields)
  expect(fields.find(({ key }) => key === 'llm.api_key')).toMatchObject({ secret: true })
  const { agent_settings } = await read()
  for (const { variant, fields } of schema.sections)
    if (variant !== 'acp')
      for (const { key } of fields) expect(agent_settings).toHaveProperty(key.split('.')[0] ?? key)
})

mapCase('F18.conversation-schema', 'three fields with the defaults of the settings', async () => {
  const schema = await map.requestOrThrow<Schema>('GET', `${settings}/conversation-schema`)
  expect(schema.model_name).toBe('ConversationSettings')
  const fields = schema.sections.flatMap((section) => section.fields)
  expect(fields.map(({ key }) => key)).toEqual(
    expect.arrayContaining(['confirmation_mode', 'max_iterations', 'security_analyzer']),
  )
  const { conversation_settings } = await read()
  for (const { key, default: value } of fields)
    expect([key, conversation_settings[key]]).toEqual([key, value])
})

mapCase('F18.auth-required', 'every route of settings and secrets needs the key', async () => {
  await expectUnauthorized(
    map,
    ['GET', settings],
    ['PATCH', settings, { misc_settings_diff: { map: 1 } }],
    ['GET', `${settings}/agent-schema`],
    ['GET', `${settings}/conversation-schema`],
    ['GET', secrets],
    ['PUT', secrets, { name: 'MAP_NONE', value: 'x' }],
    ['GET', `${secrets}/MAP_NONE`],
    ['DELETE', `${secrets}/MAP_NONE`],
  )
  await expectAnswer(map, 401, 'GET', settings, {
    isAnonymous: true,
    headers: { 'x-expose-secrets': 'plaintext' },
  })
})

mapCase('F18.patch-llm', 'a stored model key is never in the reply of the change', async () => {
  const body = { agent_settings_diff: { llm: { model: 'openai/map', api_key: 'map-model-key' } } }
  const done = await expectAnswer(
    map,
    200,
    'PATCH',
    settings,
    { body, headers: { 'x-expose-secrets': 'plaintext' } },
    { llm_api_key_is_set: true, agent_settings: { llm: { model: 'openai/map', api_key: '**********' } } },
  )
  expect(JSON.stringify(done)).not.toContain('map-model-key')
})

mapCase('F18.expose-modes', 'redacted, plain, sealed, and 400 for other words', async () => {
  await setKey()
  expect((await read()).agent_settings.llm.api_key).toBe('**********')
  expect(await keyOf()).toBe('map-model-key')
  for (const mode of ['encrypted', 'true']) expect(await keyOf(mode)).toMatch(/^gAAAAA/)
  await expectAnswer(map, 400, 'GET', settings, { headers: { 'x-expose-secrets': 'yes' } })
})

differs(
  'F18.roundtrip',
  'a sealed key comes back as the key; the placeholder clears it',
  'stars sent back for a secret of the settings',
  async () => {
    await setKey()
    const token = await keyOf('encrypted')
    for (const api_key of [token, '**********']) {
      await patch({ agent_settings_diff: { llm: { api_key } } }, 200, { llm_api_key_is_set: true })
      expect(await keyOf()).toBe('map-model-key')
    }
    await patch({ agent_settings_diff: { llm: { api_key: null } } }, 200, { llm_api_key_is_set: false })
  },
)

mapCase('F18.agent-diff-merge', 'siblings stay and null unsets', async () => {
  await setKey()
  await patch({ agent_settings_diff: { llm: { temperature: 0.25 } } })
  expect((await read('plaintext')).agent_settings.llm).toMatchObject({
    api_key: 'map-model-key',
    temperature: 0.25,
  })
  await patch({ agent_settings_diff: { llm: { temperature: null } } })
  expect((await read()).agent_settings.llm.temperature ?? null).toBe(null)
})

mapCase('F18.conversation-diff', 'named members change; a null or a value out of range is 422', async () => {
  const before = (await read()).conversation_settings
  await patch({ conversation_settings_diff: { max_iterations: 41 } })
  const changed = { ...before, max_iterations: 41 }
  expect((await read()).conversation_settings).toEqual(changed)
  for (const diff of [null, { max_iterations: 0 }, { confirmation_mode: null }])
    await patch({ conversation_settings_diff: diff }, diff === null ? 400 : 422)
  expect((await read()).conversation_settings).toEqual(changed)
  await patch({ conversation_settings_diff: { max_iterations: before.max_iterations } })
})

mapCase('F18.misc-settings-merge', 'nested objects merge, lists are replaced, nulls remove', async () => {
  await patch({ misc_settings_diff: { map: { a: 1, b: { c: [1, 2], d: 'x' } } } })
  await patch({ misc_settings_diff: { map: { a: null, b: { c: [3] } } } })
  expect((await read()).misc_settings.map).toEqual({ b: { c: [3], d: 'x' } })
  await patch({ misc_settings_diff: { map: null } })
  expect((await read()).misc_settings).toHaveProperty('map', null)
})

differs(
  'F18.patch-validation',
  'a refused change stores nothing and repeats no secret',
  '422 of a change of settings',
  async () => {
    const before = await read('plaintext')
    for (const body of [{}, { unknown_member: 1 }]) await patch(body, 400)
    const refused = await patch(
      { agent_settings_diff: { llm: { model: 5, api_key: 'map-posted-secret' } } },
      422,
      { detail: [{ loc: ['body', 'agent_settings_diff', 'llm', 'model'] }] },
    )
    expect(JSON.stringify(refused)).not.toContain('map-posted-secret')
    await patch({ active_profile: '-x' }, 422)
    expect(await read('plaintext')).toEqual(before)
  },
)

mapCase(
  'F18.active-profile-pointer',
  'a profile is applied, an explicit model wins, null keeps it',
  async () => {
    await map.requestOrThrow('POST', '/api/profiles/map-f18', {
      body: { llm: { model: 'openai/map-f18', api_key: 'map-profile-key' } },
    })
    await patch({ active_profile: 'map-f18' }, 200, { active_profile: 'map-f18' })
    expect((await read('plaintext')).agent_settings.llm).toMatchObject({
      model: 'openai/map-f18',
      api_key: 'map-profile-key',
    })
    await patch({ active_profile: 'map-none' }, 404, { detail: "Profile 'map-none' not found" })
    await patch({ active_profile: 'map-f18', agent_settings_diff: { llm: { model: 'openai/explicit' } } })
    expect((await read()).agent_settings.llm.model).toBe('openai/explicit')
    await patch({ active_profile: null }, 200, { active_profile: null })
    expect((await read()).agent_settings.llm.model).toBe('openai/explicit')
    await map.requestOrThrow('DELETE', '/api/profiles/map-f18')
  },
)

mapCase('F18.agent-kind-switch', 'another kind begins from fresh defaults, both ways', async () => {
  await setKey()
  await patch({ agent_settings_diff: { agent_kind: 'acp' } })
  const acp = await read()
  expect(acp.agent_settings.agent_kind).toBe('acp')
  expect(acp.agent_settings).not.toHaveProperty('llm')
  expect(acp.llm_api_key_is_set).toBe(false)
  await patch({ agent_settings_diff: { agent_kind: 'openhands' } }, 200, { llm_api_key_is_set: false })
})

mapCase('F18.secret-put-list-get', 'the list has no values; one value is plain text', async () => {
  expect(await putSecret('MAP_TOKEN', 'map-value-1', 'of the map')).toMatchObject({
    status: 200,
    body: { name: 'MAP_TOKEN', description: 'of the map' },
  })
  const list = await map.requestOrThrow('GET', secrets)
  expect(JSON.stringify(list)).toContain('MAP_TOKEN')
  expect(JSON.stringify(list)).not.toContain('map-value-1')
  const value = await map.request('GET', `${secrets}/MAP_TOKEN`)
  expect([value.status, value.body]).toEqual([200, 'map-value-1'])
  expect(value.type).toMatch(/^text\/plain/)
  await putSecret('MAP_TOKEN', 'map-value-2', 'changed')
  expect((await map.request('GET', `${secrets}/MAP_TOKEN`)).body).toBe('map-value-2')
  expect(JSON.stringify(await map.requestOrThrow('GET', secrets))).toContain('changed')
})

mapCase('F18.secret-delete', 'a deleted secret is 404 for reads and deletes', async () => {
  await putSecret('MAP_GONE', 'x')
  expect(await map.requestOrThrow('DELETE', `${secrets}/MAP_GONE`)).toEqual({ deleted: true })
  for (const method of ['GET', 'DELETE'])
    await expectAnswer(map, 404, method, `${secrets}/MAP_GONE`, {}, { detail: 'Secret not found' })
  expect(JSON.stringify(await map.requestOrThrow('GET', secrets))).not.toContain('MAP_GONE')
})

mapCase(
  'F18.secret-name-validation',
  'names begin with a letter and have at most 64 characters',
  async () => {
    const longest = `M${'a'.repeat(63)}`
    expect((await putSecret(longest, 'x')).status).toBe(200)
    await map.requestOrThrow('DELETE', `${secrets}/${longest}`)
    for (const name of [`${longest}a`, '1MAP', 'MAP-X']) {
      expect([name, (await putSecret(name, 'x')).status]).toEqual([name, 422])
      for (const method of ['GET', 'DELETE']) await expectAnswer(map, 422, method, `${secrets}/${name}`)
    }
    await expectAnswer(map, 422, 'PUT', secrets, { body: { name: 'MAP_NO_VALUE' } })
    await expectAnswer(map, 404, 'GET', `${secrets}/MAP_UNKNOWN`)
  },
)

mapCase('F18.secret-scope-agent-profile', 'the list follows the references of an agent profile', async () => {
  await putSecret('MAP_ONE', '1')
  await putSecret('MAP_TWO', '2')
  const names = async (name: string, secret_refs: unknown) => {
    const body = {
      agent_kind: 'openhands',
      llm_profile_ref: 'default',
      ...(secret_refs === undefined ? {} : { secret_refs }),
    }
    await map.requestOrThrow('POST', `/api/agent-profiles/${name}`, { body })
    const { profile } = await map.requestOrThrow<{ profile: { id: string } }>(
      'GET',
      `/api/agent-profiles/${name}`,
    )
    const found = await map.requestOrThrow<{ secrets: { name: string }[] }>('GET', secrets, {
      query: { agent_profile_id: profile.id },
    })
    await map.requestOrThrow('DELETE', `/api/agent-profiles/${name}`)
    return found.secrets.map((secret) => secret.name)
  }
  expect(await names('map-f18-one', ['MAP_ONE'])).toEqual(['MAP_ONE'])
  expect(await names('map-f18-none', [])).toEqual([])
  expect(await names('map-f18-all', undefined)).toEqual(expect.arrayContaining(['MAP_ONE', 'MAP_TWO']))
  await expectAnswer(
    map,
    404,
    'GET',
    secrets,
    { query: { agent_profile_id: '00000000-0000-4000-8000-000000000000' } },
    { detail: 'Agent profile not found' },
  )
})

mapCase('F18.secret-empty-value', 'an empty value or the placeholder wipes nothing', async () => {
  await putSecret('MAP_KEPT', 'kept')
  const masked = await putSecret('MAP_KEPT', '**********')
  expect([200, 422]).toContain(masked.status)
  expect((await map.request('GET', `${secrets}/MAP_KEPT`)).body).toBe('kept')
  const empty = await putSecret('MAP_EMPTY', '')
  if (empty.status === 200)
    expect(await map.request('GET', `${secrets}/MAP_EMPTY`)).toMatchObject({ status: 200, body: '' })
  else expect(empty.status).toBe(422)
})

mapCase('F18.dangling-pointers', 'a pointer to nothing is refused', async () => {
  const before = await read()
  for (const body of [
    { active_agent_profile_id: '00000000-0000-4000-8000-000000000000' },
    { active_meta_profile: 'map-none' },
  ])
    expect([body, [404, 422].includes((await map.request('PATCH', settings, { body })).status)]).toEqual([
      body,
      true,
    ])
  expect(await read()).toEqual(before)
})

mapCase('F18.secret-name-contract', 'the published contract names the status of a wrong name', async () => {
  const contract = await map.requestOrThrow<{ paths: Record<string, Record<string, Json>> }>(
    'GET',
    '/openapi.json',
  )
  const path = Object.keys(contract.paths).find((key) => key.startsWith(`${secrets}/{`)) ?? ''
  const found = contract.paths[path] ?? {}
  for (const method of ['get', 'delete']) {
    expect(found[method]?.responses).toHaveProperty('422')
    expect(JSON.stringify(found[method])).not.toMatch(/400[^"]*invalid|invalid[^"]*400/i)
  }
})

mapCase('F18.ts-client', 'the published client reads and changes settings and secrets', async () => {
  const { SettingsClient } = await import('@openhands/typescript-client/clients')
  const client = new SettingsClient(clientOptions())
  expect((await client.getAgentSchema()).model_name).toBe('AgentSettings')
  expect((await client.getConversationSchema()).model_name).toBe('ConversationSettings')
  await client.updateSettings({
    agent_settings_diff: { llm: { model: 'openai/ts', api_key: 'map-ts-key' } },
  })
  const exposed = (exposeSecrets: 'plaintext' | 'encrypted') => client.getSettings({ exposeSecrets })
  expect(await client.getSettings()).toMatchObject({ agent_settings: { llm: { api_key: '**********' } } })
  expect(await exposed('plaintext')).toMatchObject({ agent_settings: { llm: { api_key: 'map-ts-key' } } })
  expect(JSON.stringify(await exposed('encrypted'))).not.toContain('map-ts-key')
  await client.upsertSecret({ name: 'MAP_TS', value: 'map-ts-value' })
  expect(await client.getSecret('MAP_TS')).toBe('map-ts-value')
  expect(JSON.stringify(await client.listSecrets())).toContain('MAP_TS')
  await client.deleteSecret('MAP_TS')
  await expect(client.getSecret('MAP_TS')).rejects.toMatchObject({ status: 404 })
  await expect(client.getSecret('1-bad')).rejects.toMatchObject({ status: 422 })
  const stranger = new SettingsClient({ ...clientOptions(), apiKey: 'a-wrong-key' })
  await expect(stranger.getSettings()).rejects.toMatchObject({ status: 401 })
})

mapCase('F18.sdk-remote-workspace', 'names, then values, and an agent that looks a value up', async () => {
  await setKey()
  await putSecret('MAP_SDK', 'map-sdk-value', 'of the SDK')
  const { secrets: list } = await map.requestOrThrow<{ secrets: Json[] }>('GET', secrets)
  expect(list).toContainEqual(expect.objectContaining({ name: 'MAP_SDK', description: 'of the SDK' }))
  expect((await map.request('GET', `${secrets}/MAP_SDK`)).body).toBe('map-sdk-value')
  const lookup = { kind: 'LookupSecret', url: `${map.url}${secrets}/MAP_SDK`, headers: map.headers }
  const model = await map.openModel(
    commandReply('echo "size:$(printf %s "$MAP_SDK" | wc -c)"'),
    finishReply(),
  )
  const { id } = await map.createConversation(model, { secrets: { MAP_SDK: lookup } })
  await map.sendMessage(id, 'Go.', true)
  await map.waitForStatus(id, 'finished')
  expect(JSON.stringify(await map.getEvents(id))).toContain('size:13')
})

const plain = { headers: { 'x-expose-secrets': 'plaintext' } }
const keyEnv = { SLIPWAY_SECRET_KEY: 'the-first-secret-key-of-the-map' }
const otherKeyEnv = { SLIPWAY_SECRET_KEY: 'another-secret-key-of-the-map' }

async function fill(server: OwnMapServer): Promise<void> {
  await server.requestOrThrow('PATCH', '/api/settings', {
    body: {
      agent_settings_diff: { llm: { model: 'openai/map', api_key: 'map-model-key-at-rest' } },
      conversation_settings_diff: { max_iterations: 44 },
    },
  })
  await server.requestOrThrow('PUT', secrets, { body: { name: 'MAP_REST', value: 'map-secret-at-rest' } })
}

mapCase(
  'F18.encrypted-at-rest',
  'no stored file has a raw key or secret',
  async () => {
    await using server = await OwnMapServer.open({ env: keyEnv, key: 'map-key-2' })
    await fill(server)
    await server.stop()
    expect(await filesWith(server, 'map-model-key-at-rest')).toEqual([])
    expect(await filesWith(server, 'map-secret-at-rest')).toEqual([])
  },
  { hasOwnServer: true },
)

mapCase(
  'F18.persist-restart',
  'settings and secrets read back after a restart',
  async () => {
    await using server = await OwnMapServer.open({ env: keyEnv, key: 'map-key-2' })
    await fill(server)
    await server.restart()
    await expectAnswer(server, 200, 'GET', '/api/settings', plain, {
      agent_settings: { llm: { model: 'openai/map', api_key: 'map-model-key-at-rest' } },
      conversation_settings: { max_iterations: 44 },
    })
    expect((await server.request('GET', `${secrets}/MAP_REST`)).body).toBe('map-secret-at-rest')
  },
  { hasOwnServer: true },
)

differs(
  'F18.no-cipher',
  'without any key plain reads work and sealed ones are 503',
  'a server without a configured secret key',
  async () => {
    await using server = await OwnMapServer.open()
    await server.requestOrThrow('PATCH', '/api/settings', {
      isAnonymous: true,
      body: { agent_settings_diff: { llm: { api_key: 'map-open-key' } } },
    })
    for (const [expose, api_key] of [
      ['plaintext', 'map-open-key'],
      ['encrypted', expect.stringMatching(/^gAAAAA/)],
    ] as const)
      await expectAnswer(
        server,
        200,
        'GET',
        '/api/settings',
        { isAnonymous: true, headers: { 'x-expose-secrets': expose } },
        { agent_settings: { llm: { api_key } } },
      )
    expect(await filesWith(server, 'map-open-key')).toEqual([])
  },
)

mapCase(
  'F18.secret-key-rotation',
  'a write under another key destroys nothing of the old one',
  async () => {
    await using server = await OwnMapServer.open({ env: keyEnv, key: 'map-key-2' })
    await fill(server)
    await server.restart('SIGTERM', otherKeyEnv)
    await server.request('PUT', secrets, { body: { name: 'MAP_LATER', value: 'later' } })
    await server.request('PATCH', '/api/settings', { body: { misc_settings_diff: { map: 1 } } })
    await server.restart('SIGTERM', keyEnv)
    expect((await server.request('GET', `${secrets}/MAP_REST`)).body).toBe('map-secret-at-rest')
    await expectAnswer(server, 200, 'GET', '/api/settings', plain, {
      agent_settings: { llm: { api_key: 'map-model-key-at-rest' } },
    })
  },
  { hasOwnServer: true },
)

differs(
  'F18.corrupted-files',
  'with damaged files settings are the defaults and secrets none; writes are refused',
  'damaged files of the server',
  async () => {
    await using server = await OwnMapServer.open({ env: keyEnv, key: 'map-key-2' })
    await fill(server)
    const body = { misc_settings_diff: { map: 1 } }
    const settingsFile = new StoredDocument(server, 'settings.sealed')
    for (const text of ['', '{"map": ', withChangedCharacter(await settingsFile.read())])
      await settingsFile.whileDamaged(text, async () => {
        const detail = expect.stringContaining('Settings file is corrupted or encrypted with a different key')
        await expectAnswer(server, 409, 'GET', settings, {}, { detail })
        await expectAnswer(server, 409, 'PATCH', settings, { body }, { detail })
      })
    const secretsFile = new StoredDocument(server, 'secrets.sealed')
    for (const text of ['', '{"map": ', withChangedCharacter(await secretsFile.read())])
      await secretsFile.whileDamaged(text, async () => {
        await expectAnswer(server, 409, 'GET', secrets)
        await expectAnswer(server, 409, 'GET', `${secrets}/MAP_REST`)
        await expectAnswer(server, 409, 'PUT', secrets, { body: { name: 'MAP_NEW', value: 'new' } })
        await expectAnswer(server, 409, 'DELETE', `${secrets}/MAP_REST`)
      })
    await expectAnswer(server, 200, 'GET', settings, plain, {
      agent_settings: { llm: { api_key: 'map-model-key-at-rest' } },
    })
    expect((await server.request('GET', `${secrets}/MAP_REST`)).body).toBe('map-secret-at-rest')
  },
)
mapCase(
  'F18.secret-scope-profile-errors',
  'secrets of a profile that cannot be read are refused as the profile is',
  async () => {
    await using server = await OwnMapServer.open({ env: keyEnv, key: 'map-key-2' })
    await fill(server)
    const profile = { agent_kind: 'openhands', llm_profile_ref: 'map', secret_refs: ['MAP_REST'] }
    await server.requestOrThrow('POST', '/api/agent-profiles/map-scope', { body: profile })
    const found = await server.requestOrThrow<{ profile: { id: string } }>(
      'GET',
      '/api/agent-profiles/map-scope',
    )
    const query = { agent_profile_id: found.profile.id }
    const before = await expectAnswer(server, 200, 'GET', secrets, { query })
    const file = new StoredDocument(server, 'agent-profiles.sealed')
    await file.whileDamaged(withChangedCharacter(await file.read()), async () => {
      const refused = await server.request('GET', '/api/agent-profiles/map-scope')
      expect(refused.status).toBe(409)
      expect(await server.request('GET', secrets, { query })).toMatchObject({
        status: refused.status,
        body: refused.body,
      })
    })
    expect(await expectAnswer(server, 200, 'GET', secrets, { query })).toEqual(before)
  },
  { hasOwnServer: true },
)
notApplicable(
  'F18.sdk-clone-repos',
  'clones of the Python SDK on the machine of the client',
  'the clone runs in the client; the read of the token is F18.secret-put-list-get',
)

endFamily('F18', 29)
