import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createApp, listen } from '@slipway/http'
import { agentServerOpenApi, metaProfile, settingsRoutes } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { MetaProfiles } from '../../compat/meta-profiles/meta-profiles.ts'
import { sealText } from '../../core/secrets/sealed-text.ts'
import { ServerSecrets } from '../../core/secrets/server-secrets.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { partsOf, temporaryDirectory } from '../../testing/fixtures.ts'
import { LlmProfiles } from '../llm-profiles/llm-profiles.ts'
import { settingsHandlers } from './handlers.ts'
import { ServerSettings } from './server-settings.ts'

/**
 * A server of these routes alone. `texts` is everything that it answered or logged unless its header asked
 * for secrets.
 */
async function openServer() {
  const place = temporaryDirectory()
  const directory = place.path
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const settings = new ServerSettings({ documents: fileDocuments(directory), cipher })
  const secrets = new ServerSecrets({ documents: fileDocuments(directory), cipher })
  const llmProfiles = new LlmProfiles({ documents: fileDocuments(directory), cipher, settings })
  const metaProfiles = new MetaProfiles({ documents: fileDocuments(directory), settings })
  const agentProfiles = {
    has: async (id: string) => id === known,
    getById: async () => undefined,
    resolve: () => Promise.reject(new Error('not asked')),
  }
  const texts: string[] = []
  const log = (...line: unknown[]) => void texts.push(JSON.stringify(line))
  const handlers = settingsHandlers({
    settings,
    secrets,
    parts: partsOf({ models: llmProfiles, agentProfiles, metaProfiles }),
    cipher,
    log,
  })
  const web = createApp(settingsRoutes, handlers, { openapi: agentServerOpenApi, log })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  const call = async (method: string, path: string, body?: unknown, expose?: string) => {
    const response = await fetch(`${listening.url}/api/settings${path}`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(expose === undefined ? {} : { 'x-expose-secrets': expose }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (expose === undefined) texts.push(text)
    const isJson = response.headers.get('content-type') === 'application/json'
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      json: isJson ? JSON.parse(text) : text,
    }
  }
  const files = () =>
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => readFileSync(join(file.parentPath, file.name), 'latin1'))
      .join('\n')
  const stop = async () => {
    await listening.close()
    place[Symbol.dispose]()
  }
  return {
    ...{ call, texts, files, profiles: llmProfiles, metaProfiles, settings, secrets, cipher },
    [Symbol.asyncDispose]: stop,
  }
}

/** The only existing agent profile. */
const known = '6a1f0c11-9a77-4c0a-9d3b-0a8f5f0c2b1e'

type Server = Awaited<ReturnType<typeof openServer>>
const patch = (server: Server, body: object) => server.call('PATCH', '', body)

test('unset settings answer every default', async () => {
  await using server = await openServer()
  const { status, json } = await server.call('GET', '')
  expect(status).toBe(200)
  expect(json).toMatchObject({
    agent_settings: {
      schema_version: 5,
      agent_kind: 'openhands',
      agent: 'CodeActAgent',
      llm: {
        model: 'openai/gpt-5.5',
        api_key: null,
        base_url: null,
        num_retries: 5,
        timeout: 300,
        native_tool_calling: true,
      },
      tools: null,
      enable_sub_agents: false,
      tool_concurrency_limit: 1,
      mcp_config: {},
      agent_context: { skills: [], load_user_skills: false, system_message_suffix: null },
      condenser: { condenser_kind: 'llm_summarizing', enabled: true, max_size: 240, keep_first: 2 },
      verification: { critic_enabled: false, critic_api_key: null, critic_threshold: 0.6 },
    },
    conversation_settings: { schema_version: 1, max_iterations: 500, confirmation_mode: false },
    llm_api_key_is_set: false,
    active_profile: null,
    active_agent_profile_id: null,
    misc_settings: {},
  })
})

const secretive = {
  llm: {
    model: 'anthropic/claude',
    api_key: 'canary-llm-key-1',
    extra_headers: { 'X-Any': 'canary-header-1' },
    base_url: 'https://user:canary-url-1@x.example/v1',
    aws_secret_access_key: 'canary-aws-1',
  },
  mcp_config: {
    files: { command: 'server', args: ['--token', 'canary-arg-1', '-v'], env: { TOKEN: 'canary-env-1' } },
    far: {
      url: 'https://x.example/mcp',
      headers: { Authorization: 'Bearer canary-mcp-1' },
      auth: { strategy: 'bearer', value: 'canary-auth-1' },
    },
  },
  agent_context: {
    secrets: {
      A: { kind: 'StaticSecret', value: 'canary-static-1', description: 'for a' },
      B: { kind: 'LookupSecret', url: 'https://x.example/b', headers: { key: 'canary-lookup-1' } },
    },
  },
  verification: { critic_api_key: 'canary-critic-1' },
}

test('secrets are answered as stars and appear nowhere in clear', async () => {
  await using server = await openServer()
  const { status, json } = await patch(server, { agent_settings_diff: secretive })
  expect(status).toBe(200)
  expect(json).toMatchObject({
    llm_api_key_is_set: true,
    agent_settings: {
      llm: {
        model: 'anthropic/claude',
        api_key: '**********',
        extra_headers: { 'X-Any': '**********' },
        base_url: 'https://****@x.example/v1',
      },
      mcp_config: {
        files: { command: 'server', args: ['--token', '****', '-v'], env: { TOKEN: '**********' } },
        far: { auth: { strategy: 'bearer', value: '**********' } },
      },
      agent_context: {
        secrets: {
          A: { kind: 'StaticSecret', value: '**********', description: 'for a' },
          B: { kind: 'LookupSecret', url: 'https://x.example/b', headers: { key: '**********' } },
        },
      },
      verification: { critic_api_key: '**********' },
    },
  })
  expect((await server.call('GET', '', undefined, 'plaintext')).json.agent_settings).toMatchObject(secretive)
  const sealed = await server.call('GET', '', undefined, 'encrypted')
  expect(JSON.stringify(sealed.json)).not.toContain('canary')
  expect(sealed.json.agent_settings.mcp_config.far.auth.strategy).toBe('bearer')
  expect(server.texts.join('\n')).not.toContain('canary')
  expect(server.texts.filter((text) => text.includes('secrets were read'))).toHaveLength(1)
  expect(server.files()).not.toContain('canary')
})

test('answered settings sent back as stars or as tokens change nothing', async () => {
  await using server = await openServer()
  await patch(server, { agent_settings_diff: secretive })
  const { agent_settings } = (await server.call('GET', '', undefined, 'plaintext')).json
  for (const expose of [undefined, 'encrypted', 'true', 'plaintext']) {
    const { json } = await server.call('GET', '', undefined, expose)
    const { agent_settings: agent_settings_diff, conversation_settings: conversation_settings_diff } = json
    expect((await patch(server, { agent_settings_diff, conversation_settings_diff })).status).toBe(200)
    expect((await server.call('GET', '', undefined, 'plaintext')).json.agent_settings).toEqual(agent_settings)
  }
})

test('a diff is merged, null removes a member, and an invalid one changes nothing', async () => {
  await using server = await openServer()
  await patch(server, {
    agent_settings_diff: { llm: { model: 'openai/a', api_key: 'canary-1' }, condenser: { max_size: 100 } },
    conversation_settings_diff: { max_iterations: 7 },
    misc_settings_diff: { app_preferences: { a: null, b: [1, { c: null }] }, odd: { deep: true } },
  })
  const changed = await patch(server, {
    agent_settings_diff: { llm: { model: 'openai/b' }, condenser: null },
    conversation_settings_diff: { confirmation_mode: true, security_analyzer: null },
    misc_settings_diff: { odd: { more: 1 } },
  })
  expect(changed.json).toMatchObject({
    agent_settings: { llm: { model: 'openai/b', api_key: '**********' }, condenser: { max_size: 240 } },
    conversation_settings: { confirmation_mode: true, max_iterations: 7, security_analyzer: null },
    misc_settings: { app_preferences: { b: [1, { c: null }] }, odd: { deep: true, more: 1 } },
  })
  const refused = [
    [{ agent_settings_diff: { llm: { model: 7 } } }, ['agent_settings_diff', 'llm', 'model']],
    [
      { agent_settings_diff: { condenser: { max_size: 3, keep_first: 0 } } },
      ['agent_settings_diff', 'condenser', 'max_size'],
    ],
    [{ agent_settings_diff: { agent_kind: 'other' } }, ['agent_settings_diff', 'agent_kind']],
    [{ agent_settings_diff: { mcp_config: { a: {} } } }, ['agent_settings_diff', 'mcp_config', 'a']],
    [
      { conversation_settings_diff: { max_iterations: 0 }, misc_settings_diff: { x: 1 } },
      ['conversation_settings_diff', 'max_iterations'],
    ],
    [
      { conversation_settings_diff: { confirmation_mode: null } },
      ['conversation_settings_diff', 'confirmation_mode'],
    ],
    [{ active_profile: '-x' }, ['active_profile']],
    [{ agent_settings_diff: [] }, ['agent_settings_diff']],
    [{ active_agent_profile_id: 'x' }, ['active_agent_profile_id']],
  ] as const
  for (const [body, loc] of refused)
    expect(await patch(server, body)).toMatchObject({
      status: 422,
      json: { detail: [{ loc: ['body', ...loc] }] },
    })
  expect((await patch(server, {})).status).toBe(400)
  expect((await patch(server, { agent_settings_diff: null })).status).toBe(400)
  expect((await patch(server, { active_profile: 'none' })).status).toBe(404)
  expect((await patch(server, { active_agent_profile_id: randomUUID() })).status).toBe(404)
  expect((await server.call('GET', '')).json).toEqual(changed.json)
})

test('a token sealed with another key is refused with its place and not echoed', async () => {
  await using server = await openServer()
  await using other = await openServer()
  await patch(other, { agent_settings_diff: { llm: { api_key: 'canary-1' } } })
  const { json } = await other.call('GET', '', undefined, 'encrypted')
  const { api_key } = json.agent_settings.llm
  const loc = ['body', 'agent_settings_diff', 'llm', 'api_key']
  const { status, json: refusal } = await patch(server, { agent_settings_diff: { llm: { api_key } } })
  expect({ status, loc: refusal.detail[0].loc }).toEqual({ status: 422, loc })
  expect(JSON.stringify(refusal)).not.toContain(api_key)
})

test('an unknown value of X-Expose-Secrets is refused', async () => {
  await using server = await openServer()
  for (const word of ['yes', 'false', 'plain text', 'constructor', '1'])
    expect((await server.call('GET', '', undefined, word)).status).toBe(400)
  expect((await server.call('GET', '', undefined, ' Encrypted')).status).toBe(200)
})

test('activating a profile sets its model unless the request sets one', async () => {
  await using server = await openServer()
  const { profiles } = server
  await server.call('PATCH', '', { agent_settings_diff: { llm: { model: 'openai/old', seed: 5 } } })
  const model = { model: 'openai/p', api_key: 'canary-1' }
  const { llm } = await import('@slipway/protocol')
  await profiles.save('p', llm.parse(model))
  const active = await patch(server, { active_profile: 'p' })
  expect(active.json).toMatchObject({ active_profile: 'p', llm_api_key_is_set: true })
  expect(active.json.agent_settings.llm).toMatchObject({ model: 'openai/p', seed: null })
  expect(await profiles.getActiveName()).toBe('p')
  await profiles.rename('p', 'q')
  expect((await server.call('GET', '')).json.active_profile).toBe('q')
  const own = await patch(server, {
    active_profile: 'q',
    agent_settings_diff: { llm: { model: 'openai/own' } },
  })
  expect(own.json.agent_settings.llm.model).toBe('openai/own')
  await profiles.activate('q')
  expect((await server.call('GET', '')).json.agent_settings.llm.model).toBe('openai/p')
  expect((await patch(server, { active_profile: null })).json.active_profile).toBe(null)
  await profiles.activate('q')
  await profiles.remove('q')
  const now = (await server.call('GET', '')).json
  expect(now).toMatchObject({ active_profile: null, agent_settings: { llm: { model: 'openai/p' } } })
})

test('MCP servers are added, changed and removed one by one', async () => {
  await using server = await openServer()
  const { call } = server
  const far = { url: 'https://x.example/mcp', headers: { Authorization: 'canary-1', Accept: 'y' } }
  expect((await call('POST', '/mcp/far', far)).status).toBe(201)
  expect((await call('POST', '/mcp/far', far)).status).toBe(409)
  expect((await call('PATCH', '/mcp/near', {})).status).toBe(404)
  expect((await call('DELETE', '/mcp/near')).status).toBe(404)
  expect((await call('POST', '/mcp/bad', { url: 'x', command: 'y' })).status).toBe(422)
  const unknown = await call('POST', '/mcp/bad', { url: far.url, header: {} })
  expect(unknown).toMatchObject({ status: 422, json: { detail: [{ loc: ['body', 'header'] }] } })
  const wrong = [
    { url: null },
    { header: {} },
    { timeout: 'x' },
    { headers: { A: 1 } },
    { args: [null] },
    { args: ['./x'] },
    [],
  ]
  for (const body of wrong) expect((await call('PATCH', '/mcp/far', body)).status).toBe(422)
  for (const key of ['', '.a', '__proto__', 'a%2fb', 'x'.repeat(129)])
    expect([422, 404, 405]).toContain((await call('POST', `/mcp/${key}`, far)).status)
  const edited = { headers: { Authorization: '**********', Accept: null }, timeout: 5, enabled: false }
  expect((await call('PATCH', '/mcp/far', edited)).json.agent_settings.mcp_config).toMatchObject({
    far: { url: far.url, headers: { Authorization: '**********' }, timeout: 5, enabled: false },
  })
  const read = async () => (await call('GET', '', undefined, 'plaintext')).json.agent_settings.mcp_config
  expect((await read()).far.headers).toEqual({ Authorization: 'canary-1' })
  await call('PATCH', '/mcp/far', { transport: 'stdio', command: 'run', env: { A: 'canary-2' } })
  expect(await read()).toEqual({
    far: { transport: 'stdio', command: 'run', env: { A: 'canary-2' }, timeout: 5, enabled: false },
  })
  await call('POST', '/mcp/other', { command: 'other', env: { A: '**********' } })
  expect((await read()).other).toEqual({ command: 'other', env: {}, enabled: true })
  await call('PATCH', '', {
    agent_settings_diff: { mcp_config: { mcpServers: { third: { command: 'c' } } } },
  })
  expect(Object.keys(await read()).sort()).toEqual(['far', 'other', 'third'])
  await call('PATCH', '', { agent_settings_diff: { mcp_config: { 'an odd/name é': { command: 'c' } } } })
  expect((await call('DELETE', `/mcp/${encodeURIComponent('an odd/name é')}`)).status).toBe(200)
  expect((await call('DELETE', '/mcp/far')).status).toBe(200)
  expect(Object.keys(await read()).sort()).toEqual(['other', 'third'])
  expect(server.texts.join('\n')).not.toContain('canary')
})

test('secrets are listed without values, read one by one and deleted', async () => {
  await using server = await openServer()
  const { call } = server
  const value = ' canary-secret-1 é\n"x"\n'
  const saved = await call('PUT', '/secrets', { name: 'TOKEN_B', value, description: 'the b' })
  expect(saved).toMatchObject({ status: 200, json: { name: 'TOKEN_B', description: 'the b' } })
  await call('PUT', '/secrets', { name: 'TOKEN_A', value: 'canary-a' })
  expect((await call('GET', '/secrets')).json).toEqual({
    secrets: [
      { name: 'TOKEN_A', description: null },
      { name: 'TOKEN_B', description: 'the b' },
    ],
  })
  const raw = await call('GET', '/secrets/TOKEN_B', undefined, 'plaintext')
  expect(raw).toEqual({ status: 200, type: 'text/plain; charset=utf-8', json: value })
  expect((await call('DELETE', '/secrets/TOKEN_B')).json).toEqual({ deleted: true })
  expect((await call('DELETE', '/secrets/TOKEN_B')).status).toBe(404)
  expect((await call('GET', '/secrets/TOKEN_B')).status).toBe(404)
  for (const name of ['1A', '', 'a-b', 'A'.repeat(65), '__proto__', 'é'])
    expect((await call('PUT', '/secrets', { name, value: 'canary-x' })).status).toBe(422)
  for (const value of ['', '**********', '<redacted>', null, 7, 'a\0b', '\ud800', 'x'.repeat(65_537)])
    expect((await call('PUT', '/secrets', { name: 'A', value })).status).toBe(422)
  expect((await call('GET', '/secrets/a-b')).status).toBe(422)
  expect((await call('GET', '/secrets/constructor')).status).toBe(404)
  expect(server.texts.join('\n')).not.toContain('canary')
  expect(server.files()).not.toContain('canary')
})

test('a sealed secret is accepted unless it holds no text', async () => {
  await using server = await openServer()
  const { call, cipher } = server
  const put = async (value: string) => await call('PUT', '/secrets', { name: 'A', value })
  expect((await put(sealText(cipher, 'canary-1'))).status).toBe(200)
  expect((await call('GET', '/secrets/A', undefined, 'plaintext')).json).toBe('canary-1')
  const sealedOther = (text: string) => `gAAAAA-slipway-${cipher.seal(text).toString('base64url')}`
  const odd = [sealText(cipher, 7), sealText(cipher, ''), sealedOther('{"a":1}'), sealedOther('not json')]
  for (const value of odd)
    expect(await put(value)).toMatchObject({ status: 422, json: { detail: [{ loc: ['body', 'value'] }] } })
  const name = sealedOther('[]')
  expect((await patch(server, { agent_settings_diff: { llm: { model: name } } })).status).toBe(422)
  expect((await patch(server, { agent_settings_diff: { llm: { model: sealText(cipher, 7) } } })).status).toBe(
    422,
  )
  expect((await call('POST', '/mcp/a', { command: sealText(cipher, 7) })).status).toBe(422)
})

test('the active agent profile stays until it is removed', async () => {
  await using server = await openServer()
  const upper = { active_agent_profile_id: known.toUpperCase() }
  expect((await patch(server, upper)).json.active_agent_profile_id).toBe(known)
  await patch(server, { misc_settings_diff: { a: 1 } })
  expect((await server.call('GET', '')).json.active_agent_profile_id).toBe(known)
  expect((await patch(server, { active_agent_profile_id: null })).json.active_agent_profile_id).toBe(null)
})

test('settings above the size limit are refused', async () => {
  await using server = await openServer()
  const text = 'x'.repeat(3_900_000)
  expect((await patch(server, { misc_settings_diff: { text } })).status).toBe(200)
  expect((await patch(server, { misc_settings_diff: { more: text } })).status).toBe(413)
  expect((await server.call('GET', '')).json.misc_settings).toEqual({ text })
})

test('secrets above the size limit are refused', async () => {
  await using server = await openServer()
  const { secrets } = server
  for (let i = 0; i < 61; i++) await secrets.save(`A${i}`, { value: 'x'.repeat(65_000) })
  await expect(secrets.save('ONE_MORE', { value: 'x'.repeat(65_000) })).rejects.toMatchObject({
    code: 'too_large',
  })
  expect(await secrets.getValue('ONE_MORE')).toBeUndefined()
  await secrets.save('A0', { value: 'small' })
  expect(await secrets.getValue('A0')).toBe('small')
})

test('concurrent changes are all stored', async () => {
  await using server = await openServer()
  const names = Array.from({ length: 20 }, (_, index) => `n${index}`)
  await Promise.all([
    ...names.map((name) => patch(server, { misc_settings_diff: { [name]: 1 } })),
    ...names.map((name) => server.call('POST', `/mcp/${name}`, { command: name })),
    ...names.map((name) => server.call('PUT', '/secrets', { name, value: name })),
  ])
  const { misc_settings, agent_settings } = (await server.call('GET', '')).json
  const { secrets } = (await server.call('GET', '/secrets')).json
  for (const found of [misc_settings, agent_settings.mcp_config])
    expect(Object.keys(found).sort()).toEqual(names.sort())
  expect(secrets).toHaveLength(20)
})

test('the forms describe existing fields and their defaults', async () => {
  await using server = await openServer()
  const agent = await server.call('GET', '/agent-schema')
  expect(agent).toMatchObject({ status: 200, json: { model_name: 'AgentSettings' } })
  const conversation = await server.call('GET', '/conversation-schema')
  expect(conversation).toMatchObject({ status: 200, json: { model_name: 'ConversationSettings' } })
  const { json } = await server.call('GET', '')
  const { json: acp } = await patch(server, { agent_settings_diff: { agent_kind: 'acp' } })
  const isAcp = ({ variant }: { variant: string | null }) => variant === 'acp'
  for (const [sections, values] of [
    [agent.json.sections.filter(isAcp), acp.agent_settings],
    [agent.json.sections.filter((section: { variant: null }) => !isAcp(section)), json.agent_settings],
    [conversation.json.sections, json.conversation_settings],
  ] as const)
    for (const { key, default: usual } of sections.flatMap(({ fields }: { fields: unknown[] }) => fields)) {
      const at = key.split('.').reduce((value: object, name: string) => Reflect.get(value, name), values)
      expect([key, at]).toEqual([key, usual])
    }
})

test('a damaged document is a conflict and is not overwritten', async () => {
  await using server = await openServer()
  const { writeFileSync } = await import('node:fs')
  await patch(server, { agent_settings_diff: { llm: { api_key: 'canary' } } })
  const place = temporaryDirectory()
  using _ = place
  writeFileSync(join(place.path, 'settings.sealed'), 'bm90IGl0')
  const broken = new ServerSettings({ documents: fileDocuments(place.path), cipher: server.cipher })
  await expect(broken.read()).rejects.toMatchObject({ code: 'conflict' })
  await expect(broken.modify((stored) => ({ ...stored, misc_settings: {} }))).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(readFileSync(join(place.path, 'settings.sealed'), 'utf8')).toBe('bm90IGl0')
})

test('a meta-profile is activated and put away by a change of the settings', async () => {
  await using server = await openServer()
  const config = { classifier_model: 'small', classes: [{ description: 'any', model: 'large' }] }
  await server.metaProfiles.save('a', metaProfile.parse(config))
  expect(await patch(server, { active_meta_profile: 'b' })).toMatchObject({ status: 404 })
  const on = { active_meta_profile: 'a', enable_classify_and_switch_llm_tool: true, meta_profile: config }
  expect((await patch(server, { active_meta_profile: 'a' })).json).toMatchObject({
    active_meta_profile: 'a',
    agent_settings: on,
  })
  expect((await server.call('GET', '')).json.agent_settings).toMatchObject(on)
  expect((await patch(server, { active_meta_profile: null })).json).toMatchObject({
    active_meta_profile: null,
    agent_settings: { active_meta_profile: null, enable_classify_and_switch_llm_tool: false },
  })
  const acp = { active_meta_profile: 'a', agent_settings_diff: { agent_kind: 'acp' } }
  expect(await patch(server, acp)).toMatchObject({ status: 409 })
  expect((await server.call('GET', '')).json.agent_settings.agent_kind).toBe('openhands')
})
