import { afterEach, expect } from 'vitest'
import { expectAnswer, expectUnauthorized } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  commandReply,
  finishReply,
  type Json,
  OwnMapServer,
  openMapServer,
  unknownId,
} from '../map-server.ts'
import { StoredDocument, withChangedCharacter } from '../stored-document.ts'
import { removeProfiles } from './remove-profiles.ts'

const map = openMapServer()
const base = '/api/agent-profiles'
/** What a case that failed has left. */
afterEach(async () => {
  await map.request('DELETE', '/api/settings/mcp/map-f21')
  await removeProfiles(map)
})
const own = { hasOwnServer: true }
type Server = Pick<typeof map, 'request' | 'requestOrThrow'>
const save = (name: string, body: object, status = 201, on: Server = map) =>
  expectAnswer(on, status, 'POST', `${base}/${name}`, { body })
const remove = (name: string, on: Server = map) => expectAnswer(on, 200, 'DELETE', `${base}/${name}`)
interface Profile extends Json {
  readonly id: string
  readonly name: string
  readonly revision: number
}
const read = async (name: string, on: Server = map) =>
  (await on.requestOrThrow<{ profile: Profile }>('GET', `${base}/${name}`)).profile
interface List {
  readonly profiles: readonly Profile[]
  readonly active_agent_profile_id: string | null
}
const list = (on: Server = map) => on.requestOrThrow<List>('GET', base)
const saveModel = (name: string, llm: object, on: Server = map) =>
  on.requestOrThrow('POST', `/api/profiles/${name}`, { body: { llm } })
const patch = (body: object, on: Server = map) => on.requestOrThrow('PATCH', '/api/settings', { body })
const materialize = (name: string, body: unknown = {}, status = 200, shape?: object, on: Server = map) =>
  expectAnswer(on, status, 'POST', `${base}/${name}/materialize`, { body }, shape)
const draft = (profile: object, shape: object) => materialize('map-draft', { profile }, 200, shape)
const open = { agent_kind: 'openhands', llm_profile_ref: 'map-f21' }
const openOwn = () => OwnMapServer.open({ key: 'map-key-2' })
const keyed = { model: 'openai/gpt-4o', api_key: 'map-agent-key' }

mapCase('F21.auth-required', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['GET', base],
    ['GET', `${base}/map`],
    ['POST', `${base}/map`, open],
    ['DELETE', `${base}/map`],
    ['POST', `${base}/map/rename`, { new_name: 'x' }],
    ['POST', `${base}/00000000-0000-4000-8000-000000000000/activate`],
    ['POST', `${base}/map/materialize`, {}],
  )
})
mapCase(
  'F21.lazy-seed',
  'the first list makes a default profile of the active model profile, once',
  async () => {
    await using server = await openOwn()
    await saveModel('map-active', keyed, server)
    await server.requestOrThrow('POST', '/api/profiles/map-active/activate')
    const first = await list(server)
    expect(first.profiles).toMatchObject([
      { name: 'default', agent_kind: 'openhands', revision: 0, llm_profile_ref: 'map-active' },
    ])
    expect(first.active_agent_profile_id).toBe(first.profiles[0]?.id)
    expect(await list(server)).toEqual(first)
  },
  own,
)
mapCase(
  'F21.seed-no-ghost-llm',
  'no model profile without a key; with one it is saved',
  async () => {
    await using server = await openOwn()
    expect((await list(server)).profiles).toMatchObject([{ name: 'default', llm_profile_ref: 'default' }])
    expect(await server.requestOrThrow('GET', '/api/profiles')).toMatchObject({ profiles: [] })
    await materialize('default', {}, 200, { valid: false }, server)
    await remove('default', server)
    await patch({ active_agent_profile_id: null, agent_settings_diff: { llm: keyed } }, server)
    await list(server)
    expect(await server.requestOrThrow('GET', '/api/profiles')).toMatchObject({
      profiles: [{ name: 'default', api_key_set: true }],
    })
  },
  own,
)
mapCase(
  'F21.seed-acp',
  'ACP settings make an ACP profile',
  async () => {
    await using server = await openOwn()
    await patch({ agent_settings_diff: { agent_kind: 'acp', acp_server: 'codex' } }, server)
    expect((await list(server)).profiles).toMatchObject([
      { name: 'default', agent_kind: 'acp', llm_profile_ref: null },
    ])
    expect(await server.requestOrThrow('GET', '/api/profiles')).toMatchObject({ profiles: [] })
  },
  own,
)
mapCase(
  'F21.save-create',
  'the server makes the id, the path names it, the revision begins at 0',
  async () => {
    const done = await save('map-create', { llm_profile_ref: 'map-f21', id: unknownId, name: 'other' })
    expect(done).toMatchObject({ name: 'map-create' })
    const found = await read('map-create')
    expect(found).toMatchObject({ name: 'map-create', revision: 0, llm_profile_ref: 'map-f21' })
    expect(found.id).not.toBe(unknownId)
    expect((await list()).profiles).toContainEqual(
      expect.objectContaining({ id: found.id, name: 'map-create' }),
    )
    await remove('map-create')
  },
)
mapCase('F21.save-overwrite', 'a second save replaces all, keeps the id and adds one revision', async () => {
  await save('map-over', { ...open, system_message_suffix: 'once' })
  const { id } = await read('map-over')
  await save('map-over', { ...open, revision: 40 })
  const found = await read('map-over')
  expect([found.id, found.revision, found.system_message_suffix ?? null]).toEqual([id, 1, null])
  await remove('map-over')
})
mapCase('F21.acp-kind', 'an ACP profile has no model profile', async () => {
  await save('map-acp', { agent_kind: 'acp', acp_server: 'claude-code' })
  expect(await read('map-acp')).toMatchObject({ agent_kind: 'acp', acp_server: 'claude-code' })
  expect((await list()).profiles.find(({ name }) => name === 'map-acp')).toMatchObject({
    llm_profile_ref: null,
  })
  await remove('map-acp')
})
mapCase('F21.save-validation', 'profiles that cannot be meant are 422', async () => {
  for (const body of [
    {},
    { ...open, acp_server: 'codex' },
    { ...open, unknown_member: 1 },
    { agent_kind: 'acp', acp_server: 5 },
    { ...open, agent_kind: 'other' },
    { ...open, schema_version: 99 },
    [],
  ])
    expect([body, await map.requestStatus('POST', `${base}/map-bad`, { body })]).toEqual([body, 422])
  await expectAnswer(map, 404, 'GET', `${base}/map-bad`)
})
mapCase(
  'F21.name-rules',
  'names are as those of model profiles; ids have at most 128 characters',
  async () => {
    await save('m'.repeat(64), open)
    await remove('m'.repeat(64))
    for (const name of ['m'.repeat(65), '.map', '-map', 'm%20p']) {
      await expectAnswer(map, 422, 'GET', `${base}/${name}`)
      await save(name, open, 422)
    }
    await save('map-name', open)
    await expectAnswer(map, 422, 'POST', `${base}/map-name/rename`, { body: { new_name: '-x' } })
    await remove('map-name')
    await expectAnswer(map, 422, 'POST', `${base}/${'m'.repeat(129)}/activate`)
  },
)
mapCase('F21.not-found', 'unknown names and ids are 404; a delete is 200', async () => {
  const detail = { detail: "Agent profile 'map-none' not found" }
  await expectAnswer(map, 404, 'GET', `${base}/map-none`, {}, detail)
  await expectAnswer(map, 404, 'POST', `${base}/map-none/rename`, { body: { new_name: 'x' } }, detail)
  await materialize('map-none', {}, 404, detail)
  await expectAnswer(map, 404, 'POST', `${base}/map-none/activate`)
  await remove('map-none')
})
mapCase('F21.activate', 'activation moves the pointer and nothing else', async () => {
  await save('map-act', open)
  const { id } = await read('map-act')
  const before = await map.requestOrThrow<Json>('GET', '/api/settings')
  await expectAnswer(map, 200, 'POST', `${base}/${id}/activate`, {}, { agent_settings_applied: false })
  expect((await list()).active_agent_profile_id).toBe(id)
  expect(await map.requestOrThrow('GET', '/api/settings')).toMatchObject({
    active_agent_profile_id: id,
    agent_settings: before.agent_settings,
  })
  await remove('map-act')
})
mapCase('F21.rename', 'a rename keeps id, revision and pointer', async () => {
  await save('map-old', open)
  await save('map-taken', open)
  const { id, revision } = await read('map-old')
  await map.requestOrThrow('POST', `${base}/${id}/activate`)
  const rename = (name: string, new_name: string, status = 200) =>
    expectAnswer(map, status, 'POST', `${base}/${name}/rename`, { body: { new_name } })
  await rename('map-old', 'map-new')
  expect(await read('map-new')).toMatchObject({ id, revision })
  expect((await list()).active_agent_profile_id).toBe(id)
  await expectAnswer(map, 404, 'GET', `${base}/map-old`)
  expect((await rename('map-new', 'map-new')).message).toContain('unchanged')
  await rename('map-new', 'map-taken', 409)
  for (const name of ['map-new', 'map-taken']) await remove(name)
})
mapCase(
  'F21.delete',
  'only the delete of the active profile clears the pointer',
  async () => {
    await save('map-a', open)
    await save('map-b', open)
    const { id } = await read('map-a')
    await map.requestOrThrow('POST', `${base}/${id}/activate`)
    await remove('map-b')
    expect((await list()).active_agent_profile_id).toBe(id)
    await save('map-b', open)
    await remove('map-a')
    expect((await list()).active_agent_profile_id).toBe(null)
    await remove('map-b')
  },
  { faultThere: 'the default profile becomes the active one' },
)
mapCase(
  'F21.delete-active-acp-reset',
  'ACP settings become defaults that keep the MCP servers',
  async () => {
    await using server = await openOwn()
    await server.requestOrThrow('POST', '/api/settings/mcp/map', { body: { command: 'true' } })
    await patch({ agent_settings_diff: { agent_kind: 'acp' } }, server)
    await save('map-active', { agent_kind: 'acp', acp_server: 'codex' }, 201, server)
    const { id } = await read('map-active', server)
    await server.requestOrThrow('POST', `${base}/${id}/activate`)
    await remove('map-active', server)
    await expectAnswer(
      server,
      200,
      'GET',
      '/api/settings',
      {},
      {
        agent_settings: { agent_kind: 'openhands', mcp_config: { map: { command: 'true' } } },
      },
    )
  },
  own,
)
mapCase('F21.materialize-valid', 'a profile that resolves shows its settings without the key', async () => {
  await saveModel('map-f21', keyed)
  await save('map-mat', { ...open, secret_refs: ['MAP_ONE'] })
  const found = await materialize('map-mat', {}, 200, {
    valid: true,
    llm_profile_resolved: true,
    llm_api_key_set: true,
    secret_refs: ['MAP_ONE'],
    resolved_settings: { llm: { api_key: '**********' } },
  })
  expect(JSON.stringify(found)).not.toContain('map-agent-key')
  await remove('map-mat')
})
mapCase('F21.materialize-dangling', 'every reference to nothing is reported', async () => {
  const found = await materialize(
    'map-draft',
    {
      profile: {
        agent_kind: 'openhands',
        llm_profile_ref: 'map-none',
        mcp_server_refs: ['map-no-mcp'],
        meta_profile_ref: 'map-no-meta',
        enable_classify_and_switch_llm_tool: true,
        tools: [{ name: 'map_no_tool' }],
      },
    },
    200,
    { valid: false, resolved_settings: null },
  )
  const errors = JSON.stringify(found.errors)
  for (const text of [
    "LLM profile 'map-none' not found",
    'MCP server(s) not configured: map-no-mcp',
    "Meta-profile 'map-no-meta' not found",
    'Tool(s) this server cannot run: map_no_tool',
  ])
    expect(errors).toContain(text)
})
mapCase('F21.materialize-draft', 'a draft is shown and not saved', async () => {
  await saveModel('map-f21', keyed)
  await map.requestOrThrow('POST', '/api/settings/mcp/map-f21', { body: { command: 'true' } })
  await draft({ agent_kind: 'acp', acp_server: 'codex' }, { acp_api_key_secret_name: 'OPENAI_API_KEY' })
  await draft(open, { resolved_mcp_config_keys: ['map-f21'] })
  await draft({ ...open, mcp_server_refs: [] }, { resolved_mcp_config_keys: [] })
  await materialize('map-draft', { profile: { acp_server: 'codex' } }, 422)
  await materialize('map-draft', { profile: open, extra: 1 }, 422)
  await expectAnswer(map, 404, 'GET', `${base}/map-draft`)
  await map.requestOrThrow('DELETE', '/api/settings/mcp/map-f21')
})
mapCase('F21.limit', 'at 50 profiles another is 409, an overwrite 201', async () => {
  const present = (await list()).profiles.length
  for (let n = present; n < 50; n++) await save(`map-l${n}`, open)
  await save('map-more', open, 409)
  await save('map-l49', open)
  for (let n = present; n < 50; n++) await remove(`map-l${n}`)
})
const start = (profile: string, more: object = {}, status = 201) =>
  read(profile).then(({ id }) =>
    expectAnswer<{ id: string } & Json>(map, status, 'POST', '/api/conversations', {
      body: { agent_profile_id: id, workspace: { working_dir: map.directory }, autotitle: false, ...more },
    }),
  )
mapCase('F21.conversation-start', 'a conversation has the model and the tools of its profile', async () => {
  const model = await map.openModel(finishReply())
  await saveModel('map-start', model.llm('chat'))
  await save('map-start', {
    agent_kind: 'openhands',
    llm_profile_ref: 'map-start',
    tools: [{ name: 'terminal' }],
  })
  const { id, revision } = await read('map-start')
  const made = await start('map-start')
  expect(made).toMatchObject({
    launched_agent_profile: { agent_profile_id: id, revision },
    agent: { tools: [{ name: 'terminal' }] },
  })
  await map.sendMessage(made.id, 'Go.', true)
  const { execution_status } = await map.waitForStatus(made.id, 'finished', 'error')
  expect(execution_status, JSON.stringify((await map.getEvents(made.id)).at(-1))).toBe('finished')
  expect(model.requests.length).toBe(1)
  await remove('map-start')
})
mapCase('F21.secret-scope', 'secrets that a profile does not name are dropped', async () => {
  const model = await map.openModel(
    commandReply('test -n "$MAP_A" && echo a-there; test -n "$MAP_B" || echo b-gone'),
    finishReply(),
  )
  await saveModel('map-scope', model.llm('chat'))
  await save('map-scope', {
    agent_kind: 'openhands',
    llm_profile_ref: 'map-scope',
    tools: [{ name: 'terminal' }],
    secret_refs: ['MAP_A'],
  })
  const secret = (value: string) => ({ kind: 'StaticSecret', value })
  const secrets = { MAP_A: secret('value-of-a'), MAP_B: secret('value-of-b') }
  const made = await start('map-scope', { secrets })
  await map.sendMessage(made.id, 'Go.', true)
  await map.waitForStatus(made.id, 'finished')
  const results = JSON.stringify(
    (await map.getEvents(made.id)).filter(({ kind }) => kind === 'ObservationEvent'),
  )
  expect(results).toContain('b-gone')
  expect(results).toContain('a-there')
  await remove('map-scope')
})
mapCase('F21.launch-additions', 'a text is appended to the suffix of one conversation', async () => {
  const model = await map.openModel(finishReply())
  await saveModel('map-add', model.llm('chat'))
  await save('map-add', {
    agent_kind: 'openhands',
    llm_profile_ref: 'map-add',
    system_message_suffix: 'MAP_SUFFIX',
  })
  const additions = (value: object) => ({ agent_launch_additions: value })
  const made = await start('map-add', additions({ system_message_suffix_append: 'MAP_APPENDED' }))
  expect(made).toMatchObject({
    agent: { agent_context: { system_message_suffix: 'MAP_SUFFIX\n\nMAP_APPENDED' } },
  })
  await map.sendMessage(made.id, 'Go.', true)
  await map.waitForStatus(made.id, 'finished')
  const prompt = (await map.getEvents(made.id)).find(({ kind }) => kind === 'SystemPromptEvent')
  expect(JSON.stringify(prompt)).toContain('MAP_APPENDED')
  expect((await read('map-add')).revision).toBe(0)
  for (const bad of [{ unknown: 'x' }, { system_message_suffix_append: 'x'.repeat(32_769) }])
    await start('map-add', additions(bad), 422)
  await remove('map-add')
})
mapCase('F21.ts-client', 'the published client saves, renames, activates, shows and deletes', async () => {
  const { AgentProfilesClient } = await import('@openhands/typescript-client/clients')
  const client = new AgentProfilesClient({
    host: map.url,
    ...(map.key === undefined ? {} : { apiKey: map.key }),
  })
  await client.saveAgentProfile('map-ts', { ...open } as never)
  const { profile } = await client.getAgentProfile('map-ts')
  await client.renameAgentProfile('map-ts', 'map-ts-2')
  await client.activateAgentProfile(String(profile.id))
  expect((await client.listAgentProfiles()).active_agent_profile_id).toBe(profile.id)
  expect(await client.materializeAgentProfile('map-ts-2')).toMatchObject({ valid: expect.any(Boolean) })
  await client.deleteAgentProfile('map-ts-2')
  await expect(client.getAgentProfile('map-ts-2')).rejects.toMatchObject({ status: 404 })
  await expect(client.getAgentProfile('-map')).rejects.toMatchObject({ status: 422 })
})
mapCase(
  'F21.restart',
  'profiles and the pointer survive a restart',
  async () => {
    await using server = await openOwn()
    await save('map-kept', open, 201, server)
    await save('map-kept', open, 201, server)
    const { id } = await read('map-kept', server)
    await server.requestOrThrow('POST', `${base}/${id}/activate`)
    await server.restart()
    expect(await read('map-kept', server)).toMatchObject({ id, revision: 1 })
    expect((await list(server)).active_agent_profile_id).toBe(id)
  },
  own,
)
mapCase('F21.acp-skill-sourcing', 'an ACP profile has no skills of the server by default', async () => {
  await draft(
    { agent_kind: 'acp', acp_server: 'codex' },
    { valid: true, errors: [], resolved_skills: [], resolved_settings: { agent_kind: 'acp' } },
  )
})
mapCase(
  'F21.dangling-llm-report',
  'a model profile that is missing is named by a member',
  async () => {
    await draft(
      { agent_kind: 'openhands', llm_profile_ref: 'map-none' },
      { dangling_llm_profile_ref: 'map-none' },
    )
  },
  { faultThere: 'no such member' },
)
mapCase(
  'F21.ts-payload-types',
  'profiles have the members that the types of the client declare',
  async () => {
    await save('map-types', open)
    const entry = (await list()).profiles.find(({ name }) => name === 'map-types') ?? {}
    expect(Object.keys(entry).sort()).toEqual(
      ['agent_kind', 'id', 'llm_profile_ref', 'mcp_server_refs', 'name', 'revision'].sort(),
    )
    await remove('map-types')
  },
)
mapCase('F21.json-suffix-identity', 'a name with .json keeps one id, or is refused', async () => {
  const body = open
  const first = await map.requestStatus('POST', `${base}/map-x.json`, { body })
  if (first === 422) return
  const { id } = await read('map-x.json')
  await save('map-x.json', body)
  expect(await read('map-x.json')).toMatchObject({ id, revision: 1 })
  await map.requestOrThrow('POST', `${base}/${id}/activate`)
  await remove('map-x.json')
  expect((await list()).active_agent_profile_id).not.toBe(id)
})
differs(
  'F21.activate-corrupt-settings',
  'with damaged settings an activation fails and leaves the file',
  'damaged files of the server',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    await list(server)
    await save('map-other', open, 201, server)
    const { id } = await read('map-other', server)
    const before = (await list(server)).active_agent_profile_id
    const activate = (status: number, shape: object) =>
      expectAnswer(server, status, 'POST', `${base}/${id}/activate`, {}, shape)
    await new StoredDocument(server, 'settings.sealed').whileDamaged('{"agent_settings": ', async () => {
      await activate(409, {
        detail: expect.stringContaining('Settings file is corrupted or encrypted with a different key'),
      })
    })
    expect((await list(server)).active_agent_profile_id).toBe(before)
    await activate(200, {})
    expect((await list(server)).active_agent_profile_id).toBe(id)
  },
)
differs(
  'F21.corrupt-file',
  'a damaged profile is not listed and 400',
  'damaged files of the server',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    await save('map-sealed', open, 201, server)
    const before = await list(server)
    const file = new StoredDocument(server, 'agent-profiles.sealed')
    for (const text of ['', '{not json', withChangedCharacter(await file.read())])
      await file.whileDamaged(text, async () => {
        for (const [method, path, body] of [
          ['GET', base],
          ['GET', `${base}/map-sealed`],
          ['POST', `${base}/map-sealed`, open],
          ['POST', `${base}/map-sealed/materialize`, {}],
          ['POST', `${base}/map-sealed/rename`, { new_name: 'map-renamed' }],
          ['DELETE', `${base}/map-sealed`],
        ] as const)
          await expectAnswer(server, 409, method, path, body === undefined ? {} : { body })
      })
    expect(await list(server)).toEqual(before)
  },
)
const noLock = 'one server owns its data directory: there is no lock that another program could hold'
notApplicable('F21.store-busy', 'a lock held by another process', noLock)
notApplicable('F21.launch-store-busy', 'a start while a lock is held', noLock)
notApplicable('F21.busy-blocks-server', 'other requests while a lock is held', noLock)

endFamily('F21', 32)
