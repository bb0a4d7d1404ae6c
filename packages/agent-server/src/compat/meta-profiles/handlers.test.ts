import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { metaProfileRoutes } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { ServerSettings } from '../../modules/settings/server-settings.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { openTestServer } from '../../testing/test-server.ts'
import { metaProfileHandlers } from './handlers.ts'
import { MetaProfiles } from './meta-profiles.ts'

const path = '/api/meta-profiles'
const file = 'meta-profiles.json'
const rule = { classifier_model: 'small', classes: [{ description: 'any', model: 'large' }] }
const template = { classifier_model: 'small', prompt_template: 'Which? {{instance_text}}' }

async function openServer(max = 50) {
  const stores: { settings?: ServerSettings } = {}
  const server = await openTestServer(metaProfileRoutes, ({ directory, cipher }) => {
    const settings = new ServerSettings({ documents: fileDocuments(directory), cipher })
    stores.settings = settings
    const profiles = new MetaProfiles({ documents: fileDocuments(directory), settings, max })
    return metaProfileHandlers({ profiles })
  })
  if (stores.settings === undefined) throw new Error()
  return { ...server, settings: stores.settings }
}

test('rules are listed by name, read, replaced and deleted; names of the object prototype are names', async () => {
  await using server = await openServer()
  const { call } = server
  for (const name of ['toString', 'b', 'constructor'])
    expect(await call('GET', `${path}/${name}`)).toMatchObject({ status: 404 })
  expect(await call('POST', `${path}/toString`, rule)).toMatchObject({ status: 201 })
  expect(await call('POST', `${path}/b`, rule)).toMatchObject({ status: 201 })
  expect(await call('POST', `${path}/b`, template)).toMatchObject({ status: 201 })
  expect(await call('GET', path)).toMatchObject({
    json: {
      meta_profiles: [
        { name: 'b', classifier_model: 'small', num_classes: 0 },
        { name: 'toString', classifier_model: 'small', num_classes: 1 },
      ],
      active_meta_profile: null,
    },
  })
  expect((await call('GET', `${path}/b`)).json).toEqual({
    name: 'b',
    config: { ...template, classes: [], model_table: null },
  })
  for (let n = 0; n < 2; n++) expect(await call('DELETE', `${path}/b`)).toMatchObject({ status: 200 })
  expect(await call('GET', `${path}/b`)).toMatchObject({ status: 404 })
})

test('a rule that can choose nothing is refused with its place', async () => {
  await using server = await openServer()
  for (const [body, place] of [
    [{ classifier_model: 'small' }, 'classes'],
    [{ ...rule, ...template }, 'classes'],
    [{ classifier_model: 'small', classes: null, prompt_template: '{{ instance }}' }, 'prompt_template'],
    [{ ...rule, classifier_model: 'no name' }, 'classifier_model'],
  ] as const)
    expect(await server.call('POST', `${path}/a`, body)).toMatchObject({
      status: 422,
      json: { detail: [{ loc: ['body', place] }] },
    })
})

test('above the limit a rule is refused, and one of the same name replaced', async () => {
  await using server = await openServer(2)
  for (const name of ['a', 'b', 'a']) await server.call('POST', `${path}/${name}`, rule)
  expect(await server.call('POST', `${path}/c`, rule)).toMatchObject({
    status: 409,
    json: { detail: 'Meta-profile limit reached (2). Delete a meta-profile before saving a new one.' },
  })
})

test('the active rule is in the settings until it is deleted or the agent is another program', async () => {
  await using server = await openServer()
  const { call, settings } = server
  await call('POST', `${path}/a`, rule)
  const activate = () => call('POST', `${path}/a/activate`)
  const diff = (agent_settings_diff: object) =>
    settings.update({ agent_settings_diff } as Parameters<ServerSettings['update']>[0])
  await diff({ llm: { model: 'openai/x' } })
  expect(await activate()).toMatchObject({ status: 200 })
  expect(await settings.getAgentSettings()).toMatchObject({
    llm: { model: 'openai/x' },
    active_meta_profile: 'a',
    enable_classify_and_switch_llm_tool: true,
    meta_profile: rule,
  })
  await call('DELETE', `${path}/a`)
  const off = { active_meta_profile: null, enable_classify_and_switch_llm_tool: false, meta_profile: null }
  expect(await settings.getAgentSettings()).toMatchObject({ ...off, llm: { model: 'openai/x' } })
  await call('POST', `${path}/a`, rule)
  await activate()
  await diff({ agent_kind: 'acp' })
  expect(await activate()).toMatchObject({ status: 409 })
  expect(await call('GET', path)).toMatchObject({ json: { active_meta_profile: null } })
  await diff({ agent_kind: 'openhands' })
  expect(await settings.getAgentSettings()).toMatchObject(off)
})

test('a damaged file is a conflict and stays as it is', async () => {
  await using server = await openServer()
  await writeFile(join(server.directory, file), '[{"name":"a"')
  for (const [method, name, body] of [
    ['GET', '', undefined],
    ['GET', '/a', undefined],
    ['POST', '/b', rule],
    ['POST', '/a/activate', undefined],
  ] as const)
    expect(await server.call(method, path + name, body)).toMatchObject({ status: 409 })
})
