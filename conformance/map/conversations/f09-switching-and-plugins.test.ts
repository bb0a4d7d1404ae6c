import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect } from 'vitest'
import { scriptedCommand } from '../../../packages/agent/src/acp/testing/scripted-command.ts'
import { endFamily, externalUrl, mapCase, notApplicable } from '../frame.ts'
import {
  commandReply,
  finishReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  type openModel,
  unknownId,
  waitForFrames,
} from '../map-server.ts'
import { StoredDocument } from '../stored-document.ts'

const server = openMapServer()
const plain = { autotitle: false }
const routes = {
  switch_llm: { llm: { model: 'openai/map-other', usage_id: 'map-other' } },
  switch_profile: { profile_name: 'any' },
  switch_acp_model: { model: 'opus' },
  load_plugin: { plugin_ref: 'any@any' },
} as const
const llm = {
  model: 'openai/map-switched',
  api_key: 'sk-sentinel',
  base_url: 'http://127.0.0.1:9/v1',
  usage_id: 'map-switched',
}

async function agentLlm(id: string, on: MapClient = server): Promise<Json> {
  return ((await on.getConversation(id)).agent as { llm: Json }).llm
}

mapCase('F09.auth-required', 'the routes need a key', async () => {
  const { id } = await server.createConversation(undefined, plain)
  for (const [verb, body] of Object.entries(routes)) {
    const path = `/api/conversations/${id}/${verb}`
    expect(await server.requestStatus('POST', path, { body, isAnonymous: true }), verb).toBe(401)
  }
  expect(await agentLlm(id)).toMatchObject({ model: 'openai/gpt-4o' })
})

mapCase(
  'F09.switch-llm',
  'another model is installed; the condenser follows; the key is not echoed',
  async () => {
    const model = await server.openModel(finishReply())
    const settings = { agent_kind: 'openhands', llm: model.llm('chat'), tools: [] }
    const body = { agent_settings: settings, workspace: { working_dir: server.directory }, ...plain }
    const { id } = await server.requestOrThrow<{ id: string }>('POST', '/api/conversations', { body })
    expect(await server.post(id, 'switch_llm', { llm })).toMatchObject({
      status: 200,
      body: { success: true },
    })
    const info = await server.getConversation(id)
    expect(info.agent).toMatchObject({
      llm: { model: 'openai/map-switched', usage_id: 'map-switched', base_url: 'http://127.0.0.1:9/v1' },
      condenser: { llm: { model: 'openai/map-switched', usage_id: 'condenser' } },
    })
    expect(JSON.stringify(info)).not.toContain('sk-sentinel')
  },
)

mapCase('F09.switch-llm-ws', 'the socket is told of the agent, with the key masked', async () => {
  const { id } = await server.createConversation(undefined, plain)
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  await server.post(id, 'switch_llm', { llm })
  const frames = await waitForFrames(socket, (all) => all.some(({ key }) => key === 'agent'))
  const update = frames.find(({ key }) => key === 'agent')
  expect(update?.value).toMatchObject({ llm: { model: 'openai/map-switched', api_key: '**********' } })
  expect(socket.frames.join()).not.toContain('sk-sentinel')
})

mapCase('F09.switch-llm-errors', 'invalid switches change nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect((await server.post(unknownId, 'switch_llm', { llm })).status).toBe(404)
  for (const body of [
    {},
    { llm: { usage_id: 'x' } },
    { llm: { model: 'openai/m', usage_id: 'x', provider_connection_id: 'map-unknown' } },
  ])
    expect((await server.post(id, 'switch_llm', body)).status, JSON.stringify(body)).toBe(422)
  expect(await agentLlm(id)).toMatchObject({ model: 'openai/gpt-4o' })
})

/** A conversation after a first run. */
async function afterRun(more: object = {}) {
  const model = await server.openModel(finishReply())
  const { id } = await server.createConversation(model, { ...plain, ...more })
  await server.sendMessage(id, 'Begin.', true)
  await server.waitForStatus(id, 'finished')
  return { id, model }
}

/** Runs another message to its end. */
async function runAgain(id: string, on: MapClient = server): Promise<void> {
  await on.sendMessage(id, 'Again.', true)
  await on.waitForStatus(id, 'finished')
}

const usage = async (id: string) =>
  ((await server.getConversation(id)).stats as { usage_to_metrics: Record<string, Json> }).usage_to_metrics

mapCase(
  'F09.switch-llm-encrypted-key',
  'a sealed key is opened; usage is counted under the new name',
  async () => {
    const { id } = await afterRun()
    const model = await server.openModel(finishReply())
    await server.requestOrThrow('POST', '/api/profiles/map-f09-sealed', {
      body: { llm: model.llm('chat', { api_key: 'sk-opened' }) },
    })
    const headers = { 'x-expose-secrets': 'encrypted' }
    const { config } = await server.requestOrThrow<{ config: Json }>('GET', '/api/profiles/map-f09-sealed', {
      headers,
    })
    expect(String(config.api_key)).toMatch(/^gAAAAA/)
    expect((await server.post(id, 'switch_llm', { llm: { ...config, usage_id: 'map-sealed' } })).status).toBe(
      200,
    )
    await runAgain(id)
    expect(model.requests.at(-1)?.headers.authorization).toBe('Bearer sk-opened')
    expect(await usage(id)).toHaveProperty('map-sealed')
  },
)

mapCase('F09.switch-llm-provider-connection', "a switch uses a saved connection's key", async () => {
  const { id } = await afterRun()
  const model = await server.openModel(finishReply())
  const body = {
    display_name: 'map',
    provider: 'openai',
    api_key: 'sk-of-connection',
    base_url: `${model.url}/v1`,
  }
  const connection = await server.requestOrThrow<Json>('POST', '/api/llm/provider-connections', { body })
  const linked = { model: 'openai/gpt-4o', usage_id: 'map-linked', provider_connection_id: connection.id }
  expect((await server.post(id, 'switch_llm', { llm: linked })).status).toBe(200)
  await runAgain(id)
  expect(model.requests.at(-1)?.headers.authorization).toBe('Bearer sk-of-connection')
  expect(await agentLlm(id)).toMatchObject({ provider_connection_id: connection.id })
})

mapCase(
  'F09.switch-llm-registered-usage-id',
  'a name that is taken is installed or refused, never ignored',
  async () => {
    const { id } = await afterRun()
    const { usage_id } = await agentLlm(id)
    const { status } = await server.post(id, 'switch_llm', { llm: { ...llm, usage_id } })
    if (status === 200) expect(await agentLlm(id)).toMatchObject({ model: 'openai/map-switched' })
    else expect(Math.floor(status / 100)).toBe(4)
  },
)

mapCase(
  'F09.switch-llm-before-first-run',
  'the first run uses a model that was switched to before',
  async () => {
    const { id } = await server.createConversation(await server.openModel(finishReply()), plain)
    const model = await server.openModel(finishReply())
    await server.post(id, 'switch_llm', { llm: { ...model.llm('chat'), usage_id: 'map-first' } })
    await runAgain(id)
    expect(model.requests).toHaveLength(1)
    expect(await usage(id)).toHaveProperty('map-first')
  },
  { faultThere: 'the usage of that run is lost' },
)

/** A conversation in a command while its model is switched. */
async function switchInCommand() {
  const release = join(server.directory, crypto.randomUUID())
  const wait = `for i in $(seq 600); do [ -e ${release} ] && break; sleep 0.1; done`
  const first = await server.openModel(commandReply(wait))
  const second = await server.openModel(finishReply())
  const { id } = await server.createConversation(first, plain)
  await server.sendMessage(id, 'Begin.', true)
  await server.waitForEvent(id, ({ kind }) => kind === 'ActionEvent')
  const { status } = await server.post(id, 'switch_llm', {
    llm: { ...second.llm('chat'), usage_id: 'map-second' },
  })
  expect(status).toBe(200)
  return { id, first, second, release: () => server.runCommand(`touch ${release}`) }
}

mapCase('F09.switch-llm-mid-run', 'the next question of the same run goes to the new model', async () => {
  const { id, first, second, release } = await switchInCommand()
  await release()
  await server.waitForStatus(id, 'finished')
  expect([first.requests.length, second.requests.length]).toEqual([1, 1])
  expect(await usage(id)).toHaveProperty('map-second')
})

mapCase(
  'F09.switch-llm-mid-run-get',
  'a switch in a run is in GET at once',
  async () => {
    const { id, release } = await switchInCommand()
    expect(await agentLlm(id)).toMatchObject({ usage_id: 'map-second' })
    await release()
    await server.waitForStatus(id, 'finished')
  },
  { faultThere: 'GET shows the former model' },
)

mapCase('F09.switch-profile', 'a profile is installed and counted under its name', async () => {
  const { id } = await afterRun()
  const model = await server.openModel(finishReply())
  await server.requestOrThrow('POST', '/api/profiles/map-f09-pro', { body: { llm: model.llm('chat') } })
  expect((await server.post(id, 'switch_profile', { profile_name: 'map-f09-pro' })).status).toBe(200)
  expect(await agentLlm(id)).toMatchObject({ usage_id: 'profile:map-f09-pro' })
  await runAgain(id)
  expect(model.requests).toHaveLength(1)
  expect(await usage(id)).toHaveProperty('profile:map-f09-pro')
})

async function expectDamagedProfileRefused(): Promise<void> {
  await using other = await OwnMapServer.open({ key: 'map-key-2' })
  const { id } = await other.createConversation(undefined, plain)
  const llm = { model: 'openai/map-damaged' }
  await other.requestOrThrow('POST', '/api/profiles/map-f09-damaged', { body: { llm } })
  const file = new StoredDocument(other, 'profiles/map-f09-damaged.json')
  for (const text of ['', '{"llm": ', '[]'])
    await file.whileDamaged(text, async () => {
      expect(await other.post(id, 'switch_profile', { profile_name: 'map-f09-damaged' })).toMatchObject({
        status: 400,
        body: { detail: expect.stringContaining('Failed to load profile `map-f09-damaged`') },
      })
      expect((await other.getConversation(id)).agent).toMatchObject({ llm: { model: 'openai/gpt-4o' } })
    })
}
mapCase('F09.switch-profile-errors', 'unknown, invalid and missing names', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect(await server.post(id, 'switch_profile', { profile_name: 'map-unknown' })).toMatchObject({
    status: 404,
    body: { detail: "Profile 'map-unknown' not found" },
  })
  expect(await server.post(id, 'switch_profile', { profile_name: '../x' })).toMatchObject({
    status: 400,
    body: { detail: expect.stringContaining('Invalid profile name') },
  })
  expect((await server.post(id, 'switch_profile', {})).status).toBe(422)
  expect((await server.post(unknownId, 'switch_profile', { profile_name: 'any' })).status).toBe(404)
  if (externalUrl === undefined) await expectDamagedProfileRefused()
  expect(await agentLlm(id)).toMatchObject({ model: 'openai/gpt-4o' })
})

mapCase(
  'F09.switch-profile-edited',
  'a profile that was edited is taken at the next switch',
  async () => {
    const { id } = await server.createConversation(undefined, plain)
    for (const model of ['openai/map-before', 'openai/map-after']) {
      await server.requestOrThrow('POST', '/api/profiles/map-f09-edit', { body: { llm: { model } } })
      await server.post(id, 'switch_profile', { profile_name: 'map-f09-edit' })
      expect(await agentLlm(id)).toMatchObject({ model })
    }
  },
  { faultThere: 'the first copy stays' },
)

mapCase('F09.acp-model-native', 'other conversations have no model of an external agent', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect(await server.post(id, 'switch_acp_model', { model: 'opus' })).toMatchObject({
    status: 400,
    body: { detail: 'switch_acp_model is only supported for ACP conversations.' },
  })
  expect((await server.post(id, 'switch_acp_model', {})).status).toBe(422)
  expect((await server.post(unknownId, 'switch_acp_model', { model: 'opus' })).status).toBe(404)
})

/** A conversation of an external agent that has not run; no program is started. */
async function createExternal(): Promise<string> {
  const agent_settings = { agent_kind: 'acp', acp_server: 'claude-code', acp_model: 'sonnet' }
  const body = { workspace: { working_dir: server.directory }, autotitle: false, agent_settings }
  return (await server.requestOrThrow<{ id: string }>('POST', '/api/conversations', { body })).id
}

mapCase('F09.acp-model-deferred', 'before the first run the model is stored', async () => {
  const id = await createExternal()
  expect(await server.getConversation(id)).toMatchObject({
    agent: { kind: 'ACPAgent', acp_model: 'sonnet' },
    current_model_id: 'sonnet',
    execution_status: 'idle',
  })
  expect(await server.post(id, 'switch_acp_model', { model: 'opus' })).toMatchObject({
    status: 200,
    body: { success: true },
  })
  const info = await server.getConversation(id)
  expect(info).toMatchObject({
    agent: { acp_model: 'opus' },
    agent_state: { acp_current_model_id: 'opus' },
    current_model_id: 'opus',
    execution_status: 'idle',
  })
  expect(info.agent_state).not.toHaveProperty('acp_session_id')
})

mapCase('F09.acp-model-blank', 'a blank model is refused', async () => {
  const id = await createExternal()
  expect((await server.post(id, 'switch_acp_model', { model: '   ' })).status).toBe(400)
  expect(await server.getConversation(id)).toMatchObject({
    agent: { acp_model: 'sonnet' },
    current_model_id: 'sonnet',
  })
})

mapCase(
  'F09.switch-llm-acp-refused',
  'an external agent takes no other model of the server',
  async () => {
    const id = await createExternal()
    const placeholder = { agent: { acp_model: 'sonnet', llm: { usage_id: 'acp-managed', model: 'sonnet' } } }
    expect(await server.getConversation(id)).toMatchObject(placeholder)
    await server.requestOrThrow('POST', '/api/profiles/map-acp-refused', { body: { llm } })
    expect((await server.post(id, 'switch_profile', { profile_name: 'map-acp-refused' })).status).toBe(400)
    expect((await server.post(id, 'switch_llm', { llm })).status).toBe(400)
    expect(await server.getConversation(id)).toMatchObject(placeholder)
  },
  { faultThere: 'the placeholder is replaced' },
)

/** A conversation whose external agent has played its first turn. */
async function createLive(script: object, more: object = {}): Promise<string> {
  const acp_command = scriptedCommand({ turns: [[{ text: 'One.' }], [{ text: 'Two.' }]], ...script })
  const agent_settings = { agent_kind: 'acp', acp_server: 'custom', acp_command, acp_model: 'small', ...more }
  const body = { workspace: { working_dir: server.directory }, autotitle: false, agent_settings }
  const { id } = await server.requestOrThrow<{ id: string }>('POST', '/api/conversations', { body })
  expect(await server.sendMessage(id, 'Begin.', true)).toBeLessThan(300)
  await server.waitForStatus(id, 'finished')
  return id
}
const models = ['small', 'large']
const onSmall = { current_model_id: 'small', agent: { acp_model: 'small' } }

mapCase(
  'F09.acp-model-live',
  'a switch in a live session of an external agent',
  async () => {
    const id = await createLive({ models })
    const before = await server.getConversation(id)
    expect(before).toMatchObject({ ...onSmall, supports_runtime_model_switch: true })
    expect(before.available_models).toContainEqual(expect.objectContaining({ model_id: 'large' }))
    const { acp_session_id } = before.agent_state as Json
    expect(acp_session_id).toEqual(expect.any(String))
    expect(await server.post(id, 'switch_acp_model', { model: 'large' })).toMatchObject({ status: 200 })
    const onLarge = {
      current_model_id: 'large',
      agent: { acp_model: 'large' },
      agent_state: { acp_current_model_id: 'large', acp_session_id },
    }
    expect(await server.getConversation(id)).toMatchObject(onLarge)
    expect(await server.post(id, 'switch_acp_model', { model: '   ' })).toMatchObject({
      status: 400,
      body: { detail: 'model must be a non-empty string' },
    })
    await server.sendMessage(id, 'Again.', true)
    await server.waitForStatus(id, 'finished')
    expect(await server.getConversation(id)).toMatchObject(onLarge)
  },
  { isUnavailable: externalUrl !== undefined },
)

mapCase(
  'F09.acp-model-live-unknown',
  'a model that the provider does not offer is 400',
  async () => {
    const id = await createLive({ models })
    expect((await server.post(id, 'switch_acp_model', { model: 'huge' })).status).toBe(400)
    expect(await server.getConversation(id)).toMatchObject(onSmall)
  },
  { isUnavailable: externalUrl !== undefined },
)

mapCase(
  'F09.acp-model-live-timeout',
  'a switch that takes too long is 504',
  async () => {
    const id = await createLive({ models, hangsModel: true }, { acp_prompt_timeout: 0.5 })
    expect(await server.post(id, 'switch_acp_model', { model: 'large' })).toMatchObject({
      status: 504,
      body: { detail: 'Internal Server Error' },
    })
    expect(await server.getConversation(id)).toMatchObject(onSmall)
  },
  { isUnavailable: externalUrl !== undefined },
)
mapCase('F09.ts-client', 'the TypeScript client switches models', async () => {
  Object.assign(globalThis, { require: createRequire(import.meta.url) })
  const { ConversationManager } = await import('@openhands/typescript-client')
  const { id } = await server.createConversation(undefined, plain)
  await server.requestOrThrow('POST', '/api/profiles/map-ts', { body: { llm } })
  const manager = new ConversationManager({ host: server.url, apiKey: String(server.key) })
  const conversation = await manager.loadConversation(id)
  await conversation.switchLlm({ ...llm, usage_id: 'map-ts-inline' } as never)
  expect(await agentLlm(id)).toMatchObject({ model: 'openai/map-switched' })
  await conversation.switchProfile('map-ts')
  expect(await agentLlm(id)).toMatchObject({ usage_id: 'profile:map-ts' })
  await expect(conversation.switchProfile('map-none')).rejects.toMatchObject({ status: 404 })
  await expect(conversation.switchAcpModel('opus')).rejects.toMatchObject({ status: 400 })
})
notApplicable(
  'F09.ts-client-acp-docs',
  'comments of the TypeScript client say what the server does',
  'comments of another project',
)

/** A marketplace with one plugin: a skill, a command and a hook. */
async function makeMarketplace(on: MapClient = server): Promise<string> {
  const root = join(on.directory, `market-${crypto.randomUUID()}`)
  const plugin = join(root, 'plugins/map-plugin')
  for (const folder of [
    '.claude-plugin',
    'plugins/map-plugin/.claude-plugin',
    'plugins/map-plugin/skills/map-skill',
  ])
    await mkdir(join(root, folder), { recursive: true })
  for (const folder of ['commands', 'hooks']) await mkdir(join(plugin, folder))
  const entry = { name: 'map-plugin', source: './plugins/map-plugin', description: 'd' }
  const hook = { hooks: [{ type: 'command', command: 'echo MAP_PLUGIN_HOOK' }] }
  for (const [file, content] of [
    [
      join(root, '.claude-plugin/marketplace.json'),
      { name: 'map-market', owner: { name: 'o' }, plugins: [entry] },
    ],
    [join(plugin, '.claude-plugin/plugin.json'), { name: 'map-plugin', version: '1.0.0', description: 'd' }],
    [join(plugin, 'hooks/hooks.json'), { hooks: { UserPromptSubmit: [hook] } }],
  ] as const)
    await writeFile(file, JSON.stringify(content))
  await writeFile(
    join(plugin, 'skills/map-skill/SKILL.md'),
    '---\nname: map-skill\ndescription: d\n---\nBe brief.\n',
  )
  await writeFile(join(plugin, 'commands/map-command.md'), '---\ndescription: d\n---\nSay hi.\n')
  return root
}

async function withMarketplace(on: MapClient = server, model?: Awaited<ReturnType<typeof openModel>>) {
  const source = await makeMarketplace(on)
  const agent_context = { registered_marketplaces: [{ name: 'map-market', source }] }
  const settings = model?.llm('chat') ?? { model: 'openai/gpt-4o', api_key: 'k', usage_id: 'agent' }
  const agent = { kind: 'Agent', llm: settings, tools: [], agent_context }
  return (await on.createConversation(undefined, { ...plain, agent })).id
}

const load = (id: string, plugin_ref: string, on: MapClient = server) =>
  on.post(id, 'load_plugin', { plugin_ref })
const withSkills = async (id: string, on: MapClient = server) =>
  await on.requestOrThrow<Json>('GET', `/api/conversations/${id}`, { query: { include_skills: 'true' } })

mapCase('F09.load-plugin', "a plugin's skill, command and hooks are shown and told", async () => {
  const id = await withMarketplace()
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  expect(await load(id, 'map-plugin@map-market')).toMatchObject({ status: 200, body: { success: true } })
  const text = JSON.stringify(await withSkills(id))
  expect(text).toContain('map-skill')
  expect(text).toContain('map-plugin:map-command')
  expect(text).toContain('MAP_PLUGIN_HOOK')
  await waitForFrames(socket, (frames) => frames.some(({ key }) => key === 'hook_config'))
})

mapCase('F09.load-plugin-hook-runs', 'the hook of a loaded plugin runs at the next message', async () => {
  const model = await server.openModel(finishReply())
  const id = await withMarketplace(server, model)
  await load(id, 'map-plugin@map-market')
  await runAgain(id)
  const hooks = (await server.getEvents(id)).filter(({ kind }) => kind === 'HookExecutionEvent')
  expect(JSON.stringify(hooks)).toContain('MAP_PLUGIN_HOOK')
})

mapCase('F09.load-plugin-errors', 'each error has its status', async () => {
  const bare = (await server.createConversation(undefined, plain)).id
  expect((await load(bare, 'map-plugin@map-market')).status).toBe(400)
  const id = await withMarketplace()
  for (const [reference, status] of [
    ['map-plugin@unknown', 404],
    ['unknown@map-market', 404],
    ['unknown', 404],
    ['', 400],
    ['name@', 400],
  ] as const)
    expect((await load(id, reference)).status, reference).toBe(status)
  expect((await server.post(id, 'load_plugin', {})).status).toBe(422)
  expect((await load(unknownId, 'map-plugin')).status).toBe(404)
  expect((await load(id, 'map-plugin')).status).toBe(200)
})

mapCase(
  'F09.load-plugin-twice',
  'a plugin that is loaded twice has its hooks once',
  async () => {
    const id = await withMarketplace()
    for (const _ of [1, 2]) expect((await load(id, 'map-plugin@map-market')).status).toBe(200)
    expect(JSON.stringify((await withSkills(id)).hook_config).split('MAP_PLUGIN_HOOK')).toHaveLength(2)
  },
  { faultThere: 'twice' },
)

mapCase(
  'F09.restart-persist',
  'switches and plugins outlive a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    const id = await withMarketplace(own)
    await load(id, 'map-plugin@map-market', own)
    await own.post(id, 'switch_llm', { llm })
    await own.restart()
    expect(await agentLlm(id, own)).toMatchObject({ model: 'openai/map-switched' })
    expect(JSON.stringify(await withSkills(id, own))).toContain('MAP_PLUGIN_HOOK')
  },
  { hasOwnServer: true },
)

// One more case of this family is in `clients/python-sdk-elsewhere.ts`.
endFamily('F09', 27)
