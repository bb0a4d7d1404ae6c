import { randomUUID } from 'node:crypto'
import { afterAll, expect } from 'vitest'
import { bash, finish, scripted } from '../support/agent-driver.ts'
import { openWire, prove } from './wire-server.ts'

const wire = openWire()

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

const read = (exposed?: string) =>
  wire.must<Settings>('GET', '/api/settings', {
    headers: exposed === undefined ? {} : { 'x-expose-secrets': exposed },
  })
const patch = (body: object) => wire.ask<Settings>('PATCH', '/api/settings', { body })
const secret = () => `WIRE_${randomUUID().slice(0, 8)}`

afterAll(async () => {
  if (wire.url !== '')
    await patch({
      agent_settings_diff: { llm: { api_key: null, base_url: null } },
      misc_settings_diff: { wire: null },
    })
})

prove('GET /api/settings', 'has the settings of agents and conversations, masked', async () => {
  await patch({ agent_settings_diff: { llm: { model: 'openai/wire', api_key: 'settings-canary' } } })
  const settings = await read()
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

prove('GET /api/settings', 'exposes secrets when asked: sealed or plain; other values are 400', async () => {
  await patch({ agent_settings_diff: { llm: { model: 'openai/wire', api_key: 'settings-canary' } } })
  expect((await read('plaintext')).agent_settings.llm.api_key).toBe('settings-canary')
  for (const mode of ['encrypted', 'true']) {
    const sealed = await read(mode)
    expect(sealed.agent_settings.llm.api_key).toEqual(expect.stringMatching(/^.{20,}$/))
    expect(JSON.stringify(sealed)).not.toContain('settings-canary')
  }
  expect(await wire.status('GET', '/api/settings', { headers: { 'x-expose-secrets': 'everything' } })).toBe(
    400,
  )
})

prove('GET /api/settings', 'a sealed key that is sent back is the key', async () => {
  await patch({ agent_settings_diff: { llm: { model: 'openai/wire', api_key: 'settings-canary' } } })
  const token = (await read('encrypted')).agent_settings.llm.api_key
  await patch({ agent_settings_diff: { llm: { api_key: 'another' } } })
  expect((await patch({ agent_settings_diff: { llm: { api_key: token } } })).status).toBe(200)
  expect((await read('plaintext')).agent_settings.llm.api_key).toBe('settings-canary')
  const agent_settings = { llm: { ...scripted([finish()]), api_key: token }, tools: [] }
  const made = await wire.ask('POST', '/api/conversations', {
    body: { agent_settings, secrets_encrypted: true, workspace: { working_dir: wire.directory } },
  })
  expect(made.status).toBe(201)
  expect(JSON.stringify(made.body)).not.toContain('settings-canary')
})

prove('PATCH /api/settings', 'merges, null deletes, the answer is that of GET', async () => {
  const done = await patch({
    conversation_settings_diff: { max_iterations: 77 },
    misc_settings_diff: { wire: { a: 1, b: { c: [1, 2] } } },
  })
  expect([done.status, done.body]).toEqual([200, await read()])
  expect(done.body).toMatchObject({
    conversation_settings: { max_iterations: 77 },
    misc_settings: { wire: { a: 1 } },
  })
  await patch({ misc_settings_diff: { wire: { a: null, b: { d: 'x' } } } })
  expect((await read()).misc_settings.wire).toEqual({ b: { c: [1, 2], d: 'x' } })
  await patch({ conversation_settings_diff: { max_iterations: 500 } })
})

prove(
  'PATCH /api/settings',
  'is 400 for nothing, 422 for what cannot be, and changes nothing then',
  async () => {
    const before = await read('plaintext')
    expect((await patch({})).status).toBe(400)
    const bad = [
      { conversation_settings_diff: { max_iterations: 0 } },
      { agent_settings_diff: { llm: { model: 5 } } },
      { agent_settings_diff: 5 },
      { misc_settings_diff: { wire: 'changed' }, conversation_settings_diff: { max_iterations: 'x' } },
    ]
    for (const body of bad) expect([body, (await patch(body)).status]).toEqual([body, 422])
    expect((await patch({ active_profile: `none-${randomUUID()}` })).status).toBe(404)
    expect(await read('plaintext')).toEqual(before)
  },
)

interface Schema {
  readonly model_name: string
  readonly sections: readonly { readonly key: string; readonly fields: readonly { readonly key: string }[] }[]
}
const types = /^(string|integer|number|boolean|array|object)$/

prove('GET /api/settings/agent-schema', 'has sections of fields, the model among them', async () => {
  const { model_name, sections } = await wire.must<Schema>('GET', '/api/settings/agent-schema')
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

prove('GET /api/settings/conversation-schema', 'has sections of fields', async () => {
  const { sections } = await wire.must<Schema>('GET', '/api/settings/conversation-schema')
  const keys = sections.flatMap(({ fields }) => fields.map(({ key }) => key))
  expect(keys).toEqual(expect.arrayContaining(['max_iterations', 'confirmation_mode']))
})

const mcp = (key: string) => `/api/settings/mcp/${key}`
const server = { command: 'true', env: { TOKEN: 'settings-canary' } }

prove('POST /api/settings/mcp/{key}', 'adds a server with 201, masked; a taken key is 409', async () => {
  const key = secret()
  const done = await wire.ask<Settings>('POST', mcp(key), { body: server })
  expect([done.status, done.body]).toEqual([
    201,
    expect.objectContaining({
      agent_settings: expect.objectContaining({
        mcp_config: expect.objectContaining({ [key]: expect.objectContaining({ command: 'true' }) }),
      }),
    }),
  ])
  expect(JSON.stringify(done.body)).not.toContain('settings-canary')
  expect(await wire.status('POST', mcp(key), { body: server })).toBe(409)
  expect(await wire.status('POST', mcp(secret()), { body: { command: 'true', unknown: 1 } })).toBe(422)
  await wire.must('DELETE', mcp(key))
})

prove('PATCH /api/settings/mcp/{key}', 'changes a part; unknown is 404', async () => {
  const key = secret()
  await wire.must('POST', mcp(key), { body: server })
  const { agent_settings } = await wire.must<Settings>('PATCH', mcp(key), { body: { enabled: false } })
  expect(agent_settings.mcp_config).toMatchObject({ [key]: { command: 'true', enabled: false } })
  await wire.must('DELETE', mcp(key))
  expect(await wire.status('PATCH', mcp(key), { body: { enabled: true } })).toBe(404)
})

prove('DELETE /api/settings/mcp/{key}', 'removes it; unknown is 404', async () => {
  const key = secret()
  await wire.must('POST', mcp(key), { body: server })
  const { agent_settings } = await wire.must<Settings>('DELETE', mcp(key))
  expect(agent_settings.mcp_config).not.toHaveProperty(key)
  expect(await wire.status('DELETE', mcp(key))).toBe(404)
})

const put = (body: object) => wire.ask('PUT', '/api/settings/secrets', { body })

prove('GET /api/settings/secrets', 'lists names and descriptions, never values', async () => {
  const name = secret()
  await put({ name, value: 'secret-canary', description: 'Of a test' })
  const body = await wire.must<{ secrets: object[] }>('GET', '/api/settings/secrets')
  expect(body.secrets).toContainEqual({ name, description: 'Of a test' })
  expect(JSON.stringify(body)).not.toContain('secret-canary')
  await wire.must('DELETE', `/api/settings/secrets/${name}`)
})

prove('GET /api/settings/secrets/{name}', 'is the raw value as text; 404 unknown, 422 no name', async () => {
  const name = secret()
  await put({ name, value: '{"ä": 1}\n' })
  const { status, type, body } = await wire.ask('GET', `/api/settings/secrets/${name}`)
  expect([status, body]).toEqual([200, '{"ä": 1}\n'])
  expect(type).toMatch(/^text\/plain/)
  await wire.must('DELETE', `/api/settings/secrets/${name}`)
  expect(await wire.status('GET', `/api/settings/secrets/${name}`)).toBe(404)
  expect(await wire.status('GET', '/api/settings/secrets/1-bad')).toBe(422)
})

prove(
  'GET /api/settings/secrets/{name}',
  'is where a secret of a conversation may point, by a relative address too',
  async () => {
    const name = secret()
    await put({ name, value: 'looked-up-canary' })
    for (const [n, address] of [
      `/api/settings/secrets/${name}`,
      `${wire.url}/api/settings/secrets/${name}`,
    ].entries()) {
      const file = `${wire.directory}/looked-up-${n}`
      const { id } = await wire.idle([bash(`printf %s "$${name}" > '${file}'; echo "$${name}"`), finish()], {
        secrets: { [name]: { kind: 'LookupSecret', url: address, headers: wire.headers } },
      })
      await wire.must('POST', `/api/conversations/${id}/events`, { body: { content: 'Go.', run: true } })
      const events = await wire.drive.rest(id)
      expect((await wire.ask('GET', '/api/file/download', { query: { path: file } })).body).toBe(
        'looked-up-canary',
      )
      expect(JSON.stringify([events, await wire.drive.info(id)])).not.toContain('looked-up-canary')
    }
    await wire.must('DELETE', `/api/settings/secrets/${name}`)
  },
)

prove('PUT /api/settings/secrets', 'keeps and replaces; a bad name is 422', async () => {
  const name = secret()
  for (const value of ['one', 'two']) {
    const done = await put({ name, value, description: 'd' })
    expect([done.status, done.body]).toEqual([200, { name, description: 'd' }])
    expect((await wire.ask('GET', `/api/settings/secrets/${name}`)).body).toBe(value)
  }
  await wire.must('DELETE', `/api/settings/secrets/${name}`)
  for (const bad of ['1X', 'A-B', '', 'A'.repeat(65), 'ä', '_A'])
    expect([bad, (await put({ name: bad, value: 'secret-canary' })).status]).toEqual([bad, 422])
})

prove('DELETE /api/settings/secrets/{name}', 'says deleted; unknown is 404', async () => {
  const name = secret()
  await put({ name, value: 'x' })
  expect(await wire.must('DELETE', `/api/settings/secrets/${name}`)).toEqual({ deleted: true })
  expect(await wire.status('DELETE', `/api/settings/secrets/${name}`)).toBe(404)
})
