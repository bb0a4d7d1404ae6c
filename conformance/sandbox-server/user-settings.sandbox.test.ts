import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createUser,
  createUserKey,
  type ListPage,
  openSandboxServer,
  type SandboxServerFixture,
  User,
} from '../support/sandbox-server/user.ts'

/** What clients of the reference ask before there is a conversation. */

let fixture: SandboxServerFixture
let ann: User
beforeAll(async () => {
  fixture = await openSandboxServer()
  ann = await createUser(fixture.server, { name: 'Ann' })
}, 90_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

type Offer = { readonly provider?: string; readonly name: string; readonly verified: boolean }

/** All items, page by page. */
async function walk(path: string, limit: number): Promise<Offer[]> {
  const items: Offer[] = []
  const separator = path.includes('?') ? '&' : '?'
  for (let pageId: string | null | undefined = ''; pageId != null; ) {
    const page: ListPage<Offer> = await ann.get(`${path}${separator}limit=${limit}&page_id=${pageId}`)
    items.push(...page.items)
    pageId = page.next_page_id
  }
  return items
}

test('providers and models are listed in pages, and found by a part of their name', async () => {
  const providers = await walk('/api/v1/config/providers/search', 5)
  expect(providers).toEqual(await walk('/api/v1/config/providers/search', 100))
  expect(providers).toContainEqual({ name: 'anthropic', verified: true })
  // Those to offer first come first.
  expect(providers.map(({ verified }) => verified)).toEqual(
    providers.map(({ verified }) => verified).toSorted((a, b) => Number(b) - Number(a)),
  )
  const models = await walk('/api/v1/config/models/search?provider__eq=anthropic', 7)
  expect(models.length).toBeGreaterThan(5)
  expect(models.every(({ provider }) => provider === 'anthropic')).toBe(true)
  expect(new Set(models.map(({ name }) => name)).size).toBe(models.length)
  const verified = await walk('/api/v1/config/models/search?query=CLAUDE&verified__eq=true', 100)
  expect(verified.length).toBeGreaterThan(0)
  expect(verified.every((model) => model.verified && model.name.includes('claude'))).toBe(true)
  expect(await walk('/api/v1/config/models/search?provider__eq=nobody', 100)).toEqual([])
  const unknown = await ann.requestJson('GET', '/api/v1/config/models/search?page_id=bm9uZQ')
  expect(unknown).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', 'page_id'] }] } })
})

test('forms, skills and agents are described to a user, and to no one without a key', async () => {
  const form = await ann.get<{ sections: readonly unknown[] }>('/api/v1/settings/agent-schema')
  expect(form.sections.length).toBeGreaterThan(3)
  expect(await ann.get('/api/v1/settings/conversation-schema')).toMatchObject({
    model_name: 'ConversationSettings',
  })
  expect(await ann.get('/api/v1/skills/search')).toEqual({ items: [], next_page_id: null })
  expect(await ann.get('/api/agent-profiles')).toEqual({ profiles: [], active_agent_profile_id: null })
  const stranger = new User(fixture.server, { id: 'stranger', key: 'sk-none' })
  for (const path of ['/api/v1/settings/agent-schema', '/api/v1/skills/search', '/api/agent-profiles'])
    expect((await stranger.requestJson('GET', path)).status, path).toBe(401)
})

test('settings have every member that clients read, and profiles without their keys', async () => {
  await ann.requestOrThrow('POST', '/api/v1/settings/profiles/token', {
    llm: { model: 'openai/gpt-5.5', api_key: 'key-of-the-profile' },
  })
  for (const [path, api_key] of [
    ['/api/v1/settings', null],
    ['/api/v1/users/me', '**********'],
  ] as const) {
    const settings = await ann.get<Record<string, unknown>>(path)
    expect(settings, path).toMatchObject({
      ...{ language: null, email_verified: null, search_api_key: null, v1_enabled: true },
      ...{ registered_marketplaces: [], secrets_store: { provider_tokens: {} } },
      llm_profiles: { profiles: { token: { model: 'openai/gpt-5.5', api_key } }, active: null },
    })
    expect(JSON.stringify(settings)).not.toContain('key-of-the-profile')
  }
  const reader = await createUserKey(fixture.server, ann.id, { scopes: ['read'] })
  expect(JSON.stringify(await reader.get('/api/v1/users/me'))).not.toContain('key-of-the-profile')
})

test('a sandbox reads the model of its user by the names of the Python SDK', async () => {
  await ann.setModel({ model: 'openai/gpt-5.5', api_key: 'key-of-the-model' })
  const { sandbox_id } = await ann.createConversation()
  const sandbox = await ann.waitForSandbox(sandbox_id, 'RUNNING')
  const headers = { 'x-session-api-key': String(sandbox.session_api_key) }
  const { body } = await ann.requestJson('GET', '/api/v1/users/me?expose_secrets=true', undefined, headers)
  expect(body).toMatchObject({
    ...{ llm_model: 'openai/gpt-5.5', llm_api_key: 'key-of-the-model', llm_base_url: null },
    llm_profiles: { profiles: { token: { api_key: 'key-of-the-profile' } } },
  })
})
