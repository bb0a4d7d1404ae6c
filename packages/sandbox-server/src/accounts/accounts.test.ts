import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Accounts, redactSettings } from './accounts.ts'
import { SealedDocuments } from './sealed-documents.ts'

const canary = 'sk-canary-0123456789'

async function open(options: { model?: string; maxProfiles?: number } = {}) {
  const trial = await openTestControlPlane()
  const documents = new SealedDocuments(trial.controlPlane.documents, trial.cipher)
  const model =
    options.model === undefined ? undefined : llm.parse({ model: options.model, api_key: 'server-key' })
  const accounts = new Accounts({ documents, model, maxProfiles: options.maxProfiles ?? 50 })
  return { trial, accounts }
}

test('settings are merged, null deletes, and other members are replaced', async () => {
  const { trial, accounts } = await open()
  await using _ = trial
  await accounts.updateSettings('u', {
    agent_settings_diff: { llm: { model: 'a/b', api_key: canary }, x: { y: 1 } },
  })
  await accounts.updateSettings('u', {
    language: 'en',
    agent_settings_diff: { llm: { base_url: 'http://127.0.0.1:1' }, x: { z: 2 } },
    conversation_settings_diff: { max_iterations: 7 },
  })
  expect(await accounts.userSettings('u')).toMatchObject({
    language: 'en',
    agent_settings: {
      llm: { model: 'a/b', api_key: canary, base_url: 'http://127.0.0.1:1' },
      x: { y: 1, z: 2 },
    },
    conversation_settings: { max_iterations: 7 },
  })
  await accounts.updateSettings('u', { agent_settings_diff: { x: { y: null }, llm: { base_url: null } } })
  const { agent_settings } = await accounts.userSettings('u')
  expect(agent_settings).toMatchObject({ llm: { model: 'a/b', api_key: canary }, x: { z: 2 } })
  expect(agent_settings.llm?.base_url).toBeUndefined()
  expect(await accounts.userSettings('other')).toMatchObject({ git_full_clone: false, agent_settings: {} })
})

test('what is not valid is refused with its place, and nothing is changed', async () => {
  const { trial, accounts } = await open()
  await using _ = trial
  await accounts.updateSettings('u', { conversation_settings_diff: { max_iterations: 7 } })
  const change = { language: 'de', conversation_settings_diff: { max_iterations: 0 } }
  await expect(accounts.updateSettings('u', change)).rejects.toMatchObject({
    faults: [{ loc: ['body', 'conversation_settings', 'max_iterations'] }],
  })
  const kept = await accounts.userSettings('u')
  expect([kept.language, kept.conversation_settings.max_iterations]).toEqual([undefined, 7])
})

test('a key that comes back as stars or empty stays what it was', async () => {
  const { trial, accounts } = await open()
  await using _ = trial
  await accounts.updateSettings('u', { agent_settings_diff: { llm: { model: 'a/b', api_key: canary } } })
  for (const api_key of ['**********', '']) {
    await accounts.updateSettings('u', { agent_settings_diff: { llm: { model: 'a/c', api_key } } })
    expect((await accounts.model('u', {})).api_key).toBe(canary)
  }
})

test('the model is that of the profile, of the settings, or of the server; a name may be replaced', async () => {
  const { trial, accounts } = await open({ model: 'server/m' })
  await using _ = trial
  expect(await accounts.model('u', {})).toMatchObject({ model: 'server/m', api_key: 'server-key' })
  expect(await accounts.model('u', { model: 'server/n' })).toMatchObject({
    model: 'server/n',
    api_key: 'server-key',
  })
  await accounts.updateSettings('u', { agent_settings_diff: { llm: { model: 'own/m' } } })
  const own = await accounts.model('u', {})
  expect([own.model, own.api_key]).toEqual(['own/m', undefined])
  await accounts.saveProfile('u', 'p', llm.parse({ model: 'profile/m', api_key: canary }))
  expect(await accounts.model('u', { profile: 'p' })).toMatchObject({ model: 'profile/m', api_key: canary })
  await expect(accounts.model('u', { profile: 'constructor' })).rejects.toMatchObject({ code: 'not_found' })
})

test('without any model the answer says where to set one', async () => {
  const { trial, accounts } = await open()
  await using _ = trial
  await expect(accounts.model('u', {})).rejects.toMatchObject({ faults: [{ loc: ['body', 'llm_model'] }] })
})

test('profiles: at most so many, of names of all kinds; a rename keeps what is active', async () => {
  const { trial, accounts } = await open({ maxProfiles: 2 })
  await using _ = trial
  const model = llm.parse({ model: 'a/b' })
  await accounts.saveProfile('u', 'constructor', model)
  await accounts.saveProfile('u', 'two', model)
  await expect(accounts.saveProfile('u', 'three', model)).rejects.toMatchObject({ code: 'conflict' })
  await accounts.saveProfile('u', 'two', llm.parse({ model: 'a/c' }))
  await accounts.activateProfile('u', 'two')
  await expect(accounts.renameProfile('u', 'two', 'constructor')).rejects.toMatchObject({ code: 'conflict' })
  await accounts.renameProfile('u', 'two', 'toString')
  expect(await accounts.getProfiles('u')).toMatchObject({ active: 'toString' })
  expect((await accounts.model('u', {})).model).toBe('a/c')
  expect([
    await accounts.removeProfile('u', 'toString'),
    await accounts.removeProfile('u', 'valueOf'),
  ]).toEqual([true, false])
  expect((await accounts.getProfiles('u')).active).toBeNull()
  expect((await accounts.getProfiles('other')).profiles).toEqual({})
})

test('changes at the same time are all there', async () => {
  const { trial, accounts } = await open()
  await using _ = trial
  const names = Array.from({ length: 30 }, (_, i) => `S${i}`)
  await Promise.all(
    names.map((name) => accounts.updateSecrets('u', (old) => ({ ...old, [name]: { value: name } }))),
  )
  expect(Object.keys(await accounts.secrets('u')).sort()).toEqual(names.sort())
})

test('no secret stands in a file or in what is shown', async () => {
  const { trial, accounts } = await open()
  await using _ = trial
  await accounts.updateSettings('u', {
    search_api_key: `${canary}-1`,
    agent_settings_diff: {
      llm: { model: 'a/b', api_key: `${canary}-2` },
      mcp: { Env: { A: `${canary}-3` } },
    },
  })
  await accounts.updateSecrets('u', () => ({ S: { value: `${canary}-4` } }))
  await accounts.updateProviders('u', { github: { token: `${canary}-5` } })
  expect(JSON.stringify(redactSettings(await accounts.userSettings('u')))).not.toContain(canary)
  expect(JSON.stringify(await accounts.secrets('u'))).not.toContain(canary)
  for (const file of readdirSync(trial.path)) {
    expect([file, readFileSync(join(trial.path, file)).includes(canary)]).toEqual([file, false])
  }
})
