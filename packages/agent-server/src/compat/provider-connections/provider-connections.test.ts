import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { llm, providerConnectionRoutes } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sealText } from '../../core/secrets/sealed-text.ts'
import { LlmProfiles } from '../../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../../modules/settings/server-settings.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { openTestServer } from '../../testing/test-server.ts'
import { providerConnectionHandlers } from './handlers.ts'
import { findConnectionUsers, ProviderConnections } from './provider-connections.ts'

const path = '/api/llm/provider-connections'
const canary = 'sk-canary-4711-4711'
const newConnection = {
  display_name: 'Mine',
  provider: 'openai',
  api_key: canary,
  base_url: 'https://x.example/v1',
}

/** The routes with the profiles and the settings that may name connections. */
async function openServer(max?: number) {
  let at = 1_000_000
  const stores: { connections?: ProviderConnections; profiles?: LlmProfiles; settings?: ServerSettings } = {}
  const server = await openTestServer(providerConnectionRoutes, ({ directory, cipher }) => {
    const settings = new ServerSettings({ documents: fileDocuments(directory), cipher })
    const profiles = new LlmProfiles({ documents: fileDocuments(directory), cipher, settings })
    const connections = new ProviderConnections({
      documents: fileDocuments(directory),
      cipher,
      findUsers: async (id) => await findConnectionUsers(id, { profiles, settings }),
      now: () => {
        at += 1_500
        return at
      },
      ...(max === undefined ? {} : { max }),
    })
    Object.assign(stores, { connections, profiles, settings })
    return providerConnectionHandlers({ connections })
  })
  const { connections, profiles, settings } = stores
  if (connections === undefined || profiles === undefined || settings === undefined) throw new Error()
  const add = async (body: object = {}) => {
    const { json } = await server.call('POST', path, { ...newConnection, ...body })
    return String(Object(json).id)
  }
  return {
    ...server,
    connections,
    profiles,
    settings,
    add,
    file: join(server.directory, 'provider-connections.sealed'),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

test('a connection is created, listed, changed and deleted, and its key is in no answer, log or file', async () => {
  await using server = await openServer()
  const { call } = server
  expect(await call('GET', path)).toEqual({ status: 200, json: [] })
  const made = await call('POST', path, newConnection)
  const { api_key: _, ...shown } = newConnection
  const times = { created_at: expect.any(Number), updated_at: expect.any(Number) }
  expect(made).toEqual({
    status: 201,
    json: { id: expect.any(String), ...shown, ...times, api_key_set: true },
  })
  const { id, created_at } = Object(made.json)
  expect(Number.isInteger(created_at)).toBe(true)
  await call('POST', path, { display_name: 'Second', api_key: 'sk-other-key' })
  expect(await call('GET', path)).toMatchObject({
    json: [{ id }, { display_name: 'Second', provider: 'custom', base_url: null }],
  })

  const changed = await call('PATCH', `${path}/${id}`, { display_name: 'Ours', base_url: null })
  expect(changed).toMatchObject({
    status: 200,
    json: { id, display_name: 'Ours', provider: 'openai', base_url: null, created_at },
  })
  expect(Object(changed.json).updated_at).toBeGreaterThan(created_at)
  expect(await server.connections.resolve(id)).toEqual({ api_key: canary, base_url: undefined })
  expect(await call('DELETE', `${path}/${id}`)).toEqual({
    status: 200,
    json: { ...Object(changed.json), api_key_set: false },
  })
  for (const [method, body] of [['DELETE'], ['PATCH', { provider: 'x' }]] as const)
    expect(await call(method, `${path}/${id}`, body)).toMatchObject({ status: 404 })
  expect(await server.connections.resolve(id)).toBeUndefined()
  expect(await call('GET', path)).toMatchObject({ json: [{ display_name: 'Second' }] })
  expect(await server.collectOutput()).not.toMatch(/canary|sk-other/)
})

test('a key can be replaced, also by a sealed one, and never removed', async () => {
  await using server = await openServer()
  const { call, cipher, connections } = server
  const id = await server.add()
  await call('PATCH', `${path}/${id}`, { api_key: sealText(cipher, 'sk-new-1') })
  expect(await connections.resolve(id)).toEqual({ api_key: 'sk-new-1', base_url: newConnection.base_url })
  const sealed = await server.add({ api_key: sealText(cipher, canary) })
  expect(await connections.resolve(sealed)).toMatchObject({ api_key: canary })
  for (const api_key of [null, '', '  ', '**********', '<redacted>', 'slipway-sealed-AAAA', 5, [canary]]) {
    const refused = await call('PATCH', `${path}/${id}`, { api_key })
    expect(refused).toMatchObject({ status: 422, json: { detail: [{ loc: ['body', 'api_key'] }] } })
    expect(await call('POST', path, { ...newConnection, api_key })).toMatchObject({ status: 422 })
  }
  expect(await connections.resolve(id)).toMatchObject({ api_key: 'sk-new-1' })
  expect(await connections.list()).toHaveLength(2)
  expect(await server.collectOutput()).not.toMatch(/canary|sk-new/)
})

test('wrong or unknown members are refused with their place and change nothing', async () => {
  await using server = await openServer()
  const { call } = server
  const id = await server.add()
  const before = await readFile(server.file)
  const bad: readonly (readonly [object, (string | number)[]])[] = [
    [{ more: canary }, ['body', 'more']],
    [{ id: 'x' }, ['body', 'id']],
    [{ display_name: '' }, ['body', 'display_name']],
    [{ display_name: ' ' }, ['body', 'display_name']],
    [{ display_name: 'x'.repeat(129) }, ['body', 'display_name']],
    [{ display_name: null }, ['body', 'display_name']],
    [{ provider: null }, ['body', 'provider']],
    [{ provider: '' }, ['body', 'provider']],
    [{ base_url: 'ftp://x.example' }, ['body', 'base_url']],
    [{ base_url: 'not an address' }, ['body', 'base_url']],
    [{ base_url: `https://user:${canary}@x.example` }, ['body', 'base_url']],
    [{ base_url: 7 }, ['body', 'base_url']],
  ]
  for (const [members, loc] of bad) {
    for (const answer of [
      await call('POST', path, { ...newConnection, ...members }),
      await call('PATCH', `${path}/${id}`, members),
    ])
      expect([members, answer]).toMatchObject([members, { status: 422, json: { detail: [{ loc }] } }])
  }
  for (const body of [{}, [], null, 'x']) {
    expect(await call('PATCH', `${path}/${id}`, body)).toMatchObject({ status: 422 })
    expect(await call('POST', path, body)).toMatchObject({ status: 422 })
  }
  expect(await server.callRaw('POST', path, `{"api_key": "${canary}`)).toMatchObject({ status: 422 })
  expect(await readFile(server.file)).toEqual(before)
  expect(await server.collectOutput()).not.toContain('canary')
})

test('concurrent creations respect the limit', async () => {
  await using server = await openServer(3)
  const answers = await Promise.all(Array.from({ length: 8 }, () => server.call('POST', path, newConnection)))
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 409, 409, 409, 409, 409])
  expect(await server.connections.list()).toHaveLength(3)
})

test('a referenced connection is not deleted, and provides its key and base URL', async () => {
  await using server = await openServer()
  const { call, profiles, settings } = server
  const [one, two] = [await server.add(), await server.add()]
  await profiles.save('p', llm.parse({ model: 'openai/m', provider_connection_id: one }))
  await settings.modify((stored) => ({
    ...stored,
    agent_settings: { llm: { model: 'openai/m', provider_connection_id: two } },
  }))
  for (const id of [one, two]) expect(await call('DELETE', `${path}/${id}`)).toMatchObject({ status: 409 })
  await profiles.remove('p')
  await settings.modify((stored) => ({ ...stored, agent_settings: {} }))
  for (const id of [one, two]) expect(await call('DELETE', `${path}/${id}`)).toMatchObject({ status: 200 })
})

test('the second of two concurrent deletions is 404', async () => {
  await using server = await openServer()
  const id = await server.add()
  const answers = await Promise.all([1, 2, 3].map(() => server.call('DELETE', `${path}/${id}`)))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404])
})

test('a key in the parameters of a URL is redacted', async () => {
  await using server = await openServer()
  const id = await server.add({ base_url: `https://x.example/v1?api_key=${canary}` })
  expect(await server.call('GET', path)).toMatchObject({
    json: [{ base_url: 'https://x.example/v1?api_key=****' }],
  })
  expect(await server.connections.resolve(id)).toMatchObject({
    base_url: `https://x.example/v1?api_key=${canary}`,
  })
})

test('an acknowledged change is there after reopening; another key makes it a bad request', async () => {
  await using server = await openServer()
  const id = await server.add()
  const options = { documents: fileDocuments(server.directory), findUsers: async () => [] }
  const again = new ProviderConnections({ ...options, cipher: server.cipher })
  expect(await again.resolve(id)).toMatchObject({ api_key: canary })
  await writeFile(join(server.directory, 'secret.key'), Buffer.alloc(32, 1).toString('base64'))
  const cipher = await Cipher.open({ directory: server.directory, secretKey: undefined })
  const closed = new ProviderConnections({ ...options, cipher })
  await expect(closed.list()).rejects.toMatchObject({ code: 'bad_request' })
  await expect(closed.add({ ...newConnection })).rejects.toMatchObject({ code: 'bad_request' })
  expect(await again.list()).toHaveLength(1)
})

test('any text is a name, and any JSON gets a status below 500', { timeout: 60_000 }, async () => {
  await using server = await openServer(10_000)
  const text = fc.string({ minLength: 1, maxLength: 128, unit: 'binary' }).filter((t) => t.trim() !== '')
  await fc.assert(
    fc.asyncProperty(text, fc.jsonValue(), fc.string(), async (name, body, id) => {
      const made = await server.call('POST', path, { ...newConnection, display_name: name })
      expect(made).toMatchObject({ status: 201, json: { display_name: name } })
      expect((await server.call('POST', path, body)).status).toBeLessThan(500)
      const other = `${path}/${encodeURIComponent(id) || 'x'}`
      expect((await server.call('PATCH', other, body)).status).toBeLessThan(500)
    }),
    { numRuns: 40 },
  )
})
