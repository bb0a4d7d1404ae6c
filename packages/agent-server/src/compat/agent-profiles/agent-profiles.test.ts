import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { agentProfile, llm, metaProfile, Problem } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LlmProfiles } from '../../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../../modules/settings/server-settings.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ProviderConnections } from '../provider-connections/provider-connections.ts'
import { AgentProfiles } from './agent-profiles.ts'

const never = new AbortController().signal
const openHandsProfile = (model: string, more: object = {}) =>
  agentProfile.parse({ agent_kind: 'openhands', llm_profile_ref: model, ...more })
const acp = agentProfile.parse({ agent_kind: 'acp', acp_server: 'codex' })
const rule = metaProfile.parse({
  classifier_model: 'm',
  classes: [{ description: 'any', model: 'm' }],
})
const problemWith = (code: string) => expect.objectContaining({ name: 'Problem', code })

/** The stores of a server, on their own directory. */
async function openStores(max?: number) {
  const directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const path = join(directory.path, 'agent-profiles.sealed')
  const settings = new ServerSettings({ documents: fileDocuments(directory.path), cipher })
  const llmOptions = { documents: fileDocuments(directory.path), cipher, settings }
  const llmProfiles: LlmProfiles = new LlmProfiles({
    ...llmOptions,
    links: {
      findConnection: (id) => connections.resolve(id),
      references: {
        findReferences: (name) => profiles.findReferences(name),
        renameReferences: (name, newName) => profiles.renameReferences(name, newName),
      },
    },
  })
  const connections = new ProviderConnections({
    documents: fileDocuments(directory.path),
    cipher,
    findUsers: async () => [],
  })
  const listUserSkills = async () => [{ name: 'one' }, { name: 'two' }]
  const open = () =>
    new AgentProfiles({
      documents: fileDocuments(directory.path),
      cipher,
      llmProfiles,
      settings,
      findMetaProfile: async (name) => (name === 'rule' ? rule : undefined),
      listUserSkills,
      ...(max === undefined ? {} : { max }),
    })
  const profiles = open()
  return {
    path,
    settings,
    llmProfiles,
    llmOptions,
    connections,
    profiles,
    open,
    [Symbol.dispose]: () => directory[Symbol.dispose](),
  }
}

test('an empty list gets one profile "default", which uses the active LLM profile and is active', async () => {
  using server = await openStores()
  const { profiles, llmProfiles } = server
  await llmProfiles.save('mine', llm.parse({ model: 'openai/m' }))
  await llmProfiles.activate('mine')
  const lists = await Promise.all([profiles.list(), profiles.list(), profiles.list()])
  const [first] = lists[0] ?? []
  expect(lists).toEqual([[first], [first], [first]])
  expect(first).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    name: 'default',
    agent_kind: 'openhands',
    revision: 0,
    llm_profile_ref: 'mine',
    mcp_server_refs: null,
  })
  expect(await profiles.getActiveId()).toBe(first?.id)
  expect(await server.open().list()).toEqual([first])
})

test('saving again keeps the id and increments the revision, whatever the body says', async () => {
  using server = await openStores()
  const { profiles } = server
  await profiles.save('a', openHandsProfile('m', { revision: 77, name: 'other', id: crypto.randomUUID() }))
  const first = await profiles.get('a')
  await profiles.save('a', acp)
  const second = await profiles.get('a')
  expect(first).toMatchObject({ name: 'a', revision: 0, agent_kind: 'openhands' })
  expect(second).toMatchObject({ name: 'a', revision: 1, agent_kind: 'acp', id: first?.id })
  await Promise.all(Array.from({ length: 10 }, () => profiles.save('a', openHandsProfile('m'))))
  expect(await profiles.get('a')).toMatchObject({ revision: 11, id: first?.id })
  expect((await profiles.list()).map(({ name }) => name)).toEqual(['a'])
  expect(await server.open().get('a')).toEqual(await profiles.get('a'))
})

test('concurrent saves respect the limit, and an existing profile can be replaced', async () => {
  using server = await openStores(2)
  const { profiles } = server
  const saves = ['a', 'b', 'c'].map((name) => profiles.save(name, openHandsProfile('m')))
  const results = await Promise.allSettled(saves)
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'fulfilled', 'rejected'])
  expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
    reason: problemWith('conflict'),
  })
  await profiles.save('a', openHandsProfile('n'))
  expect(await profiles.list()).toHaveLength(2)
})

test('a rename keeps the id, and profiles are active by id', async () => {
  using server = await openStores()
  const { profiles } = server
  await profiles.save('a', openHandsProfile('m'))
  await profiles.save('b', openHandsProfile('m'))
  const id = (await profiles.get('a'))?.id ?? ''
  await profiles.activate(id)
  await expect(profiles.rename('a', 'b')).rejects.toEqual(problemWith('conflict'))
  await expect(profiles.rename('none', 'c')).rejects.toEqual(problemWith('not_found'))
  await profiles.rename('a', 'a')
  await profiles.rename('a', 'c')
  expect(await profiles.get('a')).toBeUndefined()
  expect(await profiles.get('c')).toMatchObject({ id, revision: 0 })
  expect(await profiles.getActiveId()).toBe(id)
  await expect(profiles.activate(crypto.randomUUID())).rejects.toEqual(problemWith('not_found'))
  expect(await profiles.getActiveId()).toBe(id)
  expect(await profiles.remove('b')).toBe(true)
  expect(await profiles.getActiveId()).toBe(id)
  expect(await profiles.remove('c')).toBe(true)
  expect(await profiles.remove('c')).toBe(false)
  expect((await server.settings.read()).active_agent_profile_id).toBeUndefined()
})

test('a removal that cannot change the settings is an error, and the profile stays', async () => {
  using server = await openStores()
  const { profiles } = server
  await profiles.save('a', acp)
  await profiles.activate((await profiles.get('a'))?.id ?? '')
  const path = join(server.path, '..', 'settings.sealed')
  const sealed = await readFile(path)
  await writeFile(path, 'bm90IG91cnM=')
  const again = server.open()
  await expect(again.remove('a')).rejects.toEqual(problemWith('conflict'))
  await writeFile(path, sealed)
  expect(await again.remove('a')).toBe(true)
})

test('a referenced LLM profile is not removed, and its rename updates the references', async () => {
  using server = await openStores()
  const { profiles, llmProfiles } = server
  await llmProfiles.save('m', llm.parse({ model: 'openai/m' }))
  await profiles.save('a', openHandsProfile('m'))
  await profiles.save('b', openHandsProfile('other'))
  await expect(llmProfiles.remove('m')).rejects.toEqual(problemWith('conflict'))
  await llmProfiles.rename('m', 'n')
  expect(await profiles.get('a')).toMatchObject({ llm_profile_ref: 'n', revision: 0 })
  expect(await profiles.get('b')).toMatchObject({ llm_profile_ref: 'other' })
  await profiles.save('a', acp)
  expect(await llmProfiles.remove('n')).toBe(true)
})

test('a rename whose references cannot be updated does not happen', async () => {
  using server = await openStores()
  const { llmProfiles, profiles } = server
  await llmProfiles.save('m', llm.parse({ model: 'openai/m' }))
  await profiles.save('a', openHandsProfile('m'))
  const sealed = await readFile(server.path)
  await writeFile(server.path, 'bm90IG91cnM=')
  const again = server.open()
  const other = new LlmProfiles({ ...server.llmOptions, links: { references: again } })
  await expect(other.rename('m', 'n')).rejects.toEqual(problemWith('conflict'))
  expect((await other.list()).map(({ name }) => name)).toEqual(['m'])
  await writeFile(server.path, sealed)
  await other.rename('m', 'n')
  expect(await again.get('a')).toMatchObject({ llm_profile_ref: 'n' })
  expect((await other.list()).map(({ name }) => name)).toEqual(['n'])
})

const servers = {
  one: { url: 'https://one.example/mcp', headers: { Authorization: 'Bearer sk-canary-12345678' } },
  two: { command: 'two', env: { TOKEN: 'sk-canary-12345678' } },
}

test('a profile resolves to its model with the key and to the MCP servers that it names', async () => {
  using server = await openStores()
  const { profiles, llmProfiles, settings, connections } = server
  const { id: connection } = await connections.add({
    display_name: 'c',
    provider: 'custom',
    api_key: 'sk-canary-12345678',
    base_url: null,
  })
  await llmProfiles.save('m', llm.parse({ model: 'openai/m', provider_connection_id: connection }))
  const verification = { critic_api_key: 'sk-canary-12345678' }
  await settings.modify((stored) => ({ ...stored, agent_settings: { mcp_config: servers, verification } }))
  await profiles.save(
    'a',
    openHandsProfile('m', {
      mcp_server_refs: ['two'],
      system_message_suffix: 'Be brief.',
      disabled_skills: ['one'],
      tools: [{ name: 'terminal' }],
      condenser: { max_size: 100 },
      verification: { critic_enabled: true, critic_server_url: 'https://critic.example' },
      enable_sub_agents: true,
      tool_concurrency_limit: 3,
    }),
  )
  const { id = '' } = (await profiles.get('a')) ?? {}
  const { agentSettings, profileReference } = await profiles.resolve(id)
  expect(profileReference).toEqual({ agent_profile_id: id, revision: 0, secret_refs: null })
  expect(agentSettings).toMatchObject({
    agent_kind: 'openhands',
    llm: { model: 'openai/m', api_key: 'sk-canary-12345678' },
    tools: [{ name: 'terminal', params: {} }],
    mcp_config: { two: { command: 'two', env: { TOKEN: 'sk-canary-12345678' } } },
    agent_context: {
      system_message_suffix: 'Be brief.',
      disabled_skills: ['one'],
      load_user_skills: true,
      load_project_skills: true,
    },
    condenser: { max_size: 100, keep_first: 2 },
    verification: { critic_enabled: true, critic_api_key: 'sk-canary-12345678' },
    enable_sub_agents: true,
    tool_concurrency_limit: 3,
  })
  expect(Object.keys(agentSettings.mcp_config ?? {})).toEqual(['two'])

  const diagnosis = await profiles.diagnose('a', never)
  expect(diagnosis).toMatchObject({
    valid: true,
    errors: [],
    llm_profile_ref: 'm',
    llm_profile_resolved: true,
    llm_api_key_set: true,
    mcp_server_refs: ['two'],
    resolved_mcp_config_keys: ['two'],
    dangling_mcp_server_refs: [],
    disabled_skills: ['one'],
    resolved_skills: ['two'],
    resolved_settings: { llm: { model: 'openai/m', api_key: '**********' } },
  })
  expect(JSON.stringify(diagnosis)).not.toContain('canary')
})

test('null references mean all MCP servers, an empty list none', async () => {
  using server = await openStores()
  const { profiles, llmProfiles, settings } = server
  await llmProfiles.save('m', llm.parse({ model: 'openai/m' }))
  await settings.modify((stored) => ({ ...stored, agent_settings: { mcp_config: servers } }))
  const keys = async (more: object) => {
    await profiles.save('a', openHandsProfile('m', more))
    const { agentSettings } = await profiles.resolve((await profiles.get('a'))?.id ?? '')
    return Object.keys(agentSettings.mcp_config ?? {})
  }
  expect(await keys({})).toEqual(['one', 'two'])
  expect(await keys({ mcp_server_refs: [] })).toEqual([])
  expect(await keys({ mcp_server_refs: ['two', 'two'] })).toEqual(['two'])
})

test('missing references are in the diagnosis, and refused at the start of a conversation', async () => {
  using server = await openStores()
  const { profiles, llmProfiles } = server
  await profiles.save(
    'a',
    openHandsProfile('gone', { mcp_server_refs: ['x', 'toString'], tools: [{ name: 'nothing' }] }),
  )
  const { id = '' } = (await profiles.get('a')) ?? {}
  expect(await profiles.diagnose('a', never)).toMatchObject({
    valid: false,
    errors: [
      "LLM profile 'gone' not found",
      'Tool(s) this server cannot run: nothing',
      'MCP server(s) not configured: x, toString',
    ],
    llm_profile_resolved: false,
    llm_api_key_set: false,
    dangling_mcp_server_refs: ['x', 'toString'],
    resolved_settings: null,
  })
  await expect(profiles.resolve(id)).rejects.toMatchObject({
    code: 'invalid',
    members: { code: 'unresolved_profile_references', dangling_llm_profile_ref: 'gone' },
  })
  await llmProfiles.save('gone', llm.parse({ model: 'openai/m' }))
  await expect(profiles.resolve(id)).rejects.toMatchObject({
    code: 'invalid',
    issues: undefined,
    members: { dangling_llm_profile_ref: null, dangling_mcp_server_refs: ['x', 'toString'] },
  })
  await expect(profiles.resolve(crypto.randomUUID())).rejects.toEqual(problemWith('not_found'))
  await expect(profiles.diagnose('none', never)).rejects.toEqual(problemWith('not_found'))
})

test('a meta-profile that is switched on becomes a part of the settings, and must be there', async () => {
  using server = await openStores()
  const { profiles, llmProfiles } = server
  await llmProfiles.save('m', llm.parse({ model: 'openai/m' }))
  const routed = async (meta_profile_ref: string, isOn = true) => {
    const members = { meta_profile_ref, enable_classify_and_switch_llm_tool: isOn }
    await profiles.save('a', openHandsProfile('m', members))
    return (await profiles.get('a'))?.id ?? ''
  }
  const on = { enable_classify_and_switch_llm_tool: true, active_meta_profile: 'rule', meta_profile: rule }
  expect((await profiles.resolve(await routed('rule'))).agentSettings).toMatchObject(on)
  expect(await profiles.diagnose('a', never)).toMatchObject({ valid: true, dangling_meta_profile_ref: null })
  await expect(profiles.resolve(await routed('none'))).rejects.toMatchObject({
    members: { dangling_meta_profile_ref: 'none' },
  })
  expect(await profiles.diagnose('a', never)).toMatchObject({
    errors: ["Meta-profile 'none' not found"],
    resolved_settings: null,
  })
  expect((await profiles.resolve(await routed('none', false))).agentSettings).toMatchObject({
    enable_classify_and_switch_llm_tool: false,
    meta_profile: null,
  })
})

test('the profile of an external agent has its command and no model of the server', async () => {
  using server = await openStores()
  const { profiles } = server
  await profiles.save('a', acp)
  const { id = '' } = (await profiles.get('a')) ?? {}
  expect(await profiles.diagnose('a', never)).toMatchObject({
    agent_kind: 'acp',
    valid: true,
    errors: [],
    llm_profile_ref: null,
    resolved_settings: { agent_kind: 'acp', acp_server: 'codex', acp_command: [] },
  })
  expect((await profiles.resolve(id)).agentSettings).toMatchObject({ acp_server: 'codex', acp_args: [] })
  const custom = (acp_command: string | null) =>
    agentProfile.parse({ agent_kind: 'acp', acp_server: 'custom', acp_command })
  expect(await profiles.diagnose('b', never, custom("own --say 'a b'"))).toMatchObject({
    resolved_settings: { acp_command: ['own', '--say', 'a b'] },
  })
  for (const command of [null, "own 'a"])
    expect(await profiles.diagnose('b', never, custom(command))).toMatchObject({
      valid: false,
      errors: [expect.stringContaining('acp_command')],
      resolved_settings: null,
    })
})

test('a model that cannot be used is an error of the profile', async () => {
  using server = await openStores()
  const { profiles, llmProfiles } = server
  await llmProfiles.save('m', llm.parse({ model: 'openai/m', provider_connection_id: 'none' }))
  await profiles.save('a', openHandsProfile('m'))
  const diagnosis = await profiles.diagnose('a', never)
  expect(diagnosis).toMatchObject({ valid: false, llm_profile_resolved: false })
  expect(diagnosis.errors).toHaveLength(1)
  await expect(profiles.resolve((await profiles.get('a'))?.id ?? '')).rejects.toBeInstanceOf(Problem)
})

test('a file sealed with another key is a conflict and is not overwritten', async () => {
  using server = await openStores()
  await writeFile(server.path, 'bm90IG91cnM=\n')
  const { profiles } = server
  for (const work of [
    () => profiles.list(),
    () => profiles.save('a', openHandsProfile('m')),
    () => profiles.remove('a'),
    () => profiles.findReferences('m'),
  ])
    await expect(work()).rejects.toEqual(problemWith('conflict'))
  await expect(server.open().list()).rejects.toEqual(problemWith('conflict'))
})

/** What a store of profiles is, without files. */
class ReferenceModel {
  readonly all = new Map<string, { model: string; revision: number }>()
  save(name: string, model: string): void {
    this.all.set(name, { model, revision: (this.all.get(name)?.revision ?? -1) + 1 })
  }
  rename(name: string, newName: string): void {
    const profile = this.all.get(name)
    if (profile === undefined || (name !== newName && this.all.has(newName))) return
    this.all.delete(name)
    this.all.set(newName, profile)
  }
  follow(model: string, newModel: string): void {
    for (const [name, profile] of this.all)
      if (profile.model === model) this.all.set(name, { ...profile, model: newModel })
  }
}

test('any sequence of changes matches a model of it, also after the file is reopened', {
  timeout: 60_000,
}, async () => {
  const word = fc.constantFrom('a', 'b', 'c')
  const step = fc.record({
    verb: fc.constantFrom('save', 'rename', 'remove', 'follow'),
    one: word,
    two: word,
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      using server = await openStores()
      const { profiles } = server
      const naive = new ReferenceModel()
      for (const { verb, one, two } of steps) {
        if (verb === 'save') {
          naive.save(one, two)
          await profiles.save(one, openHandsProfile(two))
        } else if (verb === 'remove') {
          expect(await profiles.remove(one)).toBe(naive.all.delete(one))
        } else if (verb === 'follow') {
          naive.follow(one, two)
          await profiles.renameReferences(one, two)
        } else if (naive.all.size > 0) {
          naive.rename(one, two)
          await profiles.rename(one, two).catch(() => {})
        }
      }
      for (const store of naive.all.size === 0 ? [] : [profiles, server.open()]) {
        const list = await store.list()
        expect(list.map(({ name }) => name)).toEqual([...naive.all.keys()].sort())
        expect(new Set(list.map(({ id }) => id)).size).toBe(list.length)
        for (const { name, revision, llm_profile_ref: model } of list)
          expect({ model, revision }).toEqual(naive.all.get(name))
      }
    }),
    { numRuns: 30 },
  )
})
