import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { type ConversationInfo, scriptedModel } from '../support/agent-driver.ts'
import { openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()
const url = (name: string, rest = '') => `/api/agent-profiles/${name}${rest}`
const uniqueName = () => `wire-${randomUUID().slice(0, 8)}`

interface Profile {
  readonly id: string
  readonly name: string
  readonly revision: number
  readonly [member: string]: unknown
}
interface Profiles {
  readonly profiles: readonly Profile[]
  readonly active_agent_profile_id: string | null
}
const listProfiles = () => wire.requestOrThrow<Profiles>('GET', '/api/agent-profiles')
const getProfile = async (name: string) =>
  (await wire.requestOrThrow<{ profile: Profile }>('GET', url(name))).profile
const body = { agent_kind: 'openhands', llm_profile_ref: 'none-such' }

async function saveProfile(more: object = {}): Promise<string> {
  const name = uniqueName()
  await wire.requestOrThrow('POST', url(name), { body: { ...body, ...more } })
  return name
}

wireCase('GET /api/agent-profiles', 'is never empty, and names the active profile', async () => {
  const { profiles, active_agent_profile_id } = await listProfiles()
  expect(profiles.length).toBeGreaterThan(0)
  for (const profile of profiles)
    expect(profile).toMatchObject({
      id: expect.any(String),
      agent_kind: expect.any(String),
      revision: expect.any(Number),
    })
  expect([null, ...profiles.map(({ id }) => id)]).toContain(active_agent_profile_id)
})

wireCase(
  'GET /api/agent-profiles/{name}',
  'returns a profile with all its members; unknown is 404',
  async () => {
    const name = await saveProfile()
    expect(await wire.requestOrThrow('GET', url(name))).toMatchObject({
      name,
      profile: { name, agent_kind: 'openhands', llm_profile_ref: 'none-such', disabled_skills: [] },
    })
    await wire.requestOrThrow('DELETE', url(name))
    expect(await wire.requestStatus('GET', url(name))).toBe(404)
  },
)

wireCase(
  'POST /api/agent-profiles/{name}',
  'preserves the id and counts revisions; refuses unknown members',
  async () => {
    const name = uniqueName()
    const done = await wire.request('POST', url(name), { body })
    expect([done.status, done.body]).toEqual([201, { name, message: expect.any(String) }])
    const first = await getProfile(name)
    await wire.requestOrThrow('POST', url(name), { body: { ...body, tool_concurrency_limit: 2 } })
    const second = await getProfile(name)
    expect(second).toMatchObject({ id: first.id, revision: first.revision + 1, tool_concurrency_limit: 2 })
    await wire.requestOrThrow('DELETE', url(name))
    for (const bad of [{}, { ...body, unknown: 1 }, { ...body, agent_kind: 'x' }, []])
      expect([bad, await wire.requestStatus('POST', url(uniqueName()), { body: bad })]).toEqual([bad, 422])
    expect(await wire.requestStatus('POST', url('-x'), { body })).toBe(422)
  },
)

wireCase('DELETE /api/agent-profiles/{name}', 'may be repeated', async () => {
  const name = await saveProfile()
  for (let times = 0; times < 2; times += 1)
    expect(await wire.requestOrThrow('DELETE', url(name))).toEqual({ name, message: expect.any(String) })
})

wireCase(
  'POST /api/agent-profiles/{name}/rename',
  'renames it with its id; 404 unknown, 409 existing name',
  async () => {
    const [name, other, next] = [await saveProfile(), await saveProfile(), uniqueName()]
    const { id } = await getProfile(name)
    expect(await wire.requestStatus('POST', url(name, '/rename'), { body: { new_name: other } })).toBe(409)
    await wire.requestOrThrow('POST', url(name, '/rename'), { body: { new_name: next } })
    expect((await getProfile(next)).id).toBe(id)
    expect(await wire.requestStatus('POST', url(name, '/rename'), { body: { new_name: uniqueName() } })).toBe(
      404,
    )
    for (const each of [next, other]) await wire.requestOrThrow('DELETE', url(each))
  },
)

wireCase('POST /api/agent-profiles/{id}/activate', 'selects by uuid; unknown is 404', async () => {
  const before = (await listProfiles()).active_agent_profile_id
  const name = await saveProfile()
  const { id } = await getProfile(name)
  expect(await wire.requestOrThrow('POST', url(id, '/activate'), { body: {} })).toMatchObject({
    id,
    message: expect.any(String),
    agent_settings_applied: expect.any(Boolean),
  })
  expect((await listProfiles()).active_agent_profile_id).toBe(id)
  expect(await wire.requestOrThrow('GET', '/api/settings')).toMatchObject({ active_agent_profile_id: id })
  expect(await wire.requestStatus('POST', url(unknownId, '/activate'), { body: {} })).toBe(404)
  if (before !== null) await wire.requestOrThrow('POST', url(before, '/activate'), { body: {} })
  await wire.requestOrThrow('DELETE', url(name))
})

wireCase(
  'POST /api/agent-profiles/{name}/materialize',
  'reports what is missing, and the settings of a new conversation',
  async () => {
    const name = await saveProfile()
    expect(await wire.requestOrThrow('POST', url(name, '/materialize'), { body: {} })).toMatchObject({
      agent_kind: 'openhands',
      valid: false,
      errors: [expect.anything()],
      llm_profile_resolved: false,
      dangling_mcp_server_refs: [],
    })
    const llm = uniqueName()
    await wire.requestOrThrow('POST', `/api/profiles/${llm}`, {
      body: { llm: { ...scriptedModel([{ text: 'Hi.' }]), api_key: 'agent-canary' } },
    })
    await wire.requestOrThrow('POST', url(name), { body: { ...body, llm_profile_ref: llm } })
    const good = await wire.requestOrThrow('POST', url(name, '/materialize'), { body: {} })
    expect(good).toMatchObject({ valid: true, errors: [], llm_profile_resolved: true, llm_api_key_set: true })
    expect(JSON.stringify(good)).not.toContain('agent-canary')
    const { id, revision } = await getProfile(name)
    const made = await wire.request<ConversationInfo>('POST', '/api/conversations', {
      body: { agent_profile_id: id, workspace: { working_dir: wire.directory } },
    })
    expect([made.status, made.body]).toEqual([
      201,
      expect.objectContaining({
        launched_agent_profile: { agent_profile_id: id, revision, secret_refs: null },
      }),
    ])
    expect(made.body).toMatchObject({ agent: { llm: { model: 'scripted/test' } } })
    await wire.requestOrThrow('DELETE', url(name))
    await wire.requestOrThrow('DELETE', `/api/profiles/${llm}`)
    expect(await wire.requestStatus('POST', url(name, '/materialize'), { body: {} })).toBe(404)
  },
)
