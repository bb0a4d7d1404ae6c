import { conversationParams, type Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import type { Handlers } from '../core/handler.ts'
import { TestServer } from '../testing/test-server.ts'
import type { ScopedKey } from './scoped-key.ts'

const own = '11111111-1111-4111-8111-111111111111'
const other = '22222222-2222-4222-8222-222222222222'
const plain = { tag: 'test', summary: 'test', responses: {} } as const
const ofConversation = { ...plain, params: conversationParams } as const
const routes = {
  list: { ...plain, method: 'GET', path: '/list', scope: 'read' },
  read: { ...ofConversation, method: 'GET', path: '/c/{conversation_id}', scope: 'read' },
  act: { ...ofConversation, method: 'POST', path: '/c/{conversation_id}', scope: 'act' },
  answer: { ...ofConversation, method: 'PUT', path: '/c/{conversation_id}', scope: 'answer' },
  door: { ...plain, method: 'POST', path: '/door', scope: 'any', bearer: true },
  settings: { ...plain, method: 'GET', path: '/settings' },
} as const satisfies Record<string, Route>
const echo = ({ caller }: { readonly caller: unknown }) => ({ json: caller ?? null })
const handlers = Object.fromEntries(Object.keys(routes).map((name) => [name, echo])) as unknown as Handlers<
  typeof routes
>

const keys: Record<string, ScopedKey> = {
  'sk-slipway-read': { id: 'r', scopes: ['read'], conversation: null },
  'sk-slipway-all': { id: 'a', scopes: ['read', 'act', 'answer'], conversation: null },
  'sk-slipway-bound': { id: 'b', scopes: ['read', 'act', 'answer'], conversation: own },
}

function open(options: Parameters<typeof TestServer.start>[2] = {}) {
  const findScopedKey = async (key: string) => keys[key]
  return TestServer.start(routes, handlers, { keys: [new Secret('session')], findScopedKey, ...options })
}

test.for([
  ['sk-slipway-read', 'GET', '/list', 200],
  ['sk-slipway-read', 'GET', `/c/${own}`, 200],
  ['sk-slipway-read', 'POST', `/c/${own}`, 403],
  ['sk-slipway-read', 'PUT', `/c/${own}`, 403],
  ['sk-slipway-read', 'POST', '/door', 200],
  ['sk-slipway-read', 'GET', '/settings', 403],
  ['sk-slipway-all', 'PUT', `/c/${own}`, 200],
  ['sk-slipway-all', 'GET', '/settings', 403],
  ['sk-slipway-bound', 'GET', `/c/${own}`, 200],
  ['sk-slipway-bound', 'GET', `/c/${own.toUpperCase()}`, 200],
  ['sk-slipway-bound', 'POST', `/c/${own}`, 200],
  ['sk-slipway-bound', 'GET', `/c/${other}`, 404],
  ['sk-slipway-bound', 'POST', `/c/${other}`, 404],
  ['sk-slipway-bound', 'GET', '/c/x', 404],
  ['sk-slipway-bound', 'GET', '/list', 403],
  ['sk-slipway-bound', 'PUT', `/c/${own}`, 403],
  ['sk-slipway-bound', 'PUT', `/c/${other}`, 403],
  ['sk-slipway-unknown', 'GET', '/list', 401],
  ['read', 'GET', '/list', 401],
] as const)('with the key %s, %s %s is answered with %i', async ([key, method, path, status]) => {
  await using trial = await open()
  const answer = await trial.call(path, { method, headers: { 'x-session-api-key': key } })
  expect(answer.status).toBe(status)
})

test('a key with scopes opens no socket, no metrics and no unknown path', async () => {
  await using trial = await open({
    sockets: [{ path: '/sockets/thing', accepts: () => true, serve: async () => {} }],
  })
  const headers = { 'x-session-api-key': 'sk-slipway-all' }
  expect((await trial.call('/unknown', { headers })).status).toBe(401)
  const upgrade = { ...headers, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' }
  const request = { headers: { ...upgrade, 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' } }
  expect((await trial.call('/sockets/thing', request)).status).toBe(403)
})

test('a server that requires no key opens everything, also to a key with scopes', async () => {
  await using trial = await open({ keys: [] })
  const answer = await trial.call('/settings', { headers: { 'x-session-api-key': 'sk-slipway-read' } })
  expect([answer.status, answer.text]).toEqual([200, 'null'])
})
