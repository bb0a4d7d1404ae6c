import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { finishStep, scriptedModel } from '../support/agent-driver.ts'
import { openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()
const url = (name: string, rest = '') => `/api/profiles/${name}${rest}`
const uniqueName = () => `wire-${randomUUID().slice(0, 8)}`
const llm = {
  model: 'openai/wire',
  api_key: 'profile-canary',
  base_url: 'http://127.0.0.1:9/v1',
  num_retries: 0,
}

interface Profiles {
  readonly profiles: readonly { readonly name: string; readonly [member: string]: unknown }[]
  readonly active_profile: string | null
}
const listProfiles = () => wire.requestOrThrow<Profiles>('GET', '/api/profiles')

async function saveProfile(more: object = {}): Promise<string> {
  const name = uniqueName()
  await wire.requestOrThrow('POST', url(name), { body: { llm: { ...llm, ...more }, include_secrets: true } })
  return name
}

wireCase('GET /api/profiles', 'lists them with their members, without their keys', async () => {
  const name = await saveProfile()
  const body = await listProfiles()
  expect(body.profiles.find((profile) => profile.name === name)).toMatchObject({
    model: 'openai/wire',
    base_url: 'http://127.0.0.1:9/v1',
    api_key_set: true,
  })
  expect(body).toHaveProperty('active_profile')
  expect(JSON.stringify(body)).not.toContain('profile-canary')
  await wire.requestOrThrow('DELETE', url(name))
})

wireCase(
  'GET /api/profiles/{name}',
  'has a null key unless it is exposed; 404 unknown, 400 invalid header',
  async () => {
    const name = await saveProfile()
    const plain = await wire.requestOrThrow('GET', url(name))
    expect(plain).toMatchObject({ name, config: { model: 'openai/wire', api_key: null }, api_key_set: true })
    const exposed = async (mode: string) =>
      await wire.requestOrThrow<{ config: { api_key: string } }>('GET', url(name), {
        headers: { 'x-expose-secrets': mode },
      })
    expect((await exposed('plaintext')).config.api_key).toBe('profile-canary')
    const token = (await exposed('encrypted')).config.api_key
    expect(token).not.toContain('profile-canary')
    const copy = await saveProfile({ api_key: token })
    const back = await wire.requestOrThrow('GET', url(copy), { headers: { 'x-expose-secrets': 'plaintext' } })
    expect(back).toMatchObject({ config: { api_key: 'profile-canary' } })
    expect(await wire.requestStatus('GET', url(name), { headers: { 'x-expose-secrets': 'x' } })).toBe(400)
    for (const each of [name, copy]) await wire.requestOrThrow('DELETE', url(each))
    expect(await wire.requestStatus('GET', url(name))).toBe(404)
  },
)

wireCase(
  'POST /api/profiles/{name}',
  'returns 201, replaces, omits secrets on request, 422 for an invalid name',
  async () => {
    const name = uniqueName()
    const done = await wire.request('POST', url(name), { body: { llm, include_secrets: false } })
    expect([done.status, done.body]).toEqual([201, { name, message: expect.any(String) }])
    expect(await wire.requestOrThrow('GET', url(name))).toMatchObject({ api_key_set: false })
    await wire.requestOrThrow('POST', url(name), { body: { llm } })
    expect(await wire.requestOrThrow('GET', url(name))).toMatchObject({ api_key_set: true })
    await wire.requestOrThrow('DELETE', url(name))
    for (const bad of ['-x', '.x', 'x y', 'ä', 'x'.repeat(65)])
      expect([
        bad,
        await wire.requestStatus('POST', url(encodeURIComponent(bad)), { body: { llm } }),
      ]).toEqual([bad, 422])
    const refused = await wire.request('POST', url(uniqueName()), { body: { llm: { ...llm, model: 5 } } })
    expect(refused.status).toBe(422)
    expect(JSON.stringify(refused.body)).not.toContain('profile-canary')
  },
)

wireCase(
  'POST /api/profiles/{name}/validate',
  'reports whether a model replies, saves nothing, and never returns the key',
  async () => {
    const name = uniqueName()
    const working = { llm: scriptedModel([finishStep()]), include_secrets: true }
    expect(await wire.requestOrThrow('POST', url(name, '/validate'), { body: working })).toEqual({
      valid: true,
      error: null,
    })
    const failing = await wire.requestOrThrow('POST', url(name, '/validate'), {
      body: { llm: { ...llm, temperature: null } },
    })
    expect(failing).toEqual({
      valid: false,
      error: { type: 'LLMServiceUnavailableError', message: expect.any(String) },
    })
    expect(JSON.stringify(failing)).not.toContain('profile-canary')
    const none = await wire.request('POST', url(name, '/validate'))
    expect([none.status, await wire.requestStatus('GET', url(name))]).toEqual([404, 404])
    await wire.requestOrThrow('POST', url(name), { body: working })
    for (const body of [undefined, {}])
      expect(await wire.requestOrThrow('POST', url(name, '/validate'), { body })).toEqual({
        valid: true,
        error: null,
      })
    await wire.requestOrThrow('DELETE', url(name))
    const malformed = await wire.request('POST', url(name, '/validate'), {
      body: { llm: { ...llm, model: 5 } },
    })
    expect([malformed.status, JSON.stringify(malformed.body).includes('profile-canary')]).toEqual([
      422,
      false,
    ])
    expect(await wire.requestStatus('POST', url('-x', '/validate'), { body: working })).toBe(422)
    expect((await listProfiles()).profiles.map((profile) => profile.name)).not.toContain(name)
  },
)

wireCase(
  'DELETE /api/profiles/{name}',
  'may be repeated; 409 while an agent profile refers to it',
  async () => {
    const name = await saveProfile()
    const agent = uniqueName()
    await wire.requestOrThrow('POST', `/api/agent-profiles/${agent}`, {
      body: { agent_kind: 'openhands', llm_profile_ref: name },
    })
    expect(await wire.requestStatus('DELETE', url(name))).toBe(409)
    await wire.requestOrThrow('DELETE', `/api/agent-profiles/${agent}`)
    for (let times = 0; times < 2; times += 1)
      expect(await wire.requestOrThrow('DELETE', url(name))).toEqual({ name, message: expect.any(String) })
  },
)

wireCase(
  'POST /api/profiles/{name}/rename',
  'renames it with all references; 404 unknown, 409 existing name',
  async () => {
    const [name, other, next, agent] = [await saveProfile(), await saveProfile(), uniqueName(), uniqueName()]
    const before = await listProfiles()
    await wire.requestOrThrow('POST', url(name, '/activate'), { body: {} })
    await wire.requestOrThrow('POST', `/api/agent-profiles/${agent}`, {
      body: { agent_kind: 'openhands', llm_profile_ref: name },
    })
    expect(await wire.requestStatus('POST', url(name, '/rename'), { body: { new_name: other } })).toBe(409)
    expect(await wire.requestOrThrow('POST', url(name, '/rename'), { body: { new_name: next } })).toEqual({
      name: next,
      message: expect.any(String),
    })
    expect((await listProfiles()).active_profile).toBe(next)
    expect(await wire.requestOrThrow('GET', `/api/agent-profiles/${agent}`)).toMatchObject({
      profile: { llm_profile_ref: next },
    })
    expect(await wire.requestStatus('GET', url(name))).toBe(404)
    expect(await wire.requestStatus('POST', url(name, '/rename'), { body: { new_name: uniqueName() } })).toBe(
      404,
    )
    expect(await wire.requestStatus('POST', url(next, '/rename'), { body: { new_name: 'x y' } })).toBe(422)
    await wire.requestOrThrow('DELETE', `/api/agent-profiles/${agent}`)
    for (const each of [next, other]) await wire.requestOrThrow('DELETE', url(each))
    expect((await listProfiles()).active_profile).not.toBe(next)
    if (before.active_profile !== null)
      await wire.request('POST', url(before.active_profile, '/activate'), { body: {} })
  },
)

wireCase('POST /api/profiles/{name}/activate', 'sets the model of the settings; 404 unknown', async () => {
  const name = await saveProfile({ model: 'openai/activated' })
  const body = await wire.requestOrThrow('POST', url(name, '/activate'), { body: {} })
  expect(body).toEqual({ name, message: expect.any(String), llm_applied: true })
  expect((await listProfiles()).active_profile).toBe(name)
  const settings = await wire.requestOrThrow('GET', '/api/settings', {
    headers: { 'x-expose-secrets': 'plaintext' },
  })
  expect(settings).toMatchObject({
    active_profile: name,
    agent_settings: { llm: { model: 'openai/activated', api_key: 'profile-canary' } },
  })
  await wire.requestOrThrow('DELETE', url(name))
  expect((await listProfiles()).active_profile).toBeNull()
  expect(await wire.requestStatus('POST', url(name, '/activate'), { body: {} })).toBe(404)
})
