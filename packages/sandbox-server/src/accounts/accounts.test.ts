import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { llm } from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Accounts } from './accounts.ts'

const canary = 'sk-canary-0123456789'

async function open(options: { model?: string; maxProfiles?: number } = {}) {
  const fixture = await openTestControlPlane()
  const model =
    options.model === undefined ? undefined : llm.parse({ model: options.model, api_key: 'server-key' })
  const accounts = new Accounts({
    documents: fixture.controlPlane.documents,
    cipher: fixture.cipher,
    model,
    maxProfiles: options.maxProfiles ?? 50,
  })
  return { fixture, accounts }
}

test('settings are merged, null deletes, and other members are replaced', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  await accounts.userSettings.update('u', {
    agent_settings_diff: { llm: { model: 'a/b', api_key: canary }, x: { y: 1 } },
  })
  await accounts.userSettings.update('u', {
    language: 'en',
    agent_settings_diff: { llm: { base_url: 'http://127.0.0.1:1' }, x: { z: 2 } },
    conversation_settings_diff: { max_iterations: 7 },
  })
  expect(await accounts.userSettings.read('u')).toMatchObject({
    language: 'en',
    agent_settings: {
      llm: { model: 'a/b', api_key: canary, base_url: 'http://127.0.0.1:1' },
      x: { y: 1, z: 2 },
    },
    conversation_settings: { max_iterations: 7 },
  })
  await accounts.userSettings.update('u', {
    agent_settings_diff: { x: { y: null }, llm: { base_url: null } },
  })
  const { agent_settings } = await accounts.userSettings.read('u')
  expect(agent_settings).toMatchObject({ llm: { model: 'a/b', api_key: canary }, x: { z: 2 } })
  expect(agent_settings.llm?.base_url).toBeUndefined()
  expect(await accounts.userSettings.read('other')).toMatchObject({
    git_full_clone: false,
    agent_settings: {},
  })
})

test('invalid settings are refused with their place and change nothing', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  await accounts.userSettings.update('u', { conversation_settings_diff: { max_iterations: 7 } })
  const change = { language: 'de', conversation_settings_diff: { max_iterations: 0 } }
  await expect(accounts.userSettings.update('u', change)).rejects.toMatchObject({
    issues: [{ loc: ['body', 'conversation_settings', 'max_iterations'] }],
  })
  const stored = await accounts.userSettings.read('u')
  expect([stored.language, stored.conversation_settings.max_iterations]).toEqual([undefined, 7])
})

test('a key that is sent as stars or empty does not change', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  await accounts.userSettings.update('u', { agent_settings_diff: { llm: { model: 'a/b', api_key: canary } } })
  for (const api_key of ['**********', '']) {
    await accounts.userSettings.update('u', { agent_settings_diff: { llm: { model: 'a/c', api_key } } })
    expect((await accounts.model('u', {})).api_key).toBe(canary)
  }
})

test('the model comes from the profile, the settings or the server; its name can be replaced', async () => {
  const { fixture, accounts } = await open({ model: 'server/m' })
  await using _ = fixture
  expect(await accounts.model('u', {})).toMatchObject({ model: 'server/m', api_key: 'server-key' })
  expect(await accounts.model('u', { model: 'server/n' })).toMatchObject({
    model: 'server/n',
    api_key: 'server-key',
  })
  const elsewhere = { agent_settings_diff: { llm: { base_url: 'http://127.0.0.1:9/elsewhere' } } }
  await accounts.userSettings.update('v', elsewhere)
  await expect(accounts.model('v', {})).rejects.toMatchObject({ code: 'invalid' })
  await expect(accounts.model('v', { model: 'server/n' })).resolves.not.toHaveProperty('api_key')
  await accounts.userSettings.update('u', { agent_settings_diff: { llm: { model: 'own/m' } } })
  const own = await accounts.model('u', {})
  expect([own.model, own.api_key]).toEqual(['own/m', undefined])
  await accounts.llmProfiles.save('u', 'p', llm.parse({ model: 'profile/m', api_key: canary }))
  expect(await accounts.model('u', { profile: 'p' })).toMatchObject({ model: 'profile/m', api_key: canary })
  await expect(accounts.model('u', { profile: 'constructor' })).rejects.toMatchObject({ code: 'not_found' })
})

test('without any model the problem says where to set one', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  await expect(accounts.model('u', {})).rejects.toMatchObject({ issues: [{ loc: ['body', 'llm_model'] }] })
})

test('profiles have a limit and any name, and a rename keeps the active one', async () => {
  const { fixture, accounts } = await open({ maxProfiles: 2 })
  await using _ = fixture
  const model = llm.parse({ model: 'a/b' })
  await accounts.llmProfiles.save('u', 'constructor', model)
  await accounts.llmProfiles.save('u', 'two', model)
  await expect(accounts.llmProfiles.save('u', 'three', model)).rejects.toMatchObject({ code: 'conflict' })
  await accounts.llmProfiles.save('u', 'two', llm.parse({ model: 'a/c' }))
  await accounts.activateProfile('u', 'two')
  await expect(accounts.llmProfiles.rename('u', 'two', 'constructor')).rejects.toMatchObject({
    code: 'conflict',
  })
  await accounts.llmProfiles.rename('u', 'two', 'toString')
  expect(await accounts.llmProfiles.readAll('u')).toMatchObject({ active: 'toString' })
  expect((await accounts.model('u', {})).model).toBe('a/c')
  expect([
    await accounts.removeProfile('u', 'toString'),
    await accounts.removeProfile('u', 'valueOf'),
  ]).toEqual([true, false])
  expect((await accounts.llmProfiles.readAll('u')).active).toBe('constructor')
  expect((await accounts.model('u', {})).model).toBe('a/b')
  await accounts.removeProfile('u', 'constructor')
  expect((await accounts.llmProfiles.readAll('u')).active).toBeNull()
  expect((await accounts.llmProfiles.readAll('other')).profiles).toEqual({})
})

test('concurrent changes are all stored', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  const names = Array.from({ length: 30 }, (_, i) => `S${i}`)
  await Promise.all(names.map((name) => accounts.userSecrets.save(name, { value: name }, 'u')))
  expect(Object.keys(await accounts.secrets('u')).sort()).toEqual(names.sort())
})

test('no secret is in a file or in redacted settings', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  await accounts.userSettings.update('u', {
    search_api_key: `${canary}-1`,
    agent_settings_diff: {
      llm: { model: 'a/b', api_key: `${canary}-2` },
      mcp: { Env: { A: `${canary}-3` } },
    },
  })
  await accounts.userSecrets.save('S', { value: `${canary}-4` }, 'u')
  await accounts.gitProviders.update('u', { github: { token: `${canary}-5` } })
  expect(JSON.stringify(redact(await accounts.userSettings.read('u')))).not.toContain(canary)
  expect(JSON.stringify(await accounts.secrets('u'))).not.toContain(canary)
  for (const file of readdirSync(fixture.path)) {
    expect([file, readFileSync(join(fixture.path, file)).includes(canary)]).toEqual([file, false])
  }
})

test('documents sealed with another key are refused and not overwritten', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  const { documents } = fixture.controlPlane
  for (const name of ['settings', 'profiles', 'secrets', 'providers'])
    await documents.update('u', name, () => Buffer.from('sealed with another key'))
  const model = llm.parse({ model: 'a/b' })
  for (const work of [
    () => accounts.userSettings.update('u', { language: 'en' }),
    () => accounts.llmProfiles.save('u', 'p', model),
    () => accounts.userSecrets.save('S', { value: 'v' }, 'u'),
    () => accounts.gitProviders.removeAll('u'),
    () => accounts.secrets('u'),
  ])
    await expect(work()).rejects.toMatchObject({ code: 'unavailable' })
  expect(String(await documents.get('u', 'secrets'))).toBe('sealed with another key')
})

test('what a user stores in settings and secrets is bounded, and an update above that changes nothing', async () => {
  const { fixture, accounts } = await open()
  await using _ = fixture
  const value = 'x'.repeat(5 * 1024 * 1024)
  await accounts.userSecrets.save('ONE', { value }, 'u')
  await expect(accounts.userSecrets.save('TWO', { value }, 'u')).rejects.toMatchObject({ code: 'too_large' })
  expect((await accounts.userSecrets.list('u')).map(({ name }) => name)).toEqual(['ONE'])
  const big = { agent_settings_diff: { a: value } }
  await accounts.userSettings.update('u', big)
  const more = accounts.userSettings.update('u', { agent_settings_diff: { b: value } })
  await expect(more).rejects.toMatchObject({ code: 'too_large' })
  await accounts.userSecrets.save('ONE', { value: 'short' }, 'u')
})
