import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  administrator,
  createUser,
  createUserKey,
  openSandboxServer,
  type SandboxServerFixture,
  type StartTask,
  textModel,
  User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/** Daily conversations and saved models: what counts, and what is returned. */

interface QuotaStatus {
  readonly daily_limit: number | null
  readonly used_today: number
  readonly remaining: number | null
  readonly reset_at: string
}

const base = '/api/v1/app-conversations'
const longTimeout = { timeout: 90_000 }
let fixture: SandboxServerFixture
let admin: User
beforeAll(async () => {
  const specs = [{ id: 'plain' }, { id: 'failing', command: ['/nothing/that/could/be/started'] }]
  fixture = await openSandboxServer({
    env: { SLIPWAY_DAILY_CONVERSATION_LIMIT: '2', SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs) },
  })
  admin = administrator(fixture.server)
}, 60_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

async function createUserWithModel(about: object = {}): Promise<User> {
  const user = await createUser(fixture.server, about)
  await user.setModel(textModel)
  return user
}

const getQuotaStatus = async (user: User) => await user.get<QuotaStatus>('/api/quota/status')

test(
  "of many concurrent starts the quota's number succeed, and the others are refused with the reset time",
  longTimeout,
  async () => {
    const user = await createUserWithModel()
    const sandbox_id = (await user.startRunningSandbox()).id
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        user.requestJson<{ detail: Record<string, unknown> }>(
          'POST',
          n % 2 === 0 ? base : `${base}/stream-start`,
          {
            sandbox_id,
          },
        ),
      ),
    )
    expect(answers.map((one) => one.status).toSorted()).toEqual([200, 200, 429, 429, 429, 429, 429, 429])
    const refused = answers.find((one) => one.status === 429)?.body.detail
    const { reset_at, ...now } = await getQuotaStatus(user)
    expect(now).toMatchObject({ daily_limit: 2, used_today: 2, remaining: 0 })
    expect(refused).toMatchObject({ code: 'daily_conversation_limit_reached', limit: 2, used: 2, reset_at })
    expect(String(refused?.message)).toContain('2')
    expect(Date.parse(reset_at) % 86_400_000).toBe(0)
    expect(Date.parse(reset_at)).toBeGreaterThan(Date.now())
    // An existing conversation is neither counted again nor refused.
    const ready = await waitFor('both are READY', async () => {
      const tasks = await user.listAll<StartTask>(`${base}/start-tasks/search`, 10)
      return tasks.length === 2 && tasks.every((task) => task.status === 'READY') ? tasks : undefined
    })
    const again = await user.startConversation({ conversation_id: ready[0]?.app_conversation_id })
    expect(again.at(-1)?.status).toBe('READY')
    // Deleting returns nothing.
    await user.requestOrThrow('DELETE', `${base}/${ready[0]?.app_conversation_id}`)
    expect((await getQuotaStatus(user)).used_today).toBe(2)
  },
)

test('a failed start returns its quota slot, a refused one uses none', longTimeout, async () => {
  const user = await createUserWithModel()
  const sandboxId = (await user.startRunningSandbox()).id
  expect((await user.startConversation({ sandbox_id: sandboxId })).at(-1)?.status).toBe('READY')
  for (let n = 0; n < 3; n++) {
    expect((await user.requestJson('POST', base, { llm_profile: 'nobody' })).status).toBe(422)
    expect((await user.requestJson('POST', base, { sandbox_spec_id: 'nobody' })).status).toBe(422)
    expect((await user.requestJson('POST', base, { sandbox_id: 'sb-nobody' })).status).toBe(422)
    expect((await user.startConversation({ sandbox_spec_id: 'failing' })).at(-1)?.status).toBe('ERROR')
    // A task ends before its slot is returned.
    await waitFor('the slots are given back', async () => {
      const { used_today, remaining } = await getQuotaStatus(user)
      return used_today === 1 && remaining === 1 ? true : undefined
    })
  }
  const conversation_id = randomUUID()
  await user.requestOrThrow('POST', base, { conversation_id, sandbox_spec_id: 'failing' })
  await user.requestJson('DELETE', `${base}/${conversation_id}`)
  await waitFor('the slot is given back', async () =>
    (await getQuotaStatus(user)).used_today === 1 ? true : undefined,
  )
  expect((await user.startConversation({ sandbox_id: sandboxId })).at(-1)?.status).toBe('READY')
  expect((await user.requestJson('POST', base, { sandbox_id: sandboxId })).status).toBe(429)
})

test('the limit of a user precedes that of the organisation, and that precedes the server’s', async () => {
  const { id: org } = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/organizations', {
    name: 'An org',
  })
  const user = await createUserWithModel({ org_id: org })
  const orgQuota = `/api/admin/quota/orgs/${org}/quota`
  const userQuota = `/api/admin/quota/users/${user.id}/quota`
  const set = async (path: string, daily_conversation_limit: unknown) =>
    (await admin.requestJson('PUT', path, { daily_conversation_limit })).status
  expect((await getQuotaStatus(user)).daily_limit).toBe(2)
  expect(await admin.requestOrThrow('PUT', orgQuota, { daily_conversation_limit: 7 })).toEqual({
    org_id: org,
    org_name: 'An org',
    daily_conversation_limit: 7,
  })
  expect((await getQuotaStatus(user)).daily_limit).toBe(7)
  expect(await set(userQuota, 3)).toBe(200)
  expect((await getQuotaStatus(user)).daily_limit).toBe(3)
  expect(await set(userQuota, -1)).toBe(200)
  expect(await getQuotaStatus(user)).toMatchObject({ daily_limit: null, remaining: null })
  expect(await set(userQuota, null)).toBe(200)
  expect(await set(orgQuota, -1)).toBe(200)
  expect((await getQuotaStatus(user)).daily_limit).toBeNull()
  expect(await set(orgQuota, null)).toBe(200)
  expect((await getQuotaStatus(user)).daily_limit).toBe(2)
  expect(await set(userQuota, 0)).toBe(200)
  expect(await getQuotaStatus(user)).toMatchObject({ daily_limit: 0, remaining: 0 })
  expect((await user.requestJson('POST', base, {})).status).toBe(429)
  expect(await set(userQuota, null)).toBe(200)
  for (const wrong of [-2, -11, 1.5, '5', 1_000_001, true]) {
    expect([wrong, await set(orgQuota, wrong)]).toEqual([wrong, 422])
    expect([wrong, await set(userQuota, wrong)]).toEqual([wrong, 422])
  }
  expect((await admin.requestJson('PUT', orgQuota, {})).status).toBe(422)
  expect((await user.requestJson('PUT', userQuota, { daily_conversation_limit: -1 })).status).toBe(403)
  const boss = await createUserKey(fixture.server, user.id, { scopes: ['read', 'write', 'admin'] })
  expect((await boss.requestJson('PUT', userQuota, { daily_conversation_limit: -1 })).status).toBe(403)
})

test('a user saves at most 50 models; saving an existing name replaces it', async () => {
  const user = await createUserWithModel()
  const save = async (name: string, llm: object = { model: 'm' }) =>
    (await user.requestJson('POST', `/api/v1/settings/profiles/${name}`, { llm })).status
  const made = await Promise.all(Array.from({ length: 55 }, (_, n) => save(`p${n}`)))
  expect(made.filter((one) => one === 201)).toHaveLength(50)
  expect(made.filter((one) => one === 409)).toHaveLength(5)
  const { profiles } = await user.get<{ profiles: { name: string }[] }>('/api/v1/settings/profiles')
  expect(profiles).toHaveLength(50)
  const name = String(profiles[0]?.name)
  expect(await save('one-more')).toBe(409)
  expect(await save(name, { model: 'other', api_key: 'sk-of-profile-1' })).toBe(201)
  const shown = await user.get<{ config: unknown; api_key_set: boolean }>(`/api/v1/settings/profiles/${name}`)
  expect(shown).toMatchObject({ api_key_set: true, config: { model: 'other', api_key: null } })
  expect(await user.requestOrThrow('DELETE', `/api/v1/settings/profiles/${name}`)).toMatchObject({ name })
  expect(await save('one-more')).toBe(201)
  for (const wrong of ['a b', 'a%2Fb', '%00', 'x'.repeat(65), '..%2f', 'é'])
    expect([wrong, await save(wrong)]).toEqual([wrong, 422])
  expect(fixture.server.output()).not.toContain('sk-of-profile-1')
})

test('an administrator limits what one user stores, and the user sees its use', longTimeout, async () => {
  const user = await createUserWithModel()
  const path = `/api/admin/quota/users/${user.id}/quota`
  expect(await admin.requestOrThrow('PUT', path, { max_conversations: 1, max_stored_mb: 5 })).toEqual({
    user_id: user.id,
    daily_conversation_limit: null,
    max_conversations: 1,
    max_stored_mb: 5,
    max_sandboxes: null,
  })
  await user.createConversation()
  expect(await user.get('/api/quota/status')).toMatchObject({
    conversations: { limit: 1, used: 1 },
    stored_bytes: { limit: 5 * 1024 * 1024, used: expect.any(Number) },
    sandboxes: { limit: 10, used: 1 },
  })
  expect(await admin.get(path)).toEqual(await user.get('/api/quota/status'))
  expect((await user.requestJson('GET', path)).status).toBe(403)
  const refused = await user.requestJson('POST', base, {})
  expect(refused).toMatchObject({
    status: 429,
    body: { detail: { code: 'conversation_limit_reached', limit: 1, used: 1 } },
  })
  expect((await getQuotaStatus(user)).used_today).toBe(1)
  await admin.requestOrThrow('PUT', path, { max_conversations: null })
  expect(await user.get('/api/quota/status')).toMatchObject({ conversations: { limit: null, used: 1 } })
  await admin.requestOrThrow('PUT', path, { max_sandboxes: 1 })
  expect(await user.requestJson('POST', '/api/v1/sandboxes')).toMatchObject({
    status: 429,
    body: { detail: { error: 'CONCURRENCY_LIMIT_REACHED', limit: 1, current: 1 } },
  })
  await admin.requestOrThrow('PUT', path, { max_sandboxes: -1 })
  expect((await user.requestJson('POST', '/api/v1/sandboxes')).status).toBe(200)
  for (const wrong of [-2, 1.5, 'x'])
    expect((await admin.requestJson('PUT', path, { max_stored_mb: wrong })).status).toBe(422)
})

test(
  'work of an organisation has the models and sandboxes that it allows, however they are chosen',
  longTimeout,
  async () => {
    const { server } = fixture
    const org = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/organizations', {
      name: 'Blue',
    })
    const at = `/api/admin/organizations/${org.id}`
    const alone = await createUserWithModel()
    await admin.requestOrThrow('PUT', `${at}/members/${alone.id}`, { role: 'owner' })
    const user = new User(server, await createUserKey(server, alone.id, { org_id: org.id }))
    for (const name of ['same', 'other'])
      await alone.requestOrThrow('POST', `/api/v1/settings/profiles/${name}`, {
        llm: { ...textModel, model: `scripted/${name}` },
      })
    const sandbox_id = (await user.startRunningSandbox()).id
    const task = (await user.startConversation({ sandbox_id, llm_profile: 'same' })).at(-1)
    expect(task?.status).toBe('READY')
    const change = { allowed_models: ['scripted/same'], allowed_specs: ['failing'] }
    await user.requestOrThrow('PATCH', at, change)
    const [own, profile_name] = [`${base}/${task?.app_conversation_id}`, 'other']
    const code = async (caller: User, path: string, body?: object) => {
      const { status, body: answer } = await caller.requestJson<{ detail: { code?: string } }>(
        'POST',
        path,
        body,
      )
      return [status, answer.detail?.code]
    }
    const model = [403, 'model_not_allowed']
    const spec = [403, 'spec_not_allowed']
    expect(await code(user, base, { llm_profile: 'other' })).toEqual(model)
    expect(await code(user, `${base}/stream-start`, { llm_model: 'scripted/other' })).toEqual(model)
    expect(await code(user, `${own}/switch_profile`, { profile_name })).toEqual(model)
    expect(await code(user, `${own}/switch_acp_model`, { model: 'other' })).toEqual(model)
    const continued = { conversation_id: task?.app_conversation_id, llm_profile: 'other' }
    expect(await code(user, base, continued)).toEqual(model)
    // With a key of no organisation too, where the sandbox or the conversation is one of it.
    expect(await code(alone, base, { sandbox_id, llm_profile: 'other' })).toEqual(model)
    expect(await code(alone, base, continued)).toEqual(model)
    expect(await code(alone, `${own}/switch_profile`, { profile_name })).toEqual(model)
    expect(await code(user, '/api/v1/sandboxes?sandbox_spec_id=plain')).toEqual(spec)
    expect(await code(user, base, { sandbox_spec_id: 'plain', llm_profile: 'same' })).toEqual(spec)
    expect(await code(user, `${own}/fork`, {})).toEqual(spec)
    expect(await code(user, `${own}/switch_profile`, { profile_name: 'same' })).toEqual([200, undefined])
  },
)
