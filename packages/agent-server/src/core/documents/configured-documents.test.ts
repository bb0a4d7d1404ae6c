import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { llm } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { AgentProfiles } from '../../compat/agent-profiles/agent-profiles.ts'
import { MetaProfiles } from '../../compat/meta-profiles/meta-profiles.ts'
import { LlmProfiles } from '../../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../../modules/settings/server-settings.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ServerSecrets } from '../secrets/server-secrets.ts'
import { withConfiguredDocuments } from './configured-documents.ts'

async function open(place: string) {
  const dataDirectory = join(place, 'data')
  const cipher = await Cipher.open({ directory: dataDirectory, secretKey: undefined })
  const stored = fileDocuments(dataDirectory)
  const directory = join(place, 'configured')
  mkdirSync(join(directory, 'profiles'), { recursive: true })
  const write = (file: string, value: unknown) =>
    writeFileSync(join(directory, file), typeof value === 'string' ? value : JSON.stringify(value), {
      mode: 0o600,
    })
  return {
    ...{ cipher, stored, directory, write },
    read: (folder = directory) =>
      withConfiguredDocuments(stored, { directory: folder, dataDirectory, cipher }),
  }
}

test('files win over the storage, are read-only with their path, and leave what is stored', async () => {
  using place = temporaryDirectory()
  const { cipher, stored, directory, write, read } = await open(place.path)
  const before = new ServerSettings({ documents: stored, cipher })
  await before.modify((settings) => ({ ...settings, misc_settings: { theme: 'stored' } }))
  write('settings.json', {
    agent_settings: { llm: { model: 'openai/file', api_key: 'sk' } },
    misc_settings: {},
  })
  write('profiles/one.json', { schema_version: 1, llm: { model: 'openai/one', api_key: 'sk-one' } })
  const documents = await read()
  const settings = new ServerSettings({ documents, cipher })
  const profiles = new LlmProfiles({ documents, cipher, settings })
  expect((await settings.getAgentSettings()).llm).toMatchObject({ model: 'openai/file', api_key: 'sk' })
  await profiles.save('two', llm.parse({ model: 'openai/two' }))
  expect((await profiles.list()).map(({ name, read_only_file }) => [name, read_only_file])).toEqual([
    ['one', join(directory, 'profiles/one.json')],
    ['two', undefined],
  ])
  expect(await profiles.get('one')).toMatchObject({ model: 'openai/one', api_key: 'sk-one' })
  const refused = (file: string) => ({
    code: 'conflict',
    message: `This is set by ${join(directory, file)} and read-only here: change the file, and restart the server`,
  })
  const change = () => settings.modify((all) => ({ ...all, misc_settings: { theme: 'dark' } }))
  await expect(change()).rejects.toMatchObject(refused('settings.json'))
  // What changes nothing is no change.
  await settings.modify((all) => all)
  await expect(profiles.save('one', llm.parse({ model: 'x' }))).rejects.toMatchObject(
    refused('profiles/one.json'),
  )
  await expect(profiles.remove('one')).rejects.toMatchObject(refused('profiles/one.json'))
  await expect(profiles.rename('one', 'three')).rejects.toMatchObject(refused('profiles/one.json'))
  expect(await profiles.get('three')).toBeUndefined()
  await expect(profiles.activate('two')).rejects.toMatchObject(refused('settings.json'))
  expect(settings.file).toBe(join(directory, 'settings.json'))
  expect((await before.read()).misc_settings).toEqual({ theme: 'stored' })
  // What no file sets is that of the storage.
  await new ServerSecrets({ documents, cipher }).save('NAME', { value: 'v' })
  expect(await new ServerSecrets({ documents: stored, cipher }).getValue('NAME')).toBe('v')
  expect(readFileSync(join(place.path, 'data/secrets.sealed'), 'utf8')).not.toContain('NAME')
})

test('a file that sets no document, or is no JSON, is refused with its path', async () => {
  using place = temporaryDirectory()
  const { directory, write, read } = await open(place.path)
  write('.hidden.json', 'not read')
  write('notes.txt', 'not read')
  await read()
  write('setings.json', {})
  await expect(read()).rejects.toThrow(`${join(directory, 'setings.json')} sets no document: files of`)
  using other = temporaryDirectory()
  const broken = await open(other.path)
  broken.write('settings.json', '{"agent_settings": ')
  await expect(broken.read()).rejects.toThrow(`${join(broken.directory, 'settings.json')} is not JSON`)
})

test('a change that a file refuses changes no other document', async () => {
  using place = temporaryDirectory()
  const { cipher, stored, write, read } = await open(place.path)
  const openStores = async () => {
    const documents = await read()
    const settings = new ServerSettings({ documents, cipher })
    const llmProfiles = new LlmProfiles({ documents, cipher, settings })
    const metaProfiles = new MetaProfiles({ documents, settings })
    const agentProfiles = new AgentProfiles({
      ...{ documents, cipher, llmProfiles, settings },
      listUserSkills: async () => [],
    })
    return { settings, llmProfiles, metaProfiles, agentProfiles }
  }
  const contents = async () =>
    Promise.all((await stored.list('')).toSorted().map(async (name) => [name, await stored.get('', name)]))
  write('agent-profiles.json', [])
  const seeded = await openStores()
  await seeded.settings.modify((all) => ({
    ...all,
    agent_settings: { llm: { model: 'openai/m', api_key: 'sk' } },
  }))
  const unseeded = await contents()
  expect(await seeded.agentProfiles.list()).toEqual([])
  expect(await contents()).toEqual(unseeded)
  const id = '0f9a2f6e-5d0c-4c1b-9a57-000000000010'
  const classes = [{ description: 'any', model: 'one' }]
  const rule = { classifier_model: 'one', classes }
  write('agent-profiles.json', [
    { id, name: 'a', revision: 0, agent_kind: 'openhands', llm_profile_ref: 'one' },
  ])
  write('meta-profiles.json', [{ name: 'rule', config: rule }])
  const { llmProfiles, metaProfiles, agentProfiles } = await openStores()
  await llmProfiles.save('one', llm.parse({ model: 'openai/one' }))
  await llmProfiles.activate('one')
  await agentProfiles.activate(id)
  await metaProfiles.activate('rule')
  const before = await contents()
  await expect(agentProfiles.remove('a')).rejects.toMatchObject({ code: 'conflict' })
  await expect(metaProfiles.remove('rule')).rejects.toMatchObject({ code: 'conflict' })
  expect(await contents()).toEqual(before)
  write('settings.json', { active_profile: 'one', agent_settings: {}, misc_settings: {} })
  const readOnly = await openStores()
  await expect(readOnly.llmProfiles.rename('one', 'two')).rejects.toMatchObject({ code: 'conflict' })
  await expect(readOnly.llmProfiles.remove('one')).rejects.toMatchObject({ code: 'conflict' })
  expect(await contents()).toEqual(before)
})

test('files that other users may read, or a backup without secrets would have, are refused', async () => {
  using place = temporaryDirectory()
  const { directory, write, read } = await open(place.path)
  write('secrets.json', {})
  chmodSync(directory, 0o755)
  await read()
  chmodSync(join(directory, 'secrets.json'), 0o644)
  await expect(read()).rejects.toThrow(
    `every user of this machine may read or write ${join(directory, 'secrets.json')}`,
  )
  chmodSync(directory, 0o700)
  await read()
  const inside = join(place.path, 'data/configured')
  mkdirSync(inside)
  await expect(read(inside)).rejects.toThrow(`${inside} is in the data directory`)
  symlinkSync(inside, join(place.path, 'link'))
  await expect(read(join(place.path, 'link'))).rejects.toThrow('is in the data directory')
})

test('a file of another form is a Problem with its path', async () => {
  using place = temporaryDirectory()
  const { cipher, directory, write, read } = await open(place.path)
  write('settings.json', { unknown: 1 })
  const settings = new ServerSettings({ documents: await read(), cipher })
  await expect(settings.read()).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining(`${join(directory, 'settings.json')} cannot be read: `),
  })
})
