import { expect } from 'vitest'
import { expectAnswer, expectUnauthorized } from '../answers.ts'
import { endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  finishReply,
  type Json,
  type MapClient,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  toolReply,
} from '../map-server.ts'
import { StoredDocument } from '../stored-document.ts'

const map = openMapServer()
const base = '/api/meta-profiles'
const config = { classifier_model: 'map-fast', classes: [{ description: 'any task', model: 'map-strong' }] }
const direct = {
  classifier_model: 'map-fast',
  prompt_template: 'Task: {{ instance_text }} {{ model_table }}',
  model_table: 'map-strong: all',
}
const save = (name: string, body: object = config, status = 201, shape?: object) =>
  expectAnswer(map, status, 'POST', `${base}/${name}`, { body }, shape)
const remove = (name: string) => expectAnswer(map, 200, 'DELETE', `${base}/${name}`)
interface List {
  readonly meta_profiles: readonly { readonly name: string }[]
  readonly active_meta_profile: string | null
}
const list = () => map.requestOrThrow<List>('GET', base)

mapCase('F22.auth-required', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['GET', base],
    ['GET', `${base}/map`],
    ['POST', `${base}/map`, config],
    ['DELETE', `${base}/map`],
    ['POST', `${base}/map/activate`],
  )
})
mapCase('F22.save-classes', 'a rule of classes is listed and read back', async () => {
  await save('map-classes', config, 201, { name: 'map-classes', message: "Meta-profile 'map-classes' saved" })
  expect((await list()).meta_profiles).toContainEqual({
    name: 'map-classes',
    classifier_model: 'map-fast',
    num_classes: 1,
  })
  await expectAnswer(
    map,
    200,
    'GET',
    `${base}/map-classes`,
    {},
    {
      config: { ...config, prompt_template: null, model_table: null },
    },
  )
  await remove('map-classes')
})
mapCase('F22.save-direct', 'a rule with a template has no classes', async () => {
  await save('map-direct', direct)
  expect((await list()).meta_profiles).toContainEqual(
    expect.objectContaining({ name: 'map-direct', num_classes: 0 }),
  )
  await expectAnswer(map, 200, 'GET', `${base}/map-direct`, {}, { config: direct })
  await remove('map-direct')
})
mapCase('F22.validation', 'rules that cannot be meant are 422', async () => {
  for (const body of [
    { ...direct, prompt_template: 'no place' },
    { ...direct, classes: config.classes },
    { classes: config.classes },
    { ...config, classes: [{ description: 'x' }] },
  ])
    await save('map-bad', body, 422)
  await expectAnswer(map, 404, 'GET', `${base}/map-bad`)
})
mapCase('F22.empty-router', 'a rule without classes and template is 422', async () => {
  await save('map-empty', { classifier_model: 'map-fast' }, 422)
})
mapCase('F22.overwrite', 'a second save replaces the whole rule', async () => {
  await save('map-over')
  await save('map-over', direct)
  await expectAnswer(
    map,
    200,
    'GET',
    `${base}/map-over`,
    {},
    { config: { prompt_template: direct.prompt_template } },
  )
  expect((await list()).meta_profiles.filter(({ name }) => name === 'map-over')).toHaveLength(1)
  await remove('map-over')
})
mapCase('F22.name-rules', 'names are as those of profiles', async () => {
  for (const [method, path] of [
    ['GET', `${base}/-map`],
    ['DELETE', `${base}/-map`],
    ['POST', `${base}/-map/activate`],
  ] as const)
    await expectAnswer(map, 422, method, path)
  await save('-map', config, 422)
  await save('m'.repeat(65), config, 422)
  await save('m'.repeat(64))
  await remove('m'.repeat(64))
})
mapCase('F22.not-found', 'unknown rules are 404; a delete is 200', async () => {
  const detail = { detail: "Meta-profile 'map-none' not found" }
  await expectAnswer(map, 404, 'GET', `${base}/map-none`, {}, detail)
  await expectAnswer(map, 404, 'POST', `${base}/map-none/activate`, {}, detail)
  await remove('map-none')
})
mapCase('F22.activate', 'activation is seen in the list and in the settings', async () => {
  await save('map-active')
  await expectAnswer(
    map,
    200,
    'POST',
    `${base}/map-active/activate`,
    {},
    {
      message: "Meta-profile 'map-active' activated",
    },
  )
  expect((await list()).active_meta_profile).toBe('map-active')
  await expectAnswer(
    map,
    200,
    'GET',
    '/api/settings',
    {},
    {
      active_meta_profile: 'map-active',
      agent_settings: {
        active_meta_profile: 'map-active',
        enable_classify_and_switch_llm_tool: true,
        meta_profile: config,
      },
    },
  )
  await remove('map-active')
})
mapCase('F22.delete', 'deleting an inactive rule keeps the pointer', async () => {
  await save('map-a')
  await save('map-b')
  await map.requestOrThrow('POST', `${base}/map-a/activate`)
  await remove('map-b')
  await remove('map-b')
  expect((await list()).active_meta_profile).toBe('map-a')
  await remove('map-a')
})
mapCase('F22.delete-active-clears', 'deleting the active rule turns it off', async () => {
  await save('map-off')
  await map.requestOrThrow('POST', `${base}/map-off/activate`)
  await remove('map-off')
  await expectAnswer(
    map,
    200,
    'GET',
    '/api/settings',
    {},
    {
      active_meta_profile: null,
      agent_settings: { enable_classify_and_switch_llm_tool: false },
    },
  )
})
mapCase('F22.limit', 'at 50 rules another is 409, an overwrite 201', async () => {
  const present = (await list()).meta_profiles.length
  for (let n = present; n < 50; n++) await save(`map-l${n}`)
  await save('map-one-more', config, 409)
  await save('map-l49')
  for (let n = present; n < 50; n++) await remove(`map-l${n}`)
})
mapCase('F22.acp-clears-pointer', 'ACP settings clear the pointer', async () => {
  await save('map-acp')
  await map.requestOrThrow('POST', `${base}/map-acp/activate`)
  const kind = (agent_kind: string) =>
    map.requestOrThrow('PATCH', '/api/settings', { body: { agent_settings_diff: { agent_kind } } })
  await kind('acp')
  expect((await list()).active_meta_profile).toBe(null)
  await kind('openhands')
  await remove('map-acp')
})
mapCase(
  'F22.activate-acp',
  'activation is refused on ACP settings',
  async () => {
    await save('map-refused')
    const kind = (agent_kind: string) =>
      map.requestOrThrow('PATCH', '/api/settings', { body: { agent_settings_diff: { agent_kind } } })
    await kind('acp')
    const { status } = await map.request('POST', `${base}/map-refused/activate`)
    const { active_meta_profile } = await list()
    await kind('openhands')
    await remove('map-refused')
    expect(active_meta_profile).toBe(null)
    expect([400, 409, 422]).toContain(status)
  },
  { faultThere: 'answers as if it were active' },
)
/** A server whose settings ask one model, and whose profiles are `map-fast`, which classifies, and `map-strong`. */
async function openRouting(server: MapClient, answer: string) {
  const agent = await map.openModel(toolReply('route_task_to_model'), finishReply('By the first model.'))
  const fast = await map.openModel()
  fast.replyWithoutTools = { text: answer }
  const strong = await map.openModel(finishReply('By the strong model.'))
  const llm = strong.llm('chat', { model: 'openai/map-strong' })
  await server.requestOrThrow('POST', '/api/profiles/map-fast', { body: { llm: fast.llm('chat') } })
  await server.requestOrThrow('POST', '/api/profiles/map-strong', { body: { llm } })
  await server.requestOrThrow('PATCH', '/api/settings', {
    body: { agent_settings_diff: { llm: agent.llm('chat'), tools: [] } },
  })
  return {
    fast,
    /** A conversation of the settings, after a message. */
    converse: async (rule: object, onActive: () => Promise<unknown> = async () => {}) => {
      await server.requestOrThrow('POST', `${base}/map-route`, { body: rule })
      await server.requestOrThrow('POST', `${base}/map-route/activate`)
      await onActive()
      const headers = { 'x-expose-secrets': 'encrypted' }
      const { agent_settings } = await server.requestOrThrow<Json>('GET', '/api/settings', { headers })
      const body = { agent_settings, workspace: { working_dir: server.directory }, autotitle: false }
      const made = await server.requestOrThrow<MapConversation>('POST', '/api/conversations', { body })
      await server.sendMessage(made.id, 'Continue.', true)
      const after = await server.waitForStatus(made.id, 'finished')
      const events = await server.getEvents(made.id)
      const observation = events.find(({ kind }) => kind === 'ObservationEvent')?.observation
      return { made, after, events, observation }
    },
    close: async () => {
      await server.request('DELETE', `${base}/map-route`)
      for (const name of ['map-fast', 'map-strong']) await server.request('DELETE', `/api/profiles/${name}`)
      const body = { agent_settings_diff: { llm: null, tools: null } }
      await server.request('PATCH', '/api/settings', { body })
    },
  }
}
const usage = (conversation: Json) =>
  Object.keys(Object((conversation.stats as Json | undefined)?.usage_to_metrics))
mapCase('F22.route-classes', 'an agent asks for a route and continues with that model', async () => {
  const routing = await openRouting(map, '1')
  const { made, after, events, observation } = await routing.converse(config)
  expect(made.agent).toMatchObject({
    llm: { usage_id: 'agent' },
    tools: [
      {
        name: 'ClassifyAndSwitchLLMTool',
        params: { active_meta_profile: 'map-route', meta_profile: config },
      },
    ],
  })
  expect(observation).toMatchObject({
    is_error: false,
    chosen_class: 'any task',
    model: 'map-strong',
    active_model: 'openai/map-strong',
  })
  expect(after.agent).toMatchObject({ llm: { model: 'openai/map-strong', usage_id: 'profile:map-strong' } })
  expect(usage(after)).toEqual(expect.arrayContaining(['classifier:map-fast', 'profile:map-strong']))
  expect(
    events.filter(({ kind, key }) => kind === 'ConversationStateUpdateEvent' && key === 'agent'),
  ).toEqual([
    expect.objectContaining({
      value: expect.objectContaining({ llm: expect.objectContaining({ model: 'openai/map-strong' }) }),
    }),
  ])
  expect(JSON.stringify(events)).toContain('By the strong model.')
  await routing.close()
})
mapCase('F22.route-direct', 'the answer of the classifier names the model', async () => {
  const routing = await openRouting(map, '{"model": "map-strong"}')
  const { after, observation } = await routing.converse(direct)
  expect(observation).toMatchObject({
    is_error: false,
    chosen_class: 'model: map-strong',
    model: 'map-strong',
  })
  expect(after.agent).toMatchObject({ llm: { model: 'openai/map-strong' } })
  const question = JSON.stringify(routing.fast.requests.at(-1)?.body)
  for (const part of ['Continue.', 'map-strong: all']) expect(question).toContain(part)
  await routing.close()
})
mapCase('F22.route-missing-profile', 'an unknown model is an error of the tool only', async () => {
  const routing = await openRouting(map, '1')
  const gone = { ...config, classifier_model: 'map-none' }
  // The saved rule counts, not the copy of the settings.
  const { after, observation } = await routing.converse(config, () => save('map-route', gone))
  expect(observation).toMatchObject({ is_error: true })
  expect(JSON.stringify(observation)).toContain("Failed to load classifier profile 'map-none'")
  expect(after.agent).toMatchObject({
    llm: { usage_id: 'agent' },
    tools: [{ params: { meta_profile: { classifier_model: 'map-fast' } } }],
  })
  expect(usage(after)).not.toContain('classifier:map-none')
  await routing.close()
})
mapCase(
  'F22.persist-restart',
  'rules, pointer and a routed model survive a restart',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    const routing = await openRouting(server, '1')
    const { made } = await routing.converse(config)
    await server.restart()
    expect(await server.requestOrThrow('GET', base)).toEqual({
      meta_profiles: [{ name: 'map-route', classifier_model: 'map-fast', num_classes: 1 }],
      active_meta_profile: 'map-route',
    })
    expect(await server.requestOrThrow('GET', '/api/settings')).toMatchObject({
      active_meta_profile: 'map-route',
      agent_settings: { active_meta_profile: 'map-route', enable_classify_and_switch_llm_tool: true },
    })
    expect((await server.getConversation(made.id)).agent).toMatchObject({
      llm: { model: 'openai/map-strong', usage_id: 'profile:map-strong' },
    })
  },
  { hasOwnServer: true },
)
mapCase('F22.ts-client', 'the published client manages rules', async () => {
  const { MetaProfilesClient } = await import('@openhands/typescript-client/clients')
  const client = new MetaProfilesClient({
    host: map.url,
    ...(map.key === undefined ? {} : { apiKey: map.key }),
  })
  const saved = { name: 'map-ts', message: "Meta-profile 'map-ts' saved" }
  // Clients of this version require a default.
  const sent = { ...config, default_model: 'map-fast' }
  expect(await client.saveMetaProfile('map-ts', sent)).toEqual(saved)
  expect(await client.getMetaProfile('map-ts')).toMatchObject({ name: 'map-ts', config })
  await client.activateMetaProfile('map-ts')
  expect(await client.listMetaProfiles()).toMatchObject({ active_meta_profile: 'map-ts' })
  await client.deleteMetaProfile('map-ts')
  expect(await client.listMetaProfiles()).toMatchObject({ active_meta_profile: null })
  await expect(client.getMetaProfile('map-ts')).rejects.toMatchObject({ status: 404 })
  await expect(client.activateMetaProfile('map-ts')).rejects.toMatchObject({ status: 404 })
  await expect(client.saveMetaProfile('-map-ts', sent)).rejects.toMatchObject({ status: 422 })
  client.close()
})
/** A server with the rules `map-good` and `map-bad`, and their file. */
async function openWithRules() {
  const server = await OwnMapServer.open({ key: 'map-key-2' })
  for (const name of ['map-good', 'map-bad']) await saveOn(server, name)
  return { server, file: new StoredDocument(server, 'meta-profiles.json') }
}
const saveOn = (on: MapClient, name: string, status = 201) =>
  expectAnswer(on, status, 'POST', `${base}/${name}`, { body: config })
const own = { hasOwnServer: true }
mapCase(
  'F22.corrupt-files',
  'a damaged rule is not listed, 400, and repaired by a save',
  async () => {
    const { server, file } = await openWithRules()
    await using _ = server
    const [good] = (await file.readJson<readonly Json[]>()).filter(({ name }) => name === 'map-good')
    const names = async () =>
      (await server.requestOrThrow<List>('GET', base)).meta_profiles.map(({ name }) => name)
    for (const damaged of [
      undefined,
      ['not', 'an', 'object'],
      { classifier_model: 'map-fast', classes: 1 },
    ]) {
      await file.write(JSON.stringify([good, { name: 'map-bad', config: damaged }]))
      const detail = expect.stringContaining('Failed to load meta-profile `map-bad`')
      expect(await names()).toEqual(['map-good'])
      await expectAnswer(server, 400, 'GET', `${base}/map-bad`, {}, { detail })
      await expectAnswer(server, 400, 'POST', `${base}/map-bad/activate`, {}, { detail })
      // What changes other rules keeps it for whoever repairs it.
      await saveOn(server, 'map-other')
      expect(await file.readJson()).toContainEqual(
        JSON.parse(JSON.stringify({ name: 'map-bad', config: damaged })),
      )
      await saveOn(server, 'map-bad')
      await expectAnswer(server, 200, 'GET', `${base}/map-bad`, {}, { config })
    }
    await file.write(JSON.stringify([good, { name: 'map-bad' }]))
    await expectAnswer(server, 200, 'DELETE', `${base}/map-bad`)
    expect(await file.readJson()).toEqual([good])
    for (const text of ['', '[{"name": "map-good", ', '{}', '["text"]'])
      await file.whileDamaged(text, async () => {
        await expectAnswer(server, 409, 'GET', base)
        await saveOn(server, 'map-good', 409)
        await expectAnswer(server, 409, 'DELETE', `${base}/map-good`)
      })
    expect(await names()).toEqual(['map-good'])
  },
  own,
)
mapCase(
  'F22.corrupt-settings',
  'with damaged settings an activation is 409 and leaves the file',
  async () => {
    const { server } = await openWithRules()
    await using _ = server
    await expectAnswer(server, 200, 'POST', `${base}/map-good/activate`)
    await new StoredDocument(server, 'settings.sealed').whileDamaged('{"agent_settings": ', async () => {
      await expectAnswer(
        server,
        409,
        'POST',
        `${base}/map-bad/activate`,
        {},
        {
          detail: expect.stringContaining('Settings file is corrupted or encrypted with a different key'),
        },
      )
    })
    expect(await server.requestOrThrow('GET', base)).toMatchObject({ active_meta_profile: 'map-good' })
  },
  own,
)
const noLock = 'one server owns its data directory: there is no lock that another program could hold'
notApplicable('F22.store-busy', 'a lock held by another process', noLock)
notApplicable('F22.store-busy-responsive', 'other requests while a lock is held', noLock)
mapCase(
  'F22.persistence-dir',
  'rules are in the data directory that the server was given, beside the settings',
  async () => {
    const { server, file } = await openWithRules()
    await using _ = server
    await server.requestOrThrow('PATCH', '/api/settings', { body: { misc_settings_diff: { map: 1 } } })
    expect(await file.readJson()).toEqual([
      { name: 'map-good', config: expect.objectContaining(config) },
      { name: 'map-bad', config: expect.objectContaining(config) },
    ])
    const beside = await new StoredDocument(server, 'settings.sealed').read()
    expect(beside.length).toBeGreaterThan(0)
    await using second = await OwnMapServer.open({ key: 'map-key-2', env: { HOME: server.home } })
    expect(await second.requestOrThrow('GET', base)).toEqual({ meta_profiles: [], active_meta_profile: null })
  },
  own,
)

endFamily('F22', 24)
