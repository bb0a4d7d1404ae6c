import { loadOpenModel } from '@slipway/agent'
import { createApp, listen } from '@slipway/http'
import { agentServerOpenApi, agentServerRoutes } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { sealText } from '../../core/secrets/sealed-text.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ServerSettings } from '../settings/server-settings.ts'
import { llmProfileHandlers } from './handlers.ts'
import { LlmProfiles } from './llm-profiles.ts'
import { SubscriptionLogin } from './subscription-login.ts'

const {
  listProfiles,
  getProfile,
  saveProfile,
  deleteProfile,
  renameProfile,
  activateProfile,
  validateProfile,
} = agentServerRoutes
const routes = {
  listProfiles,
  getProfile,
  saveProfile,
  deleteProfile,
  renameProfile,
  activateProfile,
  validateProfile,
}

/** A server of these routes alone. `texts` is everything that it answered or logged. */
async function openServer() {
  const directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const settings = new ServerSettings({ documents: fileDocuments(directory.path), cipher })
  const profiles = new LlmProfiles({
    documents: fileDocuments(directory.path),
    cipher,
    settings,
    max: 2,
  })
  const subscription = new SubscriptionLogin({
    ...{ documents: fileDocuments(directory.path), cipher, clientId: undefined },
    ...{ issuer: 'http://127.0.0.1:9', modelsUrl: 'http://127.0.0.1:9' },
  })
  const texts: string[] = []
  const log = (...line: unknown[]) => void texts.push(JSON.stringify(line))
  const web = createApp(routes, llmProfileHandlers({ profiles, subscription, loadOpenModel, cipher, log }), {
    openapi: agentServerOpenApi,
    log,
  })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const content =
      body === undefined
        ? { headers }
        : { body: JSON.stringify(body), headers: { ...headers, 'content-type': 'application/json' } }
    const response = await fetch(`${listening.url}/api/profiles${path}`, { method, ...content })
    const text = await response.text()
    if (headers['x-expose-secrets'] === undefined) texts.push(text)
    return { status: response.status, json: JSON.parse(text) }
  }
  const stop = async () => {
    await listening.close()
    directory[Symbol.dispose]()
  }
  return { call, texts, profiles, cipher, [Symbol.asyncDispose]: stop }
}

const model = {
  model: 'openai/m',
  api_key: 'sk-secret',
  base_url: 'https://user:sk-secret@x.example/v1',
  extra_headers: { 'X-Any': 'sk-secret' },
  aws_access_key_id: 'sk-secret',
  fallback_strategy: { fallback_llms: [{ model: 'f', api_key: 'sk-secret' }] },
}

test('a profile is saved, read, listed, activated, renamed and deleted, and no answer or log has its secrets', async () => {
  await using server = await openServer()
  const { call } = server
  expect(await call('GET', '')).toEqual({ status: 200, json: { profiles: [], active_profile: null } })
  expect(await call('POST', '/a', { llm: model })).toMatchObject({ status: 201, json: { name: 'a' } })
  expect((await server.profiles.get('a'))?.api_key).toBe('sk-secret')
  expect(await call('GET', '/a')).toMatchObject({
    status: 200,
    json: {
      name: 'a',
      api_key_set: true,
      config: {
        model: 'openai/m',
        api_key: null,
        base_url: 'https://****@x.example/v1',
        extra_headers: { 'X-Any': null },
        usage_id: 'default',
      },
    },
  })
  const activated = { name: 'a', message: expect.any(String), llm_applied: true }
  expect(await call('POST', '/a/activate', {})).toEqual({ status: 200, json: activated })
  expect(await call('POST', '/a/rename', { new_name: 'b' })).toMatchObject({
    status: 200,
    json: { name: 'b' },
  })
  const listed = { name: 'b', model: 'openai/m', base_url: null, api_key_set: true }
  expect((await call('GET', '')).json).toMatchObject({ profiles: [listed], active_profile: 'b' })
  expect(await call('GET', '/a')).toEqual({ status: 404, json: { detail: "Profile 'a' not found" } })
  for (let i = 0; i < 2; i++)
    expect(await call('DELETE', '/b')).toMatchObject({ status: 200, json: { name: 'b' } })
  expect((await call('GET', '')).json).toEqual({ profiles: [], active_profile: null })
  expect(server.texts.join('\n')).not.toContain('sk-secret')
})

test('include_secrets: false stores a profile without secrets', async () => {
  await using server = await openServer()
  await server.call('POST', '/a', { llm: model, include_secrets: false })
  const stored = await server.profiles.get('a')
  expect(JSON.stringify(stored)).not.toContain('sk-secret')
  expect(stored).toMatchObject({ model: 'openai/m', fallback_strategy: { fallback_llms: [{ model: 'f' }] } })
  expect((await server.call('GET', '/a')).json).toMatchObject({
    api_key_set: false,
    config: { api_key: null },
  })
})

test('a blank key and a placeholder count as no key', async () => {
  await using server = await openServer()
  for (const api_key of ['', '  ', '**********', '<redacted>', null]) {
    await server.call('POST', '/a', { llm: { model: 'm', api_key } })
    expect((await server.call('GET', '/a')).json.api_key_set).toBe(false)
  }
})

test('impossible requests are refused with their reason', async () => {
  await using server = await openServer()
  const { call } = server
  for (const name of ['a', 'b']) await call('POST', `/${name}`, { llm: model })
  expect((await call('POST', '/c', { llm: model })).status).toBe(409)
  expect((await call('POST', '/a/rename', { new_name: 'b' })).status).toBe(409)
  expect((await call('POST', '/x/rename', { new_name: 'y' })).status).toBe(404)
  expect((await call('POST', '/x/activate')).status).toBe(404)
  const refusals = [
    ['POST', '/.a', { llm: model }, ['path', 'name']],
    ['POST', '/%2e%2e%2fa', { llm: model }, ['path', 'name']],
    ['POST', '/a', { llm: { api_key: 'sk-secret' } }, ['body', 'llm', 'model']],
    ['POST', '/a', {}, ['body', 'llm']],
    ['POST', '/a/rename', { new_name: 'no name' }, ['body', 'new_name']],
  ] as const
  for (const [method, path, body, loc] of refusals) {
    expect(await call(method, path, body)).toMatchObject({ status: 422, json: { detail: [{ loc }] } })
  }
  expect(server.texts.join('\n')).not.toContain('sk-secret')
})

test('X-Expose-Secrets answers tokens that are accepted back, or clear text', async () => {
  await using server = await openServer()
  const { call, profiles } = server
  await call('POST', '/a', { llm: model })
  const exposing = async (how: string) => await call('GET', '/a', undefined, { 'x-expose-secrets': how })
  expect((await exposing('plaintext')).json).toMatchObject({ api_key_set: true, config: model })
  const { config } = (await exposing('encrypted')).json
  expect(JSON.stringify(config)).not.toContain('sk-secret')
  expect(config).toMatchObject({ model: 'openai/m', api_key: expect.stringMatching(/^gAAAAA/) })
  await call('POST', '/b', { llm: config })
  expect(await profiles.get('b')).toEqual(await profiles.get('a'))
  await call('POST', '/b', { llm: config, include_secrets: false })
  expect(JSON.stringify(await profiles.get('b'))).not.toContain('sk-secret')
  expect((await exposing('all')).status).toBe(400)
  const reads = server.texts.filter((text) => text.includes('secrets were read'))
  expect(reads).toEqual([JSON.stringify(['info', 'secrets were read', { what: 'profile', name: 'a' }])])
  expect(server.texts.join('\n')).not.toContain('sk-secret')
})

test('a token sealed with another key is refused with its place', async () => {
  await using server = await openServer()
  await using other = await openServer()
  await other.call('POST', '/a', { llm: model })
  const { config } = (await other.call('GET', '/a', undefined, { 'x-expose-secrets': 'true' })).json
  const refusal = await server.call('POST', '/a', { llm: { ...config, base_url: null } })
  expect(refusal).toMatchObject({ status: 422, json: { detail: [{ loc: ['body', 'llm', 'api_key'] }] } })
  expect(await server.profiles.list()).toEqual([])
})

test('validation opens sealed secrets and reports an unknown connection', async () => {
  await using server = await openServer()
  const { call, cipher } = server
  const api_key = sealText(cipher, 'sk-secret')
  const script = [{ text: 'pong' }]
  const fine = await call('POST', '/a/validate', { llm: { model: 'scripted/x', script, api_key } })
  expect(fine).toEqual({ status: 200, json: { valid: true, error: null } })
  const nowhere = { llm: { model: 'scripted/x', script, provider_connection_id: 'c' } }
  const loc = ['body', 'llm', 'provider_connection_id']
  expect(await call('POST', '/a/validate', nowhere)).toMatchObject({
    status: 422,
    json: { detail: [{ loc }] },
  })
})
