import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { createApp, type Listening, listen, type ScopedKey } from '@slipway/http'
import { agentServerOpenApi, conversationWorkspaceRoutes, Problem, workspaceRoutes } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { systemClock } from '@slipway/shared/time'
import type { ConversationLeases } from '@slipway/storage'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WorkspaceTickets } from '../../modules/workspace-pages/tickets.ts'
import { Peers } from './peers.ts'

const id = '2d3fd2a6-5b1f-4e0a-9d3c-7c1f7a8f0f11'
const below = `/api/conversations/${id}`
const peersKey = 'the key of the peers'
const ownKey = 'the session key of this server'
const scopedKeys: Readonly<Record<string, ScopedKey>> = {
  'sk-slipway-read': { id: 'r', scopes: ['read'], conversation: null },
  'sk-slipway-answer': { id: 'a', scopes: ['read', 'answer'], conversation: null },
  'sk-slipway-bound': { id: 'b', scopes: ['read', 'answer'], conversation: id },
}
const { getConversationBashEvent, downloadConversationFile } = conversationWorkspaceRoutes
const { workspaceFile } = workspaceRoutes
const routes = { workspaceFile, getConversationBashEvent, downloadConversationFile }

let received: { url: string; headers: IncomingHttpHeaders }[]
let owner: ReturnType<typeof createServer>
let server: Listening
let tickets: WorkspaceTickets

const newTickets = (key: string) =>
  new WorkspaceTickets({ key: Buffer.alloc(32, 7), sessionKeys: [new Secret(key)], now: Date.now })

beforeEach(async () => {
  received = []
  owner = createServer(({ url = '', headers }, res) => {
    received.push({ url, headers })
    res.end('"of the owner"')
  })
  await once(owner.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(owner.address() as AddressInfo).port}`
  tickets = newTickets(ownKey)
  const peers = new Peers({
    leases: { acquire: async () => ({ isOwn: false, url }) } as unknown as ConversationLeases,
    key: new Secret(peersKey),
    tickets,
    fetch,
    clock: systemClock,
    log: () => {},
    continueRun: async () => {},
    exists: async () => true,
  })
  const here = () => ({ json: 'of this server' })
  const handlers = { workspaceFile: here, getConversationBashEvent: here, downloadConversationFile: here }
  const app = createApp(routes, peers.wrap(handlers), {
    openapi: agentServerOpenApi,
    log: () => {},
    keys: [new Secret(ownKey)],
    findScopedKey: async (key) => scopedKeys[key],
    pageCredential: (url, header, peer) => tickets.authenticate(url, header, peer),
  })
  server = await listen(app, { host: '127.0.0.1', port: 0 })
})

afterEach(async () => {
  await server.close()
  owner.close()
})

/** Sends the address as it is. */
async function call(path: string, headers: Record<string, string> = {}) {
  const { port } = new URL(server.url)
  const [response]: IncomingMessage[] = await once(
    request({ host: '127.0.0.1', port, path: below + path, headers, agent: false }).end(),
    'response',
  )
  if (response === undefined) throw new Error('There is no response')
  return { status: response.statusCode, text: await text(response) }
}

const authorization = { 'x-session-api-key': ownKey }

test.for([
  '/workspace/../../../file/download?path=/etc/passwd',
  '/workspace/a/../b',
  '/workspace/%2e%2e/%2e%2e/x',
  '/workspace/%2e%2E%2f..%2fx',
  '/workspace/..%5c..%5cx',
  '/workspace/a%5c..',
  '/workspace/./a',
  '/workspace/..',
  '/bash/bash_events/..',
  '/bash/bash_events/%2e%2e%2f..',
])('%s is not passed on', async (path) => {
  const { text: ticket } = tickets.createTicket(ownKey, { conversation: id, path: '', seconds: 60 })
  const answer = await call(path, authorization)
  expect([answer.status, answer.text]).toEqual([400, '{"detail":"The address is not valid"}'])
  const mark = path.includes('?') ? '&' : '?'
  const refused = path.startsWith('/workspace') ? 400 : 401
  expect((await call(`${path}${mark}ticket=${ticket}`)).status).toBe(refused)
  expect(received).toEqual([])
})

test.for([
  ['/workspace/a%20b/%c3%a4%3F.html', '/workspace/a%20b/%C3%A4%3F.html'],
  ['/workspace//a/', '/workspace//a'],
  ['/workspace/%252e%252e/x', '/workspace/%252e%252e/x'],
  ['/workspace/...', '/workspace/...'],
  ['/workspace/a%2Fb', '/workspace/a/b'],
  ['/file/download?path=%2Fa%20b%26c&x=../..', '/file/download?path=%2Fa+b%26c&x=..%2F..'],
] as const)('%s is passed on as %s', async ([path, passed]) => {
  const answer = await call(path, authorization)
  expect([answer.status, answer.text]).toEqual([200, '"of the owner"'])
  expect(received.map(({ url }) => url)).toEqual([below + passed])
  expect(received[0]?.headers).toMatchObject({ 'x-session-api-key': peersKey, 'x-slipway-peer': '1' })
})

test.for([
  [ownKey, undefined],
  ['sk-slipway-answer', undefined],
  ['sk-slipway-read', '1'],
  ['sk-slipway-bound', '1'],
] as const)('the owner is told whether the key %s may answer what waits: %s', async ([key, header]) => {
  expect((await call('/workspace/a', { 'x-session-api-key': key })).status).toBe(200)
  expect(received[0]?.headers['x-slipway-no-answer']).toBe(header)
  expect(JSON.stringify(received[0]?.headers)).not.toContain(key)
})

test('what a ticket or cookie opens is passed on without the key of the peers', async () => {
  const grant = { conversation: id, path: 'site', seconds: 60 }
  const { text: ticket } = tickets.createTicket(ownKey, grant)
  const cookie = tickets.createSessionToken(ownKey, undefined, undefined)
  const ways = [
    { path: `/workspace/site/a.txt?ticket=${ticket}`, headers: authorization },
    { path: `/workspace/~${ticket}/site/a.txt`, headers: {} },
    { path: '/workspace/site/a.txt', headers: { cookie: `oh_workspace_session_key=${cookie}` } },
  ]
  for (const { path, headers } of ways) expect((await call(path, headers)).status).toBe(200)
  expect(received.map(({ headers }) => headers['x-session-api-key'])).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  // The owner has another session key and the same secret key.
  const ofOwner = newTickets('the session key of the owner')
  const peer = () => 'the address of a peer'
  const found = received.map(({ url, headers }) =>
    ofOwner.findToken(url, (name) => headers[name]?.toString(), peer),
  )
  expect(found).toMatchObject([
    { token: { grant: { use: 'ticket', conversation: id, path: 'site' } } },
    { token: { grant: { use: 'ticket', conversation: id, path: 'site' } } },
    { token: { grant: { use: 'session' } } },
  ])
  // Only servers with the secret key can vouch.
  const forged = [cookie, `${cookie}.${cookie.split('.')[1]}`, `${cookie}.`, '']
  for (const token of forged)
    expect(
      ofOwner.findToken('/', (name) => (name === 'x-slipway-peer-token' ? token : undefined), peer),
    ).toBeInstanceOf(Problem)
})
