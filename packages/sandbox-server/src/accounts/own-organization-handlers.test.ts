import { createApp, listen } from '@slipway/http'
import { ownOrganizationRoutes, type Scope } from '@slipway/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { issueApiKey } from '../auth/api-keys.ts'
import { Authenticator } from '../auth/authenticator.ts'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Accounts } from './accounts.ts'
import { ownOrganizationHandlers } from './own-organization-handlers.ts'

const now = () => Date.now() * 1000
const ids = ['5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0caa', '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0cbb'] as const

/**
 * Two organisations, Ann in both, Bea in none. Calls go by user, or by user and the organisation of the key.
 */
async function openServer() {
  const trial = await openTestControlPlane()
  const { users, documents } = trial.controlPlane
  const limits = { daily_conversation_limit: null, created_at: 1 }
  for (const id of ids) await users.addOrg({ id, name: `Org ${id.slice(-2)}`, ...limits })
  for (const id of ['ann', 'bea'])
    await users.addUser({ id, name: `Name of ${id}`, email: null, org: null, is_admin: false, ...limits })
  for (const id of ids) await users.addMember(id, 'ann')
  const accounts = new Accounts({ documents, cipher: trial.cipher, model: undefined, maxProfiles: 5 })
  const authenticator = new Authenticator({
    ...{ users, keys: [], now },
    sandboxes: { findByKey: async () => undefined },
  })
  const app = createApp(ownOrganizationRoutes, ownOrganizationHandlers({ accounts, users }), {
    identify: authenticator.authenticate.bind(authenticator),
    log: () => {},
  })
  const { port, close } = await listen(app, { host: '127.0.0.1', port: 0, stopMs: 200 })
  onTestFinished(async () => {
    await close()
    await trial[Symbol.asyncDispose]()
  })
  return async (
    user: string,
    options: { readonly org?: string; readonly scopes?: readonly Scope[] } = {},
  ) => {
    const { org: org_id, scopes = ['read', 'write'] } = options
    const { key } = await issueApiKey(users, user, { scopes, org_id }, now())
    return async (path: string, body?: object, headers: Readonly<Record<string, string>> = {}) => {
      const response = await fetch(`http://127.0.0.1:${port}/api/organizations${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: await response.json() }
    }
  }
}

test('a user works in the organisations of their key, or alone in a personal one', async () => {
  const as = await openServer()
  const [ann, bound, bea] = [await as('ann'), await as('ann', { org: ids[1] }), await as('bea')]
  const listed = async (call: typeof ann) => {
    const { items, current_org_id } = (await call('')).body
    return [items.map((item: { id: string }) => item.id).sort(), current_org_id]
  }
  expect(await listed(ann)).toEqual([[...ids], expect.stringMatching(/^5f0c/)])
  expect(await listed(bound)).toEqual([[ids[1]], ids[1]])
  expect((await bea('')).body).toEqual({
    items: [{ id: 'bea', name: 'Name of bea', is_personal: true }],
    current_org_id: 'bea',
  })
  expect((await bea('/bea/me', undefined, { 'x-org-id': 'bea' })).body).toEqual({
    ...{ org_id: 'bea', user_id: 'bea', role: 'owner', permissions: ['edit_org_settings'] },
  })
  const reader = await as('ann', { scopes: ['read'] })
  expect((await reader(`/${ids[0]}/me`)).body).toEqual({
    ...{ org_id: ids[0], user_id: 'ann', role: 'member', permissions: [] },
  })
  for (const [call, org] of [
    [ann, 'ann'],
    [ann, 'bea'],
    [bound, ids[0]],
    [bea, ids[0]],
  ] as const)
    for (const path of ['me', 'profiles', 'profiles/x', 'provider-connections'])
      expect([org, path, (await call(`/${org}/${path}`)).status]).toEqual([org, path, 404])
})

test('LLM profiles below the address of an organisation are those of the user', async () => {
  const as = await openServer()
  const [ann, bea] = [await as('ann'), await as('bea')]
  const llm = { model: 'openai/gpt-4o', api_key: 'sk-of-ann' }
  expect((await ann(`/${ids[0]}/profiles/fast`, { llm })).status).toBe(201)
  expect((await bea(`/${ids[0]}/profiles/fast`, { llm })).status).toBe(404)
  const { body } = await ann(`/${ids[1]}/profiles`)
  expect(body.profiles).toEqual([{ name: 'fast', model: llm.model, base_url: null, api_key_set: true }])
  expect((await bea('/bea/profiles')).body.profiles).toEqual([])
  expect((await ann(`/${ids[1]}/profiles/fast/activate`, {})).body).toMatchObject({ model: llm.model })
  expect((await ann(`/${ids[0]}/profiles/fast/rename`, { new_name: 'faster' })).status).toBe(200)
  const shown = await ann(`/${ids[0]}/profiles/faster`)
  expect(shown.body).toMatchObject({ config: { model: llm.model, api_key: null }, api_key_set: true })
  expect((await ann(`/${ids[0]}/profiles`)).body.active_profile).toBe('faster')
  expect((await ann(`/${ids[0]}/provider-connections`)).body).toEqual({ connections: [] })
})
