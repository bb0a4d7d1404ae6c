import { createApp, type Handlers, listen } from '@slipway/http'
import { sandboxServerRoutes } from '@slipway/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Accounts } from './accounts.ts'
import { profileHandlers } from './profile-handlers.ts'
import { secretHandlers } from './secret-handlers.ts'
import { settingsHandlers } from './settings-handlers.ts'

const stars = '**********'

/** The handlers of accounts on a real store, for one user. */
async function openServer() {
  const fixture = await openTestControlPlane()
  onTestFinished(() => fixture[Symbol.asyncDispose]())
  const { documents, users } = fixture.controlPlane
  const accounts = new Accounts({ documents, cipher: fixture.cipher, model: undefined, maxProfiles: 5 })
  const real = {
    ...settingsHandlers({ accounts, users, sandboxes: { findByKey: async () => undefined } }),
    ...profileHandlers({ accounts }),
    ...secretHandlers({ accounts, lookupSecrets: Object.create(null) }),
  }
  const unused = Object.keys(sandboxServerRoutes).map((name) => [name, () => ({ json: null })])
  const handlers: Handlers<typeof sandboxServerRoutes> = { ...Object.fromEntries(unused), ...real }
  const caller = { owner: 'u', org: undefined, scopes: ['read', 'write'], isAdmin: false }
  const app = createApp(sandboxServerRoutes, handlers, {
    ...{ openapi: {}, identify: async () => caller, log: () => {} },
  })
  const server = await listen(app, { host: '127.0.0.1', port: 0, stopMs: 200 })
  onTestFinished(() => server.close())
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`http://127.0.0.1:${server.port}/api/v1${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
    return { status: response.status, body: await response.json() }
  }
  return { ask, accounts }
}

test('settings have every member; secrets are null there and stars of the user, and stars sent back change nothing', async () => {
  const { ask, accounts } = await openServer()
  const llm = { model: 'a/b', api_key: 'sk-canary' }
  const mcp_config = { s: { command: 'c', env: { TOKEN: 'canary' } } }
  await ask('POST', '/settings', { agent_settings_diff: { llm, mcp_config }, search_api_key: 'tvly-canary' })
  const [settings, me] = [await ask('GET', '/settings'), await ask('GET', '/users/me')]
  for (const { body } of [settings, me])
    expect(body).toMatchObject({
      agent_settings: {
        ...{ schema_version: 5, agent_kind: 'openhands', tools: null, condenser: { enabled: true } },
        llm: { model: 'a/b', temperature: null, num_retries: 5 },
      },
      conversation_settings: { schema_version: 1, max_iterations: 500, security_analyzer: null },
    })
  expect(JSON.stringify([settings, me])).not.toContain('canary')
  expect([settings.body.search_api_key, settings.body.agent_settings.llm.api_key]).toEqual([null, null])
  expect([me.body.search_api_key, me.body.agent_settings.llm.api_key]).toEqual([stars, stars])
  const { agent_settings: agent_settings_diff, search_api_key } = me.body
  expect(await ask('POST', '/settings', { agent_settings_diff, search_api_key })).toMatchObject({
    status: 200,
  })
  expect(await accounts.userSettings.read('u')).toMatchObject({
    search_api_key: 'tvly-canary',
    agent_settings: { llm, mcp_config },
  })
  await ask('POST', '/settings/profiles/p')
  expect((await ask('GET', '/settings/profiles/p')).body).toMatchObject({ api_key_set: true })
  expect((await ask('GET', '/users/me')).body).toEqual({ ...me.body, llm_profiles: expect.anything() })
})

test('members that replace whole settings are refused by name, and invalid settings with text and place', async () => {
  const { ask } = await openServer()
  expect(await ask('POST', '/settings', { agent_settings: {}, language: 'de' })).toMatchObject({
    status: 422,
    body: { error: expect.stringContaining('agent_settings_diff'), keys: ['agent_settings'] },
  })
  for (const [diff, place] of [
    [{ agent_settings_diff: { llm: { temperature: 'hot' } } }, ['agent_settings', 'llm', 'temperature']],
    [{ agent_settings_diff: { tool_concurrency_limit: 0 } }, ['agent_settings', 'tool_concurrency_limit']],
    [{ conversation_settings_diff: { max_iterations: 0 } }, ['conversation_settings', 'max_iterations']],
  ] as const)
    expect(await ask('POST', '/settings', diff)).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining(place.join('.')), detail: [{ loc: ['body', ...place] }] },
    })
  expect((await ask('GET', '/settings')).body).toMatchObject({ language: null })
})

test('marketplaces have their defaults and the scope of a user; an invalid one or two of a name are refused', async () => {
  const { ask } = await openServer()
  const team = { name: 'team', source: 'github:example/skills', scope: 'org' }
  await ask('POST', '/settings', { registered_marketplaces: [team] })
  const shown = [{ ...team, ref: null, repo_path: null, auto_load: false, scope: 'personal' }]
  expect((await ask('GET', '/settings')).body.registered_marketplaces).toEqual(shown)
  const bad = [
    ...[
      { name: 'team' },
      { ...team, name: '1 team' },
      { ...team, repo_path: '../x' },
      { ...team, auto_load: 'x' },
    ],
    ...['/etc', 'a/../b', 'https://user:token@example.org/a'].map((source) => ({ ...team, source })),
  ]
  for (const registered_marketplaces of [...bad.map((one) => [one]), [team, team]])
    expect(await ask('POST', '/settings', { registered_marketplaces })).toMatchObject({ status: 400 })
  expect((await ask('GET', '/settings')).body.registered_marketplaces).toEqual(shown)
})

test('a profile refuses members that no server knows, and takes those of other servers', async () => {
  const { ask } = await openServer()
  const save = (llm: object) => ask('POST', '/settings/profiles/p', { llm: { model: 'a/b', ...llm } })
  // As the form of the web client sends it.
  expect((await save({ provider_connection_id: null })).status).toBe(201)
  expect((await save({ provider_connection_id: 'c' })).status).toBe(422)
  expect(await save({ custom_header: 'x' })).toMatchObject({
    status: 422,
    body: { detail: [{ type: 'extra_forbidden', loc: ['body', 'llm', 'custom_header'] }] },
  })
  expect(await save({ drop_params: true, auth_type: 'api_key' })).toMatchObject({ status: 201 })
})

test('a new value of a secret keeps its description, and a host without a token is no provider that is set', async () => {
  const { ask } = await openServer()
  await ask('POST', '/secrets', { name: 'A', value: '1', description: 'The first' })
  await ask('POST', '/secrets', { name: 'A', value: '2' })
  await ask('POST', '/secrets', { name: 'B', value: '3' })
  expect((await ask('GET', '/secrets/search')).body.items).toEqual([
    { name: 'A', description: 'The first' },
    { name: 'B', description: '' },
  ])
  await ask('POST', '/secrets/git-providers', { provider_tokens: { github: { host: 'git.example.org' } } })
  expect((await ask('GET', '/settings')).body.provider_tokens_set).toEqual({})
})
