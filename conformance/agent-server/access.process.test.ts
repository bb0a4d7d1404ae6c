import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentServerRoutes, type Route } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { accessPage } from '../support/access-table.ts'
import type { StartedServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import { openServerInProcess } from '../support/server-in-process.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

const key = 'a-session-key-of-this-test'
const initKey = 'an-init-key-of-this-test'
/** Nothing of this test reaches another machine. */
const nowhere = 'http://127.0.0.1:9'

let directory: string
let server: StartedServer
/** The conversation whose files a ticket opens, and one of somebody else. */
let conversation: string
let other: string

const post = { method: 'POST', headers: { 'x-session-api-key': key } }

interface Credential {
  readonly headers?: Readonly<Record<string, string>>
  /** Added to the query. */
  readonly query?: string
  /** It is bound to a conversation: addresses name one that exists, and 404 is a refusal. */
  readonly isBound?: true
}
/** By the name of the column. */
const kinds: Readonly<Record<string, () => Credential | Promise<Credential>>> = {
  none: () => ({}),
  wrong: () => ({ headers: { 'x-session-api-key': 'wrong' } }),
  'session key': () => ({ headers: { 'x-session-api-key': key } }),
  'read key': () => scopedKey({ scopes: ['read'] }),
  'act key': () => scopedKey({ scopes: ['act'] }),
  'answer key': () => scopedKey({ scopes: ['answer'] }),
  'key of the conversation': () => scopedKey({ scopes: ['read', 'act'], conversation_id: conversation }),
  'key of another one': () => scopedKey({ scopes: ['read', 'act'], conversation_id: other }),
  'as bearer': () => ({ headers: { authorization: `Bearer ${key}` } }),
  'in a cookie': () => ({ headers: { cookie: `session_api_key=${key}; x-session-api-key=${key}` } }),
  'page of another origin, with the key': () => ({
    headers: { 'x-session-api-key': key, origin: nowhere, 'sec-fetch-site': 'cross-site' },
  }),
  'name of another host, with the key': () => ({
    headers: { 'x-session-api-key': key, 'sec-fetch-site': 'same-origin', host: 'rebound.example.test' },
  }),
  'init key': () => ({ headers: { 'x-init-api-key': initKey } }),
  'console session': consoleSession,
  'console cookie alone': async () => {
    const { headers } = await consoleSession()
    return { headers: { ...headers, 'x-console-proof': '' } }
  },
  'ticket of the conversation': () => ticket(conversation),
  'ticket of another one': () => ticket(other),
  'workspace session': async () => {
    const response = await fetch(`${server.url}/api/auth/workspace-session`, post)
    return { headers: { cookie: cookieOf(response) } }
  },
}

const makeCredentials = () => Promise.all(Object.values(kinds).map((make) => make()))
let credentials: Awaited<ReturnType<typeof makeCredentials>>

function cookieOf(response: Response): string {
  return String(response.headers.get('set-cookie')).split(';')[0] ?? ''
}

async function consoleSession(): Promise<Credential> {
  const page = { origin: server.url, 'sec-fetch-site': 'same-origin' }
  const response = await fetch(`${server.url}/console/session`, {
    method: 'POST',
    headers: { ...page, 'content-type': 'application/json' },
    body: JSON.stringify({ key }),
  })
  const { proof } = (await response.json()) as { proof: string }
  return { headers: { ...page, cookie: cookieOf(response), 'x-console-proof': proof } }
}

async function ticket(id: string): Promise<Credential> {
  const response = await fetch(`${server.url}/api/conversations/${id}/workspace-ticket`, post)
  const { url } = (await response.json()) as { url: string }
  return { query: new URL(url, server.url).search.slice(1) }
}

async function scopedKey(request: Readonly<Record<string, unknown>>): Promise<Credential> {
  const response = await fetch(`${server.url}/api/keys`, {
    method: 'POST',
    headers: { ...post.headers, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'test', ...request }),
  })
  const made = (await response.json()) as { key: string }
  return { headers: { 'x-session-api-key': made.key }, ...(request.conversation_id ? { isBound: true } : {}) }
}

const files = 'GET /api/conversations/{conversation_id}/workspace/{path*}'

/** Beside the table of routes. */
const others: readonly (readonly [string, string])[] = [
  ['GET', '/metrics'],
  ['GET', '/openapi.json'],
  ['GET', '/docs'],
  ['GET', '/app-backends/{extension_name}/'],
  ['POST', '/app-backends/{extension_name}/'],
]
/** Descriptions for everybody, and an application that is not installed. */
const ownAnswers = ['/openapi.json', '/docs', '/app-backends/{extension_name}/']
const sockets = [
  '/sockets/events/{conversation_id}',
  '/sockets/session/{conversation_id}',
  '/sockets/bash-events',
  '/app-backends/{extension_name}/',
]

/** The conversation exists, and nothing else; a JSON body is one that no route takes. */
function addressOf(path: string, { isBound }: Credential): string {
  const isOfFiles = path.includes('/workspace')
  return path
    .replaceAll('{conversation_id}', isBound || isOfFiles || path.startsWith('/sockets') ? conversation : 'x')
    .replace('{path*}', isOfFiles ? 'file.txt' : 'x')
    .replaceAll(/\{\w+\*?\}/g, 'x')
}

function cell(status: number, { isBound }: Credential): string {
  const refusals = isBound ? [401, 403, 404] : [401, 403]
  return refusals.includes(status) ? String(status) : 'yes'
}

/** By `node:http`, which sends the Host and the address as they are. */
async function ask(method: string, path: string, credential: Credential, hasBody: boolean) {
  const { headers, query } = credential
  const { hostname: host, port } = new URL(server.url)
  const call = request({
    ...{ method, host, port, path: addressOf(path, credential) + (query === undefined ? '' : `?${query}`) },
    headers: { ...headers, ...(hasBody && { 'content-type': 'application/json' }) },
  })
  call.end(hasBody ? '"no body"' : undefined)
  const [response] = (await once(call, 'response')) as [IncomingMessage]
  response.destroy()
  return response.statusCode ?? 0
}

/** Without a key in its headers a socket is accepted, and its first message has to bring one. */
function openSocket(path: string, credential: Credential): Promise<number> {
  const { headers, query } = credential
  const proof = headers?.['x-console-proof']
  const more = [query, proof && `console_proof=${proof}`].filter(Boolean).join('&')
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}${addressOf(path, credential)}?${more}`, {
    ...(headers && { headers }),
  })
  return new Promise((done) => {
    socket.on('unexpected-response', (_, { statusCode = 0 }) => done(statusCode)).on('error', () => {})
    socket.on('open', () => {
      socket.send(JSON.stringify({ type: 'auth', session_api_key: 'wrong' }))
      socket.ping()
    })
    socket.on('close', (code) => done(code === 4001 ? 401 : code))
    socket.on('pong', () => socket.close())
  })
}

async function cells(call: (credential: Credential) => Promise<number>): Promise<string[]> {
  const found: string[] = []
  for (const credential of credentials) found.push(cell(await call(credential), credential))
  return found
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'access-'))
  server = await openServerInProcess(join(directory, 'data'), {
    SLIPWAY_NO_KEY: '',
    SLIPWAY_SESSION_API_KEY: key,
    SLIPWAY_INIT_API_KEY: initKey,
    SLIPWAY_SUBSCRIPTION_ISSUER: nowhere,
    SLIPWAY_SUBSCRIPTION_CLIENT_ID: 'x',
    SLIPWAY_GITHUB_API_URL: nowhere,
    SLIPWAY_SKILLS_SOURCE: join(directory, 'none'),
    SLIPWAY_MARKETPLACES: '',
    HTTPS_PROXY: nowhere,
    https_proxy: nowhere,
  })
  const api = new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': key } })
  const create = async () => {
    const created = await api.sendJson('POST', '/api/conversations', {
      agent: { kind: 'Agent', llm: { model: 'scripted/test', script: [] }, tools: [] },
      workspace: { working_dir: directory },
    })
    return (created.body as { id: string }).id
  }
  conversation = await create()
  other = await create()
  credentials = await makeCredentials()
})

afterAll(async () => {
  await server?.stop()
  await rm(directory, { recursive: true, force: true })
})

test('who may call what: every route of the agent server with every kind of key', async () => {
  const rows: { route: string; cells: string[] }[] = []
  for (const { method, path, body, stream, upload } of Object.values<Route>(agentServerRoutes)) {
    const hasBody = method !== 'GET' && body !== undefined && stream === undefined && upload !== true
    const found = await cells((credential) => ask(method, path, credential, hasBody))
    rows.push({ route: `${method} ${path}`, cells: found })
    // It ended what it was sent with.
    if (method === 'DELETE' && path.endsWith('session')) credentials = await makeCredentials()
  }
  for (const [method, path] of others)
    rows.push({ route: `${method} ${path}`, cells: await cells((one) => ask(method, path, one, false)) })
  for (const path of sockets)
    rows.push({ route: `socket ${path}`, cells: await cells((one) => openSocket(path, one)) })
  const columns = Object.keys(kinds)
  const open = new Set(Object.values<Route>(agentServerRoutes).flatMap((one) => (one.open ? [one.path] : [])))
  // A key that is none opens nothing but what is open to all.
  for (const { route, cells: found } of rows)
    if (found[columns.indexOf('wrong')] === 'yes')
      expect([...open, ...ownAnswers]).toContain(route.replace(/^\w+ /, ''))
  // Each credential opens what it is for: otherwise its column says nothing.
  for (const [route, name] of [
    ['GET /api/tools', 'session key'],
    ['GET /v1/models', 'as bearer'],
    ['GET /api/tools', 'console session'],
    ['GET /api/conversations/search', 'read key'],
    ['POST /api/conversations/{conversation_id}/run', 'act key'],
    ['POST /api/conversations/{conversation_id}/events/respond_to_confirmation', 'answer key'],
    ['GET /api/conversations/{conversation_id}', 'key of the conversation'],
    [files, 'ticket of the conversation'],
    [files, 'workspace session'],
  ] as const) {
    const row = rows.find((one) => one.route === route)
    expect([route, name, row?.cells[columns.indexOf(name)]]).toEqual([route, name, 'yes'])
  }
  const page = accessPage({
    title: 'Access to the agent server',
    text: `Printed by \`conformance/agent-server/access.process.test.ts\`; do not edit. Each cell is a request that was made: \`yes\` where the
credential was accepted, otherwise the status of the refusal. Routes that are open to all answer for themselves: \`POST /console/session\` refuses a
wrong key. With a key that is bound to a conversation the path names the one of the column before it: 404 says that the key does not see it, or that the
conversation has no such thing.`,
    columns,
    rows,
  })
  await expect(page).toMatchFileSnapshot('../../docs/reference/access-agent-server.md')
})
