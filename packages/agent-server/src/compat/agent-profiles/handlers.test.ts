import { agentProfileRoutes, llm } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LlmProfiles } from '../../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../../modules/settings/server-settings.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { openTestServer } from '../../testing/test-server.ts'
import { AgentProfiles } from './agent-profiles.ts'
import { agentProfileHandlers } from './handlers.ts'

const path = '/api/agent-profiles'
const canary = 'sk-canary-4711-0815'
const minimal = { agent_kind: 'openhands', llm_profile_ref: 'm' }

async function openServer(max = 50) {
  const stores: { models?: LlmProfiles; settings?: ServerSettings } = {}
  const server = await openTestServer(agentProfileRoutes, ({ directory, cipher }) => {
    const settings = new ServerSettings({ documents: fileDocuments(directory), cipher })
    const llmProfiles = new LlmProfiles({ documents: fileDocuments(directory), cipher, settings })
    Object.assign(stores, { models: llmProfiles, settings })
    const profiles = new AgentProfiles({
      documents: fileDocuments(directory),
      cipher,
      llmProfiles,
      settings,
      listUserSkills: async () => [{ name: 'one' }],
      max,
    })
    return agentProfileHandlers({ profiles })
  })
  const { models, settings } = stores
  if (models === undefined || settings === undefined) throw new Error()
  return { ...server, models, settings }
}

test('profiles are listed, read, saved, activated by id, renamed and deleted', async () => {
  await using server = await openServer()
  const { call } = server
  const { json: list } = await call('GET', path)
  const { id } = Object(list).profiles[0]
  expect(list).toEqual({
    profiles: [
      {
        id,
        name: 'default',
        agent_kind: 'openhands',
        revision: 0,
        llm_profile_ref: 'default',
        mcp_server_refs: null,
      },
    ],
    active_agent_profile_id: id,
  })
  const { json: detail } = await call('GET', `${path}/default`)
  const { profile } = Object(detail)
  expect(detail).toMatchObject({
    name: 'default',
    profile: {
      schema_version: 3,
      id,
      name: 'default',
      revision: 0,
      agent: 'CodeActAgent',
      tools: null,
      disabled_skills: [],
      condenser: { condenser_kind: 'llm_summarizing', max_size: 240 },
      verification: { critic_enabled: false, critic_server_url: null },
      enable_switch_llm_tool: true,
      tool_concurrency_limit: 1,
    },
  })
  // As clients do it: what was shown goes back with a change.
  const saved = { name: 'mine', message: expect.any(String) }
  expect(await call('POST', `${path}/mine`, { ...profile, disabled_skills: ['one'] })).toEqual({
    status: 201,
    json: saved,
  })
  expect(await call('POST', `${path}/mine`, { ...minimal, condenser: null, tools: null })).toMatchObject({
    status: 201,
  })
  const { json: mine } = await call('GET', `${path}/mine`)
  expect(mine).toMatchObject({ profile: { name: 'mine', revision: 1, disabled_skills: [] } })
  const mineId = Object(mine).profile.id
  expect(mineId).not.toBe(id)
  expect(await call('POST', `${path}/${mineId}/activate`, {})).toEqual({
    status: 200,
    json: { id: mineId, message: expect.any(String), agent_settings_applied: false },
  })
  expect(await call('POST', `${path}/mine/rename`, { new_name: 'default' })).toMatchObject({ status: 409 })
  expect(await call('POST', `${path}/mine/rename`, { new_name: 'ours' })).toEqual({
    status: 200,
    json: { name: 'ours', message: expect.any(String) },
  })
  expect(await call('GET', `${path}/mine`)).toMatchObject({ status: 404 })
  expect(await call('GET', path)).toMatchObject({ json: { active_agent_profile_id: mineId } })
  for (const name of ['ours', 'ours', 'never'])
    expect(await call('DELETE', `${path}/${name}`)).toMatchObject({ status: 200, json: { name } })
  expect(await call('GET', path)).toMatchObject({
    json: { profiles: [{ name: 'default' }], active_agent_profile_id: null },
  })
})

test('an unknown profile is 404, an invalid id or name 422', async () => {
  await using server = await openServer(1)
  const { call } = server
  const none = crypto.randomUUID()
  const answers = [
    await call('GET', `${path}/none`),
    await call('POST', `${path}/none/rename`, { new_name: 'x' }),
    await call('POST', `${path}/none/materialize`, {}),
    await call('POST', `${path}/${none}/activate`, {}),
    await call('POST', `${path}/default/activate`, {}),
  ]
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404])
  const bad = [
    await call('GET', `${path}/%2e%2e%2fx`),
    await call('POST', `${path}/${'x'.repeat(65)}`, minimal),
    await call('POST', `${path}/default/rename`, { new_name: 'a/b' }),
    await call('POST', `${path}/default/rename`, {}),
  ]
  expect(bad.map(({ status }) => status)).toEqual([422, 422, 422, 422])
  await call('GET', path)
  expect(await call('POST', `${path}/second`, minimal)).toMatchObject({ status: 409 })
})

test('a wrong or unknown member, or one of another kind, is refused with its place', async () => {
  await using server = await openServer()
  const { call } = server
  const bad: readonly (readonly [object, (string | number)[]])[] = [
    [{}, ['llm_profile_ref']],
    [{ ...minimal, agent_kind: 'other' }, ['agent_kind']],
    [{ ...minimal, schema_version: 4 }, ['schema_version']],
    [{ agent_kind: 'other' }, ['agent_kind']],
    [{ agent_kind: 'openhands' }, ['llm_profile_ref']],
    [{ ...minimal, llm_profile_ref: '' }, ['llm_profile_ref']],
    [{ ...minimal, llm_profile_ref: null }, ['llm_profile_ref']],
    [{ ...minimal, more: canary }, ['more']],
    [{ ...minimal, secret_refs: 'A' }, ['secret_refs']],
    [{ ...minimal, acp_model: 'x' }, ['acp_model']],
    [{ ...minimal, verification: { critic_api_key: canary } }, ['verification', 'critic_api_key']],
    [{ ...minimal, condenser: { max_size: 19 } }, ['condenser', 'max_size']],
    [{ ...minimal, condenser: { keep_first: 200 } }, ['condenser', 'keep_first']],
    [{ ...minimal, tools: [{}] }, ['tools', 0, 'name']],
    [{ ...minimal, tools: [{ name: 'x', params: { api_key: canary } }] }, ['tools']],
    [
      { ...minimal, verification: { critic_server_url: `https://u:${canary}@x.example` } },
      ['verification', 'critic_server_url'],
    ],
    [{ ...minimal, tool_concurrency_limit: 0 }, ['tool_concurrency_limit']],
    [{ agent_kind: 'acp', acp_server: 'other' }, ['acp_server']],
    [{ agent_kind: 'acp', acp_server: 'codex', llm_profile_ref: 'm' }, ['llm_profile_ref']],
  ]
  for (const [body, loc] of bad)
    expect([body, await call('POST', `${path}/a`, body)]).toMatchObject([
      body,
      { status: 422, json: { detail: [{ loc: ['body', ...loc] }] } },
    ])
  expect(await call('GET', `${path}/a`)).toMatchObject({ status: 404 })
  expect(await call('POST', `${path}/a`, { agent_kind: 'acp', acp_server: 'codex' })).toMatchObject({
    status: 201,
  })
  expect(await server.collectOutput()).not.toContain('canary')
})

test('a diagnosis has the settings of a conversation and no secret', async () => {
  await using server = await openServer()
  const { call, models, settings } = server
  await models.save(
    'm',
    llm.parse({
      model: 'openai/m',
      api_key: canary,
      base_url: `https://user:${canary}@x.example`,
      extra_headers: { 'x-any': canary },
    }),
  )
  const mcp_config = {
    web: { url: `https://x.example/mcp?token=${canary}`, headers: { Authorization: `Bearer ${canary}` } },
    local: { command: 'x', args: ['--api-key', canary], env: { ANY: canary } },
  }
  const verification = { critic_api_key: canary }
  await settings.modify((stored) => ({ ...stored, agent_settings: { mcp_config, verification } }))
  await call('POST', `${path}/a`, { ...minimal, mcp_server_refs: ['web', 'local'] })
  const diagnosis = await call('POST', `${path}/a/materialize`, {})
  expect(diagnosis).toMatchObject({
    status: 200,
    json: {
      valid: true,
      llm_api_key_set: true,
      resolved_mcp_config_keys: ['web', 'local'],
      resolved_skills: ['one'],
      resolved_settings: { llm: { model: 'openai/m', api_key: '**********' } },
    },
  })
  await call('POST', `${path}/a`, { ...minimal, mcp_server_refs: ['web', 'gone'] })
  expect(await call('POST', `${path}/a/materialize`)).toMatchObject({
    status: 200,
    json: { valid: false, dangling_mcp_server_refs: ['gone'], resolved_settings: null },
  })
  expect(await server.collectOutput()).not.toContain('canary')
})

test('any JSON gets a status below 500, and an accepted profile is answered unchanged', {
  timeout: 60_000,
}, async () => {
  await using server = await openServer(10_000)
  const { call } = server
  const profile = fc.record(
    {
      agent_kind: fc.constant('openhands'),
      llm_profile_ref: fc.stringMatching(/^[A-Za-z0-9][\w.-]{0,20}$/),
      mcp_server_refs: fc.option(fc.array(fc.string({ minLength: 1 }))),
      system_message_suffix: fc.option(fc.string({ unit: 'binary' })),
      disabled_skills: fc.array(fc.string({ minLength: 1 })),
      enable_sub_agents: fc.boolean(),
      tool_concurrency_limit: fc.integer({ min: 1, max: 100 }),
      tools: fc.option(
        fc.array(
          fc.record({
            name: fc.string(),
            params: fc.dictionary(fc.constantFrom('a', 'B', 'timeout'), fc.oneof(fc.integer(), fc.boolean())),
          }),
        ),
      ),
    },
    { requiredKeys: ['agent_kind', 'llm_profile_ref'] },
  )
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), profile, async (json, good) => {
      expect((await call('POST', `${path}/x`, json)).status).toBe(422)
      expect((await call('POST', `${path}/x`, { ...good, verification: json })).status).toBeLessThan(500)
      expect((await call('POST', `${path}/x`, good)).status).toBe(201)
      const { json: shown } = await call('GET', `${path}/x`)
      expect(Object(shown).profile).toMatchObject(JSON.parse(JSON.stringify(good)))
      expect((await call('POST', `${path}/x/materialize`)).status).toBe(200)
    }),
    { numRuns: 40 },
  )
})
