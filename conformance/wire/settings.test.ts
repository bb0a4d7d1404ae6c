import { randomUUID } from 'node:crypto'
import { afterAll, expect } from 'vitest'
import { bashStep, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()

interface Settings {
  readonly agent_settings: {
    readonly llm: Readonly<Record<string, unknown>>
    readonly [member: string]: unknown
  }
  readonly conversation_settings: Readonly<Record<string, unknown>>
  readonly misc_settings: Readonly<Record<string, unknown>>
  readonly llm_api_key_is_set: boolean
  readonly [member: string]: unknown
}

const getSettings = (expose?: string) =>
  wire.requestOrThrow<Settings>('GET', '/api/settings', {
    headers: expose === undefined ? {} : { 'x-expose-secrets': expose },
  })
const patchSettings = (body: object) => wire.request<Settings>('PATCH', '/api/settings', { body })
const uniqueSecretName = () => `WIRE_${randomUUID().slice(0, 8)}`

afterAll(async () => {
  if (wire.url !== '')
    await patchSettings({
      agent_settings_diff: { llm: { api_key: null, base_url: null } },
      misc_settings_diff: { wire: null },
    })
})

wireCase('GET /api/settings', 'has the settings of agents and conversations, redacted', async () => {
  await patchSettings({ agent_settings_diff: { llm: { model: 'openai/wire', api_key: 'settings-canary' } } })
  const settings = await getSettings()
  expect(settings).toMatchObject({
    agent_settings: { agent_kind: 'openhands', llm: { model: 'openai/wire' } },
    conversation_settings: { max_iterations: expect.any(Number), confirmation_mode: expect.any(Boolean) },
    misc_settings: expect.any(Object),
    llm_api_key_is_set: true,
  })
  expect(settings).toHaveProperty('active_profile')
  expect(settings).toHaveProperty('active_agent_profile_id')
  expect(JSON.stringify(settings)).not.toContain('settings-canary')
})

wireCase(
  'GET /api/settings',
  'exposes secrets on request: sealed or plain; other values are 400',
  async () => {
    await patchSettings({
      agent_settings_diff: { llm: { model: 'openai/wire', api_key: 'settings-canary' } },
    })
    expect((await getSettings('plaintext')).agent_settings.llm.api_key).toBe('settings-canary')
    for (const mode of ['encrypted', 'true']) {
      const sealed = await getSettings(mode)
      expect(sealed.agent_settings.llm.api_key).toEqual(expect.stringMatching(/^.{20,}$/))
      expect(JSON.stringify(sealed)).not.toContain('settings-canary')
    }
    expect(
      await wire.requestStatus('GET', '/api/settings', { headers: { 'x-expose-secrets': 'everything' } }),
    ).toBe(400)
  },
)

wireCase('GET /api/settings', 'accepts a sealed key in place of the key', async () => {
  await patchSettings({ agent_settings_diff: { llm: { model: 'openai/wire', api_key: 'settings-canary' } } })
  const token = (await getSettings('encrypted')).agent_settings.llm.api_key
  await patchSettings({ agent_settings_diff: { llm: { api_key: 'another' } } })
  expect((await patchSettings({ agent_settings_diff: { llm: { api_key: token } } })).status).toBe(200)
  expect((await getSettings('plaintext')).agent_settings.llm.api_key).toBe('settings-canary')
  const agent_settings = { llm: { ...scriptedModel([finishStep()]), api_key: token }, tools: [] }
  const made = await wire.request('POST', '/api/conversations', {
    body: { agent_settings, secrets_encrypted: true, workspace: { working_dir: wire.directory } },
  })
  expect(made.status).toBe(201)
  expect(JSON.stringify(made.body)).not.toContain('settings-canary')
})

wireCase('PATCH /api/settings', 'merges, null deletes, the reply is that of GET', async () => {
  const done = await patchSettings({
    conversation_settings_diff: { max_iterations: 77 },
    misc_settings_diff: { wire: { a: 1, b: { c: [1, 2] } } },
  })
  expect([done.status, done.body]).toEqual([200, await getSettings()])
  expect(done.body).toMatchObject({
    conversation_settings: { max_iterations: 77 },
    misc_settings: { wire: { a: 1 } },
  })
  await patchSettings({ misc_settings_diff: { wire: { a: null, b: { d: 'x' } } } })
  expect((await getSettings()).misc_settings.wire).toEqual({ b: { c: [1, 2], d: 'x' } })
  await patchSettings({ conversation_settings_diff: { max_iterations: 500 } })
})

wireCase(
  'PATCH /api/settings',
  'is 400 for an empty request, 422 for an invalid one, and then changes nothing',
  async () => {
    const before = await getSettings('plaintext')
    expect((await patchSettings({})).status).toBe(400)
    const bad = [
      { conversation_settings_diff: { max_iterations: 0 } },
      { agent_settings_diff: { llm: { model: 5 } } },
      { agent_settings_diff: 5 },
      { misc_settings_diff: { wire: 'changed' }, conversation_settings_diff: { max_iterations: 'x' } },
    ]
    for (const body of bad) expect([body, (await patchSettings(body)).status]).toEqual([body, 422])
    expect((await patchSettings({ active_profile: `none-${randomUUID()}` })).status).toBe(404)
    expect(await getSettings('plaintext')).toEqual(before)
  },
)

interface Schema {
  readonly model_name: string
  readonly sections: readonly { readonly key: string; readonly fields: readonly { readonly key: string }[] }[]
}
const types = /^(string|integer|number|boolean|array|object)$/

wireCase('GET /api/settings/agent-schema', 'has sections of fields, the model among them', async () => {
  const { model_name, sections } = await wire.requestOrThrow<Schema>('GET', '/api/settings/agent-schema')
  expect([typeof model_name, sections.length > 1]).toEqual(['string', true])
  for (const section of sections) {
    expect(section).toMatchObject({ key: expect.any(String), label: expect.any(String) })
    for (const field of section.fields)
      expect(field).toMatchObject({
        label: expect.any(String),
        section: section.key,
        value_type: expect.stringMatching(types),
        prominence: expect.stringMatching(/^(critical|major|minor)$/),
        depends_on: expect.any(Array),
        secret: expect.any(Boolean),
        choices: expect.any(Array),
      })
  }
  const fields = sections.flatMap((section) => section.fields)
  expect(fields.map(({ key }) => key)).toEqual(expect.arrayContaining(['llm.model', 'llm.api_key']))
  expect(fields.find(({ key }) => key === 'llm.api_key')).toMatchObject({ secret: true, default: null })
})

wireCase('GET /api/settings/conversation-schema', 'has sections of fields', async () => {
  const { sections } = await wire.requestOrThrow<Schema>('GET', '/api/settings/conversation-schema')
  const keys = sections.flatMap(({ fields }) => fields.map(({ key }) => key))
  expect(keys).toEqual(expect.arrayContaining(['max_iterations', 'confirmation_mode']))
})

const mcpPath = (key: string) => `/api/settings/mcp/${key}`
const server = { command: 'true', env: { TOKEN: 'settings-canary' } }

wireCase(
  'POST /api/settings/mcp/{key}',
  'adds a server with 201, redacted; an existing key is 409',
  async () => {
    const key = uniqueSecretName()
    const done = await wire.request<Settings>('POST', mcpPath(key), { body: server })
    expect([done.status, done.body]).toEqual([
      201,
      expect.objectContaining({
        agent_settings: expect.objectContaining({
          mcp_config: expect.objectContaining({ [key]: expect.objectContaining({ command: 'true' }) }),
        }),
      }),
    ])
    expect(JSON.stringify(done.body)).not.toContain('settings-canary')
    expect(await wire.requestStatus('POST', mcpPath(key), { body: server })).toBe(409)
    expect(
      await wire.requestStatus('POST', mcpPath(uniqueSecretName()), {
        body: { command: 'true', unknown: 1 },
      }),
    ).toBe(422)
    await wire.requestOrThrow('DELETE', mcpPath(key))
  },
)

wireCase('PATCH /api/settings/mcp/{key}', 'changes members; unknown is 404', async () => {
  const key = uniqueSecretName()
  await wire.requestOrThrow('POST', mcpPath(key), { body: server })
  const { agent_settings } = await wire.requestOrThrow<Settings>('PATCH', mcpPath(key), {
    body: { enabled: false },
  })
  expect(agent_settings.mcp_config).toMatchObject({ [key]: { command: 'true', enabled: false } })
  await wire.requestOrThrow('DELETE', mcpPath(key))
  expect(await wire.requestStatus('PATCH', mcpPath(key), { body: { enabled: true } })).toBe(404)
})

wireCase('DELETE /api/settings/mcp/{key}', 'removes it; unknown is 404', async () => {
  const key = uniqueSecretName()
  await wire.requestOrThrow('POST', mcpPath(key), { body: server })
  const { agent_settings } = await wire.requestOrThrow<Settings>('DELETE', mcpPath(key))
  expect(agent_settings.mcp_config).not.toHaveProperty(key)
  expect(await wire.requestStatus('DELETE', mcpPath(key))).toBe(404)
})

const putSecret = (body: object) => wire.request('PUT', '/api/settings/secrets', { body })

wireCase('GET /api/settings/secrets', 'lists names and descriptions, never values', async () => {
  const name = uniqueSecretName()
  await putSecret({ name, value: 'secret-canary', description: 'Of a test' })
  const body = await wire.requestOrThrow<{ secrets: object[] }>('GET', '/api/settings/secrets')
  expect(body.secrets).toContainEqual({ name, description: 'Of a test' })
  expect(JSON.stringify(body)).not.toContain('secret-canary')
  await wire.requestOrThrow('DELETE', `/api/settings/secrets/${name}`)
})

wireCase(
  'GET /api/settings/secrets/{name}',
  'returns the raw value as text; 404 unknown, 422 invalid name',
  async () => {
    const name = uniqueSecretName()
    await putSecret({ name, value: '{"ä": 1}\n' })
    const { status, type, body } = await wire.request('GET', `/api/settings/secrets/${name}`)
    expect([status, body]).toEqual([200, '{"ä": 1}\n'])
    expect(type).toMatch(/^text\/plain/)
    await wire.requestOrThrow('DELETE', `/api/settings/secrets/${name}`)
    expect(await wire.requestStatus('GET', `/api/settings/secrets/${name}`)).toBe(404)
    expect(await wire.requestStatus('GET', '/api/settings/secrets/1-bad')).toBe(422)
  },
)

wireCase(
  'GET /api/settings/secrets/{name}',
  "may be the address of a conversation's secret, also a relative one",
  async () => {
    const name = uniqueSecretName()
    await putSecret({ name, value: 'looked-up-canary' })
    for (const [n, address] of [
      `/api/settings/secrets/${name}`,
      `${wire.url}/api/settings/secrets/${name}`,
    ].entries()) {
      const file = `${wire.directory}/looked-up-${n}`
      const { id } = await wire.createIdle(
        [bashStep(`printf %s "$${name}" > '${file}'; echo "$${name}"`), finishStep()],
        {
          secrets: { [name]: { kind: 'LookupSecret', url: address, headers: wire.headers } },
        },
      )
      await wire.requestOrThrow('POST', `/api/conversations/${id}/events`, {
        body: { content: [{ type: 'text', text: 'Go.' }], run: true },
      })
      const events = await wire.driver.waitUntilIdle(id)
      expect((await wire.request('GET', '/api/file/download', { query: { path: file } })).body).toBe(
        'looked-up-canary',
      )
      expect(JSON.stringify([events, await wire.driver.getInfo(id)])).not.toContain('looked-up-canary')
    }
    await wire.requestOrThrow('DELETE', `/api/settings/secrets/${name}`)
  },
)

wireCase('PUT /api/settings/secrets', 'stores and replaces; an invalid name is 422', async () => {
  const name = uniqueSecretName()
  for (const value of ['one', 'two']) {
    const done = await putSecret({ name, value, description: 'd' })
    expect([done.status, done.body]).toEqual([200, { name, description: 'd' }])
    expect((await wire.request('GET', `/api/settings/secrets/${name}`)).body).toBe(value)
  }
  await wire.requestOrThrow('DELETE', `/api/settings/secrets/${name}`)
  for (const bad of ['1X', 'A-B', '', 'A'.repeat(65), 'ä', '_A'])
    expect([bad, (await putSecret({ name: bad, value: 'secret-canary' })).status]).toEqual([bad, 422])
})

wireCase('DELETE /api/settings/secrets/{name}', 'returns deleted; unknown is 404', async () => {
  const name = uniqueSecretName()
  await putSecret({ name, value: 'x' })
  expect(await wire.requestOrThrow('DELETE', `/api/settings/secrets/${name}`)).toEqual({ deleted: true })
  expect(await wire.requestStatus('DELETE', `/api/settings/secrets/${name}`)).toBe(404)
})
