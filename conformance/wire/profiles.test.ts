import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { finish, scripted } from '../support/agent-driver.ts'
import { openWire, prove } from './wire-server.ts'

const wire = openWire()
const url = (name: string, rest = '') => `/api/profiles/${name}${rest}`
const fresh = () => `wire-${randomUUID().slice(0, 8)}`
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
const list = () => wire.must<Profiles>('GET', '/api/profiles')

async function saved(more: object = {}): Promise<string> {
  const name = fresh()
  await wire.must('POST', url(name), { body: { llm: { ...llm, ...more }, include_secrets: true } })
  return name
}

prove('GET /api/profiles', 'lists them with what they name, without their keys', async () => {
  const name = await saved()
  const body = await list()
  expect(body.profiles.find((profile) => profile.name === name)).toMatchObject({
    model: 'openai/wire',
    base_url: 'http://127.0.0.1:9/v1',
    api_key_set: true,
  })
  expect(body).toHaveProperty('active_profile')
  expect(JSON.stringify(body)).not.toContain('profile-canary')
  await wire.must('DELETE', url(name))
})

prove(
  'GET /api/profiles/{name}',
  'has a null key unless it is exposed; 404 unknown, 400 bad header',
  async () => {
    const name = await saved()
    const plain = await wire.must('GET', url(name))
    expect(plain).toMatchObject({ name, config: { model: 'openai/wire', api_key: null }, api_key_set: true })
    const exposed = async (mode: string) =>
      await wire.must<{ config: { api_key: string } }>('GET', url(name), {
        headers: { 'x-expose-secrets': mode },
      })
    expect((await exposed('plaintext')).config.api_key).toBe('profile-canary')
    const token = (await exposed('encrypted')).config.api_key
    expect(token).not.toContain('profile-canary')
    const copy = await saved({ api_key: token })
    const back = await wire.must('GET', url(copy), { headers: { 'x-expose-secrets': 'plaintext' } })
    expect(back).toMatchObject({ config: { api_key: 'profile-canary' } })
    expect(await wire.status('GET', url(name), { headers: { 'x-expose-secrets': 'x' } })).toBe(400)
    for (const each of [name, copy]) await wire.must('DELETE', url(each))
    expect(await wire.status('GET', url(name))).toBe(404)
  },
)

prove(
  'POST /api/profiles/{name}',
  'answers 201, replaces, leaves secrets out when told to, 422 for a bad name',
  async () => {
    const name = fresh()
    const done = await wire.ask('POST', url(name), { body: { llm, include_secrets: false } })
    expect([done.status, done.body]).toEqual([201, { name, message: expect.any(String) }])
    expect(await wire.must('GET', url(name))).toMatchObject({ api_key_set: false })
    await wire.must('POST', url(name), { body: { llm } })
    expect(await wire.must('GET', url(name))).toMatchObject({ api_key_set: true })
    await wire.must('DELETE', url(name))
    for (const bad of ['-x', '.x', 'x y', 'ä', 'x'.repeat(65)])
      expect([bad, await wire.status('POST', url(encodeURIComponent(bad)), { body: { llm } })]).toEqual([
        bad,
        422,
      ])
    const refused = await wire.ask('POST', url(fresh()), { body: { llm: { ...llm, model: 5 } } })
    expect(refused.status).toBe(422)
    expect(JSON.stringify(refused.body)).not.toContain('profile-canary')
  },
)

prove(
  'POST /api/profiles/{name}/validate',
  'says whether a model answers, saves nothing, and never shows the key',
  async () => {
    const name = fresh()
    const working = { llm: scripted([finish()]), include_secrets: true }
    expect(await wire.must('POST', url(name, '/validate'), { body: working })).toEqual({
      valid: true,
      error: null,
    })
    const failing = await wire.must('POST', url(name, '/validate'), {
      body: { llm: { ...llm, temperature: null } },
    })
    expect(failing).toEqual({
      valid: false,
      error: { type: 'LLMServiceUnavailableError', message: expect.any(String) },
    })
    expect(JSON.stringify(failing)).not.toContain('profile-canary')
    const malformed = await wire.ask('POST', url(name, '/validate'), { body: { llm: { ...llm, model: 5 } } })
    expect([malformed.status, JSON.stringify(malformed.body).includes('profile-canary')]).toEqual([
      422,
      false,
    ])
    expect(await wire.status('POST', url('-x', '/validate'), { body: working })).toBe(422)
    expect((await list()).profiles.map((profile) => profile.name)).not.toContain(name)
  },
)

prove(
  'DELETE /api/profiles/{name}',
  'is done once and again; 409 while an agent profile refers to it',
  async () => {
    const name = await saved()
    const agent = fresh()
    await wire.must('POST', `/api/agent-profiles/${agent}`, {
      body: { agent_kind: 'openhands', llm_profile_ref: name },
    })
    expect(await wire.status('DELETE', url(name))).toBe(409)
    await wire.must('DELETE', `/api/agent-profiles/${agent}`)
    for (let times = 0; times < 2; times += 1)
      expect(await wire.must('DELETE', url(name))).toEqual({ name, message: expect.any(String) })
  },
)

prove(
  'POST /api/profiles/{name}/rename',
  'moves it with all that refers to it; 404 unknown, 409 taken',
  async () => {
    const [name, other, next, agent] = [await saved(), await saved(), fresh(), fresh()]
    const before = await list()
    await wire.must('POST', url(name, '/activate'), { body: {} })
    await wire.must('POST', `/api/agent-profiles/${agent}`, {
      body: { agent_kind: 'openhands', llm_profile_ref: name },
    })
    expect(await wire.status('POST', url(name, '/rename'), { body: { new_name: other } })).toBe(409)
    expect(await wire.must('POST', url(name, '/rename'), { body: { new_name: next } })).toEqual({
      name: next,
      message: expect.any(String),
    })
    expect((await list()).active_profile).toBe(next)
    expect(await wire.must('GET', `/api/agent-profiles/${agent}`)).toMatchObject({
      profile: { llm_profile_ref: next },
    })
    expect(await wire.status('GET', url(name))).toBe(404)
    expect(await wire.status('POST', url(name, '/rename'), { body: { new_name: fresh() } })).toBe(404)
    expect(await wire.status('POST', url(next, '/rename'), { body: { new_name: 'x y' } })).toBe(422)
    await wire.must('DELETE', `/api/agent-profiles/${agent}`)
    for (const each of [next, other]) await wire.must('DELETE', url(each))
    expect((await list()).active_profile).not.toBe(next)
    if (before.active_profile !== null)
      await wire.ask('POST', url(before.active_profile, '/activate'), { body: {} })
  },
)

prove('POST /api/profiles/{name}/activate', 'makes the settings use its model; 404 unknown', async () => {
  const name = await saved({ model: 'openai/activated' })
  const body = await wire.must('POST', url(name, '/activate'), { body: {} })
  expect(body).toEqual({ name, message: expect.any(String), llm_applied: true })
  expect((await list()).active_profile).toBe(name)
  const settings = await wire.must('GET', '/api/settings', { headers: { 'x-expose-secrets': 'plaintext' } })
  expect(settings).toMatchObject({
    active_profile: name,
    agent_settings: { llm: { model: 'openai/activated', api_key: 'profile-canary' } },
  })
  await wire.must('DELETE', url(name))
  expect((await list()).active_profile).toBeNull()
  expect(await wire.status('POST', url(name, '/activate'), { body: {} })).toBe(404)
})
