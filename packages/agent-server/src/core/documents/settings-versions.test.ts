import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { llm, metaProfile, must, updateSettingsRequest } from '@slipway/protocol'
import { Cipher, importDocumentFiles, openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { AgentProfiles } from '../../compat/agent-profiles/agent-profiles.ts'
import { MetaProfiles } from '../../compat/meta-profiles/meta-profiles.ts'
import { ProviderConnections } from '../../compat/provider-connections/provider-connections.ts'
import { WorkspacesList } from '../../compat/saved-workspaces/workspaces-list.ts'
import { LlmProfiles } from '../../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../../modules/settings/server-settings.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ServerSecrets } from '../secrets/server-secrets.ts'

/** What servers of earlier days wrote, by `scripts/write-settings-fixture.ts` with the sources of each. */
const folder = join(import.meta.dirname, 'testing/versions')
const fixtures = readdirSync(folder).sort()

function unpack(file: string, directory: string): void {
  const files: Record<string, string> = JSON.parse(gunzipSync(readFileSync(join(folder, file))).toString())
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), text, { mode: 0o600 })
  }
}

/** As a server opens them. */
async function open(directory: string) {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const storage = await openStorage({ directory })
  const { documents } = storage
  await importDocumentFiles({ directory, documents, cipher, log: () => {} })
  const settings = new ServerSettings({ documents, cipher })
  const profiles = new LlmProfiles({ documents, cipher, settings })
  const metaProfiles = new MetaProfiles({ documents, settings })
  return {
    ...{ documents, cipher, settings, profiles, metaProfiles },
    secrets: new ServerSecrets({ documents, cipher }),
    connections: new ProviderConnections({ documents, cipher, findUsers: async () => [] }),
    agentProfiles: new AgentProfiles({
      ...{ documents, cipher, llmProfiles: profiles, settings },
      findMetaProfile: (name) => metaProfiles.get(name),
      listUserSkills: async () => [],
    }),
    workspaces: new WorkspacesList({ documents }),
    [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
  }
}

test.each(fixtures)('%s is imported, changed, and read again', async (file) => {
  using directory = temporaryDirectory()
  unpack(file, directory.path)
  const hasMetaProfiles = file > 'settings-2026-11-23'
  for (const theme of ['dark', 'light']) {
    await using stores = await open(directory.path)
    const { settings, secrets, profiles, connections, agentProfiles, workspaces, metaProfiles } = stores
    expect((await settings.read()).misc_settings).toEqual({ theme })
    expect((await settings.getAgentSettings()).llm).toMatchObject({
      model: 'openai/a',
      api_key: 'key of the settings',
    })
    expect(await secrets.readAll()).toMatchObject({
      NAME: { value: 'value of NAME', description: 'a secret' },
    })
    expect(await profiles.get('one')).toMatchObject({ model: 'openai/one', api_key: 'key of one' })
    const [connection] = await connections.list()
    expect(await connections.resolve(String(connection?.id))).toMatchObject({
      api_key: 'key of the connection',
    })
    expect((await agentProfiles.list()).map(({ name }) => name)).toEqual(['default'])
    expect((await workspaces.read()).workspaces).toMatchObject([{ id: 'w', name: 'workspace', path: '/w' }])
    expect((await metaProfiles.list()).map(({ name }) => name)).toEqual(hasMetaProfiles ? ['rule'] : [])
    await settings.modify((stored) => ({ ...stored, misc_settings: { theme: 'light' } }))
    await secrets.save('OTHER', { value: 'x' })
    await workspaces.add([{ id: 'v', name: 'v', path: '/v', parentPath: undefined }])
    await workspaces.remove('/v')
    const names = readdirSync(directory.path, { recursive: true, encoding: 'utf8' })
    expect(names.filter((name) => /\.sealed$|profiles.*\.json$|workspaces\.json$/.test(name))).toEqual([])
    expect(names).toEqual(expect.arrayContaining(['settings.sealed.imported', 'profiles/one.json.imported']))
  }
})

test('what is written now has the form of the newest fixture', async () => {
  using now = temporaryDirectory()
  using then = temporaryDirectory()
  unpack(String(fixtures.at(-1)), then.path)
  await using stores = await open(now.path)
  const { documents, settings, secrets, profiles, connections, agentProfiles, workspaces, metaProfiles } =
    stores
  await profiles.save('one', llm.parse({ model: 'openai/one', api_key: 'key of one' }))
  await agentProfiles.list()
  const model = { model: 'openai/a', api_key: 'key of the settings' }
  await settings.update(
    updateSettingsRequest.parse({
      agent_settings_diff: { llm: model },
      misc_settings_diff: { theme: 'dark' },
    }),
  )
  await secrets.save('NAME', { value: 'value of NAME', description: 'a secret' })
  await connections.add({ display_name: 'connection', provider: 'openai', api_key: 'key', base_url: null })
  await workspaces.add([{ id: 'w', name: 'workspace', path: '/w', parentPath: undefined }])
  const classes = [{ description: 'any task', model: 'one' }]
  await metaProfiles.save('rule', metaProfile.parse({ classifier_model: 'one', classes }))
  await using before = await open(then.path)
  const names = [...(await documents.list(''))].sort()
  expect(names.length).toBe(7)
  // Run scripts/write-settings-fixture.ts before the form of a document is changed.
  for (const name of names)
    expect([name, await formOf(name, stores)]).toEqual([name, await formOf(name, before)])
})

/** The names and types of the members of a document. */
async function formOf(
  name: string,
  { documents, cipher }: Pick<Awaited<ReturnType<typeof open>>, 'documents' | 'cipher'>,
): Promise<unknown> {
  const bytes = must(await documents.get('', name), name)
  return toForm(JSON.parse(name.endsWith('.sealed') ? String(cipher.open(bytes)) : bytes.toString()))
}

function toForm(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toForm)
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(members.map(([name, member]) => [name, toForm(member)]))
}
