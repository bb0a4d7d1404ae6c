import { appConversationStartRequest, llm, mcpServer } from '@slipway/protocol'
import { AuditTrail, documentsOfOrg } from '@slipway/storage/control-plane'
import { expect, onTestFinished, test } from 'vitest'
import { Accounts } from '../accounts/accounts.ts'
import { createFixture, createSpecs } from '../sandboxes/testing/sandboxes-fixture.ts'
import { admitStart, createRedactor } from '../start/admission.ts'
import { createConversationBody } from '../start/conversation-request.ts'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { OrganizationLimits, Organizations } from './organizations.ts'

const server = mcpServer.parse({
  url: 'http://127.0.0.1:9/mcp',
  headers: { Authorization: 'canary-of-a-server' },
})
const specs = createSpecs([{}, {}, {}])

/** Ann is a member of the organisation `o`, Bob of none. */
async function open() {
  const trial = await openTestControlPlane()
  onTestFinished(() => trial[Symbol.asyncDispose]())
  const { controlPlane, cipher } = trial
  const { users, documents } = controlPlane
  const row = { daily_conversation_limit: null, created_at: 1 }
  await users.addOrg({ id: 'o', name: 'Blue', ...row })
  for (const id of ['ann', 'bob', 'olga'])
    await users.addUser({ id, name: `Name of ${id}`, email: null, org: null, is_admin: false, ...row })
  await users.addMember('o', 'ann')
  await users.addMember('o', 'olga', { role: 'owner', mayChangeOwners: true })
  const accounts = new Accounts({
    documents,
    cipher,
    model: llm.parse({ model: 'server/m' }),
    maxProfiles: 5,
  })
  const organizations = new Organizations({ ...accounts, users, documents, cipher, specs })
  const admit = (owner: string, request: object = {}, org?: string) =>
    admitStart(
      { controlPlane, accounts, organizations, sandboxes: { get: async () => ({}) as never } },
      { owner, org },
      'c',
      appConversationStartRequest.parse(request),
    )
  return { ...{ users, documents, accounts, organizations, controlPlane }, admit }
}

test('a start in an organisation has its model and its servers; those of the member come first', async () => {
  const { accounts, organizations, admit } = await open()
  const shared = documentsOfOrg('o')
  for (const name of ['team', 'both'])
    await accounts.llmProfiles.save(
      shared,
      name,
      llm.parse({ model: `team/${name}`, api_key: `canary-${name}` }),
    )
  await accounts.llmProfiles.save('ann', 'both', llm.parse({ model: 'own/both' }))
  for (const name of ['docs', 'both']) await organizations.saveMcpServer('o', name, server)
  const modelOf = async (...to: Parameters<typeof admit>) => (await admit(...to)).model.model
  expect(await modelOf('ann', {}, 'o')).toBe('server/m')
  await accounts.llmProfiles.setActive(shared, 'team')
  expect(await modelOf('ann', {}, 'o')).toBe('team/team')
  expect(await modelOf('ann', { llm_profile: 'both' }, 'o')).toBe('own/both')
  expect(await modelOf('ann', { llm_profile: 'team' }, 'o')).toBe('team/team')
  await expect(admit('ann', { llm_profile: 'team' })).rejects.toMatchObject({ code: 'invalid' })
  // A key or an address of the member is not combined with those of the organisation.
  for (const own of [{ base_url: 'http://127.0.0.1:9' }, { api_key: 'own-key' }, { model: 'own/m' }]) {
    await accounts.userSettings.update('ann', { agent_settings_diff: { llm: null } })
    await accounts.userSettings.update('ann', { agent_settings_diff: { llm: own } })
    expect((await admit('ann', { llm_model: 'own/m' }, 'o')).model.api_key).toBe(Object(own).api_key)
  }
  const own = { both: { url: 'http://127.0.0.1:9/own' } }
  await accounts.userSettings.update('ann', { agent_settings_diff: { mcp_config: { mcpServers: own } } })
  const admitted = await admit('ann', {}, 'o')
  const settings = await accounts.userSettings.read('ann')
  const more = { settings, secrets: {}, marketplaces: [], workingDir: '/', parent: undefined }
  const { agent } = createConversationBody({ ...admitted, ...more })
  expect(agent?.mcp_config).toEqual({ docs: server, ...own })
  expect(createRedactor(admitted).redact('A canary-of-a-server.')).not.toContain('canary')
})

test('lines of the audit have stars for whatever a server was given', async () => {
  const { organizations, controlPlane } = await open()
  const route = { method: 'PUT', route: '/x', target_type: 'organization', request_id: 'r', action: 'share' }
  const given = {
    docs: { ...server, headers: { 'X-Team': 'canary-of-a-server' } },
    tool: mcpServer.parse({ command: 'tool', env: { TEAM: 'canary-of-a-server' } }),
  }
  for (const [at, [name, one]] of Object.entries(given).entries())
    await new AuditTrail(route, at).run(() => organizations.saveMcpServer('o', name, one))
  const { items } = await controlPlane.audit.search({ action: 'share', limit: 5 })
  expect(items.map(({ after }) => after)).toMatchObject([
    { servers: { tool: { command: 'tool', env: { TEAM: '**********' } } } },
    { servers: { docs: { headers: { 'X-Team': '**********' } } } },
  ])
  expect(JSON.stringify(items)).not.toContain('canary')
})

test('who is no member gets nothing, nor who has left, and a removed organisation leaves nothing', async () => {
  const { users, documents, accounts, organizations } = await open()
  await organizations.saveMcpServer('o', 'docs', server)
  await accounts.llmProfiles.save(documentsOfOrg('o'), 'team', llm.parse({ model: 'team/m' }))
  const count = async (owner: string) => {
    const { profiles, mcpServers } = await organizations.sharedWith(owner, 'o')
    return [Object.keys(profiles).length, Object.keys(mcpServers).length]
  }
  expect([await count('ann'), await count('bob')]).toEqual([
    [1, 1],
    [0, 0],
  ])
  await users.removeMember('o', 'ann')
  expect(await count('ann')).toEqual([0, 0])
  expect(await documents.list(documentsOfOrg('o'))).toHaveLength(2)
  expect(await users.removeOrg('o')).toBe(true)
  expect(await documents.list(documentsOfOrg('o'))).toEqual([])
})

test('a start with a model that is not allowed says which are, and whom to ask', async () => {
  const { users, accounts, admit } = await open()
  await users.updateOrg('o', { allowed_models: ['team/*', 'server/m'] })
  expect((await admit('ann', {}, 'o')).model.model).toBe('server/m')
  await expect(admit('ann', { llm_model: 'other/m' }, 'o')).rejects.toMatchObject({
    code: 'forbidden',
    message:
      'The organisation Blue does not allow the model other/m. Allowed: team/*, server/m. Ask Name of olga.',
    members: { code: 'model_not_allowed', allowed: ['team/*', 'server/m'] },
  })
  await accounts.llmProfiles.save('ann', 'own', llm.parse({ model: 'own/m' }))
  await expect(admit('ann', { llm_profile: 'own' }, 'o')).rejects.toMatchObject({ code: 'forbidden' })
  await accounts.userSettings.update('ann', { agent_settings_diff: { llm: { model: 'own/m' } } })
  await expect(admit('ann', {}, 'o')).rejects.toMatchObject({ code: 'forbidden' })
  expect((await admit('ann')).model.model).toBe('own/m')
})

test('limits see fallbacks, members of the body and what stars stand for', () => {
  const row = { id: 'o', name: 'Blue', daily_conversation_limit: null, created_at: 1 }
  const limits = new OrganizationLimits({ ...row, allowed_models: ['a/*-mini', 'b/x', '*/y*z'] }, [], [])
  const outcome = (model: object) => {
    try {
      limits.requireModel(llm.parse(model))
      return 'allowed'
    } catch (error) {
      return /the model (.*?)\. Allowed/.exec(String(error))?.[1]
    }
  }
  const fallback = (...fallback_llms: unknown[]) => ({ model: 'b/x', fallback_strategy: { fallback_llms } })
  expect(
    [
      ...['a/1-mini', 'a/-mini', 'c/yz', 'c/y1z'].map((model) => ({ model })),
      fallback('b/x', { model: 'a/2-mini' }),
    ].map(outcome),
  ).toEqual(Array(5).fill('allowed'))
  expect(
    [
      ...['a/mini', 'b/xx', 'c/z', 'B/X'].map((model) => ({ model })),
      ...[fallback('c/d'), fallback(fallback({ model: 'e/f' })), fallback({})],
      { model: 'b/x', litellm_extra_body: { model: 'g/h' } },
      { model: 'b/x', litellm_extra_body: { models: ['b/x', 'i/j'] } },
    ].map(outcome),
  ).toEqual(['a/mini', 'b/xx', 'c/z', 'B/X', 'c/d', 'e/f', '(unnamed)', 'g/h', 'i/j'])
})

test('a sandbox has the first spec that is allowed, and no other', async () => {
  const fixture = await createFixture([{}, {}])
  const { users, documents } = fixture.controlPlane
  await users.addOrg({ id: 'o', name: 'Blue', daily_conversation_limit: null, created_at: 1 })
  const { cipher } = fixture
  const { llmProfiles } = new Accounts({ documents, cipher, model: undefined, maxProfiles: 5 })
  const organizations = new Organizations({ llmProfiles, users, documents, cipher, specs })
  const sandboxes = await fixture.open({
    chooseSpec: async (org, spec) => (await organizations.limitsOf(org)).chooseSpec(spec),
  })
  const start = async (spec?: string, org?: string) =>
    (await sandboxes.start({ owner: 'ann', org }, { spec })).spec
  expect(await start(undefined, 'o')).toBe('spec-0')
  await users.updateOrg('o', { allowed_specs: ['spec-1'] })
  expect([await start(undefined, 'o'), await start('spec-0')]).toEqual(['spec-1', 'spec-0'])
  await expect(start('spec-0', 'o')).rejects.toMatchObject({
    code: 'forbidden',
    message:
      'The organisation Blue does not allow the sandbox spec spec-0. Allowed: spec-1. Ask an administrator of the server.',
  })
})
