import { expect } from 'vitest'
import { expectAnswer, expectUnauthorized } from '../answers.ts'
import { endFamily, mapCase, missing, notApplicable } from '../frame.ts'
import { openMapServer } from '../map-server.ts'

const map = openMapServer()
const base = '/api/meta-profiles'
const none = 'meta profiles: named rules that choose a model for a task'
const oneDatabase = 'profiles are rows of the server database, without files and their locks'
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
missing('F22.save-classes', 'a rule of classes is listed and read back', none, async () => {
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
missing('F22.save-direct', 'a rule with a template has no classes', none, async () => {
  await save('map-direct', direct)
  expect((await list()).meta_profiles).toContainEqual(
    expect.objectContaining({ name: 'map-direct', num_classes: 0 }),
  )
  await expectAnswer(map, 200, 'GET', `${base}/map-direct`, {}, { config: direct })
  await remove('map-direct')
})
missing('F22.validation', 'rules that cannot be meant are 422', none, async () => {
  for (const body of [
    { ...direct, prompt_template: 'no place' },
    { ...direct, classes: config.classes },
    { classes: config.classes },
    { ...config, classes: [{ description: 'x' }] },
  ])
    await save('map-bad', body, 422)
  await expectAnswer(map, 404, 'GET', `${base}/map-bad`)
})
missing('F22.empty-router', 'a rule without classes and template is 422', none, async () => {
  await save('map-empty', { classifier_model: 'map-fast' }, 422)
})
missing('F22.overwrite', 'a second save replaces the whole rule', none, async () => {
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
missing('F22.name-rules', 'names are as those of profiles', none, async () => {
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
missing('F22.not-found', 'unknown rules are 404; a delete is 200', none, async () => {
  const detail = { detail: "Meta-profile 'map-none' not found" }
  await expectAnswer(map, 404, 'GET', `${base}/map-none`, {}, detail)
  await expectAnswer(map, 404, 'POST', `${base}/map-none/activate`, {}, detail)
  await remove('map-none')
})
missing('F22.activate', 'activation is seen in the list and in the settings', none, async () => {
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
missing('F22.delete', 'deleting an inactive rule keeps the pointer', none, async () => {
  await save('map-a')
  await save('map-b')
  await map.requestOrThrow('POST', `${base}/map-a/activate`)
  await remove('map-b')
  await remove('map-b')
  expect((await list()).active_meta_profile).toBe('map-a')
  await remove('map-a')
})
missing('F22.delete-active-clears', 'deleting the active rule turns it off', none, async () => {
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
missing('F22.limit', 'at 50 rules another is 409, an overwrite 201', none, async () => {
  const present = (await list()).meta_profiles.length
  for (let n = present; n < 50; n++) await save(`map-l${n}`)
  await save('map-one-more', config, 409)
  await save('map-l49')
  for (let n = present; n < 50; n++) await remove(`map-l${n}`)
})
missing('F22.acp-clears-pointer', 'ACP settings clear the pointer', none, async () => {
  await save('map-acp')
  await map.requestOrThrow('POST', `${base}/map-acp/activate`)
  const kind = (agent_kind: string) =>
    map.requestOrThrow('PATCH', '/api/settings', { body: { agent_settings_diff: { agent_kind } } })
  await kind('acp')
  expect((await list()).active_meta_profile).toBe(null)
  await kind('openhands')
  await remove('map-acp')
})
missing('F22.activate-acp', 'activation is refused on ACP settings', none)
missing('F22.route-classes', 'an agent asks for a route and goes on with that model', none)
missing('F22.route-direct', 'the answer of the classifier names the model', none)
missing('F22.route-missing-profile', 'an unknown model is an error of the tool only', none)
missing('F22.persist-restart', 'rules, pointer and a routed model survive a restart', none)
missing('F22.ts-client', 'the client of the package', none)
notApplicable('F22.corrupt-files', 'a file that is no rule', oneDatabase)
notApplicable('F22.corrupt-settings', 'a settings file that cannot be read', oneDatabase)
notApplicable('F22.store-busy', 'a lock held by another process', oneDatabase)
notApplicable('F22.store-busy-responsive', 'other requests while a lock is held', oneDatabase)
notApplicable('F22.persistence-dir', 'the directory of rule files', oneDatabase)

endFamily('F22', 24)
