import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { bashStep, finishStep } from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'

const server = await OwnAgentServer.open({ sessionKey: 'keys-test-session-key', isInProcess: true })
afterAll(async () => await server[Symbol.asyncDispose]())

interface NewKey {
  readonly id: string
  readonly key: string
}

async function makeKey(request: object): Promise<NewKey & { readonly api: AgentServerApi }> {
  const { status, body } = await server.api.sendJson('POST', '/api/keys', { name: 'test', ...request })
  expect(status, JSON.stringify(body)).toBe(201)
  const made = body as NewKey
  const headers = { 'x-session-api-key': made.key }
  return { ...made, api: new AgentServerApi({ url: server.url, headers }) }
}

const statusOf = async (response: Promise<{ readonly status: number }>) => (await response).status

test('a key is shown once, stored as a digest, and opens nothing once it is revoked', async () => {
  const {
    id,
    key,
    api: reader,
  } = await makeKey({ scopes: ['read', 'read'], expires_at: '2999-01-01T00:00:00Z' })
  expect(await statusOf(reader.requestJson('/api/conversations/search'))).toBe(200)
  const { body } = await server.api.requestJson<{ id: string }[]>('/api/keys')
  expect(body[0]).toMatchObject({ id, name: 'test', scopes: ['read'], conversation_id: null })
  expect(JSON.stringify(body)).not.toContain(key)
  expect(await readFile(join(server.data, 'log.db'), 'latin1')).not.toContain(key)
  expect(await statusOf(reader.requestJson('/api/keys'))).toBe(403)
  expect(await statusOf(reader.requestJson('/api/settings'))).toBe(403)
  expect(await statusOf(server.api.requestJson(`/api/keys/${id}`, { method: 'DELETE' }))).toBe(200)
  expect(await statusOf(server.api.requestJson(`/api/keys/${id}`, { method: 'DELETE' }))).toBe(404)
  expect(await statusOf(reader.requestJson('/api/conversations/search'))).toBe(401)
})

test('a key that has ended opens nothing', async () => {
  const { api: ended } = await makeKey({ expires_at: '2001-01-01T00:00:00Z' })
  expect(await statusOf(ended.requestJson('/api/conversations/search'))).toBe(401)
})

test('a key is valid after a restart', async () => {
  const { key } = await makeKey({})
  await server.stop()
  await server.start()
  const reader = new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': key } })
  expect(await statusOf(reader.requestJson('/api/conversations/search'))).toBe(200)
})

test.for([
  [{ scopes: [] }, 422],
  [{ scopes: ['admin'] }, 422],
  [{ name: '' }, 422],
  [{ expires_at: 'tomorrow' }, 422],
  [{ conversation_id: 'x' }, 422],
  [{ conversation_id: '11111111-1111-4111-8111-111111111111' }, 404],
] as const)('a request for a key with %j is answered with %i', async ([request, status]) => {
  expect(await statusOf(server.api.sendJson('POST', '/api/keys', { name: 'x', ...request }))).toBe(status)
})

test('a key that may act approves and rejects nothing that waits; one that may answer does', async () => {
  const script = [bashStep('echo one'), finishStep()]
  const { id } = await server.driver.createScripted(script, {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  const waiting = await server.driver.waitUntilIdle(id)
  const path = `/api/conversations/${id}`
  const bound = await makeKey({ scopes: ['read', 'act'], conversation_id: id })
  const actor = await makeKey({ scopes: ['act'] })
  const message = { role: 'user', content: [{ type: 'text', text: 'yes' }] }
  for (const { api: own } of [bound, actor]) {
    const answers = [
      own.sendJson('POST', `${path}/events/respond_to_confirmation`, { accept: true }),
      own.sendJson('POST', `${path}/run`, {}),
      own.sendJson('POST', `${path}/events`, { ...message, run: true }),
      own.sendJson('POST', `${path}/events`, { ...message, run: false }),
      own.sendJson('POST', `${path}/confirmation_policy`, { policy: { kind: 'NeverConfirm' } }),
      own.sendJson('PATCH', path, { plan_mode: false }),
    ]
    for (const answer of answers) expect(await statusOf(answer)).toBe(403)
    for (const stop of ['pause', 'interrupt']) await own.sendJson('POST', `${path}/${stop}`, {})
  }
  expect(await server.driver.getEvents(id)).toHaveLength(waiting.length)
  const answering = await makeKey({ scopes: ['act', 'answer'] })
  const accept = answering.api.sendJson('POST', `${path}/events/respond_to_confirmation`, { accept: true })
  expect(await statusOf(accept)).toBe(200)
  expect((await server.driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
  expect(await statusOf(actor.api.sendJson('POST', `${path}/events`, message))).toBe(200)
})

test('a bound key ends with its conversation, so that it does not open another one of the id', async () => {
  const { id } = await server.driver.createScripted([finishStep()])
  const { api: bound } = await makeKey({ conversation_id: id })
  expect(await statusOf(bound.requestJson(`/api/conversations/${id}`))).toBe(200)
  const refused = { name: 'x', conversation_id: id, scopes: ['read', 'answer'] }
  expect(await statusOf(server.api.sendJson('POST', '/api/keys', refused))).toBe(422)
  await server.api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })
  expect(await statusOf(bound.requestJson(`/api/conversations/${id}`))).toBe(401)
})

test('a server that requires no key makes none', async () => {
  await using open = await OwnAgentServer.open({ isInProcess: true })
  expect(await statusOf(open.api.sendJson('POST', '/api/keys', { name: 'x' }))).toBe(409)
})
