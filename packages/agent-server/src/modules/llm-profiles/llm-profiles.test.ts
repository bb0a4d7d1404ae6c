import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Llm, llm } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ServerSettings } from '../settings/server-settings.ts'
import { LlmProfiles, type ProfileLinks } from './llm-profiles.ts'

async function openProfiles(max?: number) {
  const directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const path = join(directory.path, 'profiles')
  const open = (links: ProfileLinks = {}, faults: Partial<ServerSettings> = {}) => {
    const settings = Object.assign(
      new ServerSettings({ documents: fileDocuments(directory.path), cipher }),
      faults,
    )
    return new LlmProfiles({
      documents: fileDocuments(directory.path),
      cipher,
      settings,
      links,
      ...(max === undefined ? {} : { max }),
    })
  }
  return { path, open, profiles: open(), [Symbol.dispose]: () => directory[Symbol.dispose]() }
}

function createLlm(members: Record<string, unknown> = {}): Llm {
  return llm.parse({ model: 'openai/m', api_key: 'sk-secret', base_url: 'https://x.example/v1', ...members })
}

const summary = {
  model: 'openai/m',
  base_url: 'https://x.example/v1',
  provider_connection_id: null,
  provider_connection_broken: false,
  api_key_set: true,
}

test('a profile is stored with its secrets, and its file holds no secret in clear', async () => {
  using store = await openProfiles()
  const secrets = {
    aws_secret_access_key: 'secret-1',
    aws_access_key_id: 'secret-2',
    extra_headers: { 'X-Any': 'secret-3' },
    fallback_strategy: { fallback_llms: ['other', { model: 'f', api_key: 'secret-4' }] },
    litellm_extra_body: { token: 'secret-5', password: 987654321, count: 3, visible: 'plain' },
    base_url: 'https://secret-6:secret-7@x.example/v1',
  }
  await store.profiles.save('p', createLlm(secrets))
  const file = join(store.path, 'p.json')
  const text = readFileSync(file, 'utf8')
  expect(text).not.toMatch(/secret-|987654321/)
  expect(text).toContain('"visible": "plain"')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(await store.open().get('p')).toEqual(createLlm(secrets))
  expect(await store.open().list()).toEqual([{ name: 'p', ...summary, base_url: null }])
})

test('any member of a model is read back unchanged', async () => {
  using store = await openProfiles()
  const name = fc.constantFrom('api_key', 'extra', 'token', '$sealed', 'sealed', 'headers', 'x', '__proto__')
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.string({ unit: 'grapheme' }),
      fc.integer(),
      fc.constantFrom(true, null, 'https://u:p@h/', '**********'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(name, tie('value'), { maxKeys: 3 }),
    ),
  }))
  const property = fc.asyncProperty(fc.dictionary(name, value), async (extra) => {
    // What JSON makes of it: a key named __proto__ is a key like any other.
    const model = createLlm({ litellm_extra_body: JSON.parse(JSON.stringify(extra)) })
    await store.profiles.save('p', model)
    expect(await store.profiles.get('p')).toEqual(model)
    expect(await store.profiles.list()).toEqual([{ name: 'p', ...summary }])
  })
  await fc.assert(property, { numRuns: 60 })
})

test('an unreadable file is not listed, and reading it is refused', async () => {
  using store = await openProfiles()
  await store.profiles.save('good', createLlm({ api_key: undefined }))
  const broken = {
    cut: '{"schema_version":1,"llm":{',
    later: '{"schema_version":2,"llm":{"model":"m"}}',
    other: '[1]',
  }
  for (const [name, text] of Object.entries(broken)) writeFileSync(join(store.path, `${name}.json`), text)
  writeFileSync(join(store.path, 'notes.txt'), 'no profile')
  writeFileSync(join(store.path, '.hidden.json'), '{}')
  expect(await store.profiles.list()).toEqual([{ name: 'good', ...summary, api_key_set: false }])
  for (const name of Object.keys(broken)) {
    await expect(store.profiles.get(name)).rejects.toMatchObject({ code: 'bad_request' })
    await expect(store.profiles.activate(name)).rejects.toMatchObject({ code: 'bad_request' })
  }
  await store.profiles.save('cut', createLlm())
  expect(await store.profiles.get('cut')).toEqual(createLlm())
})

test('a profile sealed with another key is listed, and reading it is refused', async () => {
  using store = await openProfiles()
  using elsewhere = temporaryDirectory()
  await store.profiles.save('p', createLlm())
  const cipher = await Cipher.open({ directory: elsewhere.path, secretKey: undefined })
  const settings = new ServerSettings({ documents: fileDocuments(elsewhere.path), cipher })
  const profiles = new LlmProfiles({ documents: fileDocuments(dirname(store.path)), cipher, settings })
  expect(await profiles.list()).toEqual([{ name: 'p', ...summary }])
  await expect(profiles.get('p')).rejects.toMatchObject({ code: 'bad_request' })
})

test('a file written by hand is read, also with secrets in clear', async () => {
  using store = await openProfiles()
  await store.profiles.save('any', createLlm())
  writeFileSync(join(store.path, 'own.json'), '{"schema_version":1,"llm":{"model":"m","api_key":"k"}}')
  expect(await store.profiles.get('own')).toMatchObject({ model: 'm', api_key: 'k' })
})

test('concurrent saves respect the limit, and an existing profile can be replaced', async () => {
  using store = await openProfiles(3)
  const outcomes = await Promise.allSettled(
    ['a', 'b', 'a', 'c', 'd', 'b', 'e'].map((name) => store.profiles.save(name, createLlm())),
  )
  expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([
    true,
    true,
    true,
    true,
    false,
    true,
    false,
  ])
  expect(outcomes[4]).toMatchObject({ reason: { code: 'conflict' } })
  expect((await store.profiles.list()).map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  expect(await store.profiles.remove('b')).toBe(true)
  expect(await store.profiles.remove('b')).toBe(false)
  await store.profiles.save('d', createLlm())
  expect(readdirSync(store.path).sort()).toEqual(['a.json', 'c.json', 'd.json'])
})

test('a rename keeps the active profile, and its removal leaves none active', async () => {
  using store = await openProfiles()
  const { profiles } = store
  expect([await profiles.getActiveName(), await profiles.list()]).toEqual([undefined, []])
  await expect(profiles.activate('a')).rejects.toMatchObject({ code: 'not_found' })
  await profiles.save('a', createLlm())
  await profiles.save('b', createLlm({ model: 'other' }))
  expect(await profiles.activate('a')).toBe(true)
  await expect(profiles.rename('a', 'b')).rejects.toMatchObject({ code: 'conflict' })
  await expect(profiles.rename('unknown', 'c')).rejects.toMatchObject({ code: 'not_found' })
  await profiles.rename('a', 'a')
  await profiles.rename('a', 'c')
  expect(await store.open().getActiveName()).toBe('c')
  expect(await profiles.get('a')).toBeUndefined()
  expect(await profiles.get('c')).toEqual(createLlm())
  await profiles.rename('b', 'a')
  expect(await profiles.getActiveName()).toBe('c')
  await profiles.remove('c')
  expect(await store.open().getActiveName()).toBeUndefined()
  await profiles.save('c', createLlm())
  expect(await profiles.getActiveName()).toBeUndefined()
})

test.each(['', '.hidden', '../up', 'a/b', 'a\0', 'x'.repeat(65), '-a', 'ä', 'a\n'])(
  'the name %j leads to no file',
  async (name) => {
    using store = await openProfiles()
    await store.profiles.save('a', createLlm())
    expect(await store.profiles.get(name)).toBeUndefined()
    expect(await store.profiles.remove(name)).toBe(false)
    await expect(store.profiles.activate(name)).rejects.toMatchObject({ code: 'not_found' })
    await expect(store.profiles.save(name, createLlm())).rejects.toMatchObject({ code: 'invalid' })
    await expect(store.profiles.rename('a', name)).rejects.toMatchObject({ code: 'invalid' })
    expect(readdirSync(store.path)).toEqual(['a.json'])
  },
)

test('a failed save leaves the old profile and does not block the next save', async () => {
  using store = await openProfiles()
  await store.profiles.save('a', createLlm())
  const inTheWay = join(store.path, '.a.json.draft')
  mkdirSync(inTheWay)
  await expect(store.profiles.save('a', createLlm({ model: 'new' }))).rejects.toThrow()
  expect(await store.profiles.get('a')).toEqual(createLlm())
  rmdirSync(inTheWay)
  await store.profiles.save('a', createLlm({ model: 'new' }))
  expect(await store.profiles.get('a')).toMatchObject({ model: 'new' })
})

test('a profile resolves to the key and base URL of its connection, and shows when that is gone', async () => {
  using store = await openProfiles()
  const connections = new Map([['c', { api_key: 'key-of-c', base_url: 'https://c.example/v1' }]])
  const profiles = store.open({ findConnection: async (id) => connections.get(id) })
  await profiles.save('p', llm.parse({ model: 'openai/m', provider_connection_id: 'c' }))
  await profiles.save('own', createLlm({ provider_connection_id: 'c' }))
  expect(await profiles.resolve('p')).toMatchObject({ api_key: 'key-of-c', base_url: 'https://c.example/v1' })
  // A linked profile has no separate address; the key is what the connection is for.
  expect(await profiles.resolve('own')).toMatchObject({
    api_key: 'key-of-c',
    base_url: 'https://c.example/v1',
  })
  expect((await profiles.get('p'))?.api_key).toBeUndefined()
  const named = { provider_connection_id: 'c', provider_connection_broken: false, api_key_set: true }
  expect(await profiles.list()).toMatchObject([{ name: 'own' }, { name: 'p', ...named }])
  connections.clear()
  expect((await profiles.list())[1]).toMatchObject({ provider_connection_broken: true, api_key_set: false })
  await expect(profiles.resolve('p')).rejects.toMatchObject({ code: 'invalid' })
  await expect(profiles.activate('p')).rejects.toMatchObject({ code: 'invalid' })
  expect(await profiles.resolve('none')).toBeUndefined()
})

test('without readable settings, profiles are listed, renamed and removed, and none is active', async () => {
  using store = await openProfiles()
  const { profiles } = store
  await profiles.save('a', createLlm())
  await profiles.activate('a')
  writeFileSync(join(store.path, '..', 'settings.sealed'), 'bm90IGl0')
  const blind = store.open()
  expect(await blind.getActiveName()).toBeUndefined()
  await blind.rename('a', 'b')
  expect(await blind.list()).toEqual([{ name: 'b', ...summary }])
  await expect(blind.activate('b')).rejects.toMatchObject({ code: 'conflict' })
  expect(await blind.remove('b')).toBe(true)
})

test('an unexpected error of the settings is passed on, and nothing is removed', async () => {
  using store = await openProfiles()
  await store.profiles.save('a', createLlm())
  const read = async () => {
    throw new TypeError('on purpose')
  }
  const blind = store.open({}, { read })
  await expect(blind.getActiveName()).rejects.toThrow('on purpose')
  await expect(blind.remove('a')).rejects.toThrow('on purpose')
  expect(await blind.list()).toEqual([{ name: 'a', ...summary }])
})

test('a rename whose references cannot be updated changes nothing', async () => {
  using store = await openProfiles()
  const references = {
    findReferences: async () => ['coder'],
    renameReferences: async () => {
      throw new Error('on purpose')
    },
  }
  const profiles = store.open({ references })
  await profiles.save('a', createLlm())
  await profiles.activate('a')
  await expect(profiles.rename('a', 'b')).rejects.toThrow('on purpose')
  expect(await profiles.list()).toEqual([{ name: 'a', ...summary }])
  expect(await profiles.getActiveName()).toBe('a')
})

test('references follow a rename and prevent removal', async () => {
  using store = await openProfiles()
  const users = new Map([['coder', 'a']])
  const profiles = store.open({
    references: {
      findReferences: async (name) => [...users].filter(([, used]) => used === name).map(([user]) => user),
      renameReferences: async (name, newName) => {
        for (const [user, used] of users) if (used === name) users.set(user, newName)
      },
    },
  })
  await profiles.save('a', createLlm())
  await profiles.rename('a', 'b')
  expect(users.get('coder')).toBe('b')
  await expect(profiles.remove('b')).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('coder'),
  })
  expect(await profiles.get('b')).toBeDefined()
  users.clear()
  expect(await profiles.remove('b')).toBe(true)
})

test('a rename replaces no profile that another server has saved meanwhile', async () => {
  using store = await openProfiles()
  for (const name of ['a', 'b']) await store.profiles.save(name, createLlm({ model: `openai/${name}` }))
  using elsewhere = temporaryDirectory()
  const cipher = await Cipher.open({ directory: elsewhere.path, secretKey: undefined })
  const documents = {
    ...fileDocuments(dirname(store.path)),
    list: async () => ['profiles/a.json'],
  }
  const settings = new ServerSettings({ documents: fileDocuments(elsewhere.path), cipher })
  const other = new LlmProfiles({ documents, cipher, settings })
  await expect(other.rename('a', 'b')).rejects.toThrow("Profile 'b' already exists")
  expect(await store.profiles.get('b')).toMatchObject({ model: 'openai/b' })
})
