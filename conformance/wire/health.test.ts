import { expect, test } from 'vitest'
import {
  openWireServer,
  pageOrigins,
  sessionKey,
  unknownId,
  wireCase,
  wireCaseWithKey,
} from './wire-server.ts'

const wire = openWireServer()
const anonymous = { isAnonymous: true }

wireCase('GET /alive', 'is ok without a key', async () => {
  expect(await wire.request('GET', '/alive', anonymous)).toMatchObject({
    status: 200,
    body: { status: 'ok' },
  })
})

wireCase('GET /health', 'is ok without a key', async () => {
  expect(await wire.request('GET', '/health', anonymous)).toMatchObject({
    status: 200,
    body: { status: 'ok' },
  })
})

wireCase('GET /ready', 'is ready without a key', async () => {
  expect(await wire.request('GET', '/ready', anonymous)).toMatchObject({
    status: 200,
    body: { status: 'ready' },
  })
})

wireCase('GET /server_info', 'has a version that the clients accept, and the features', async () => {
  const { status, body } = await wire.request<{ version: string; usable_tools: string[] }>(
    'GET',
    '/server_info',
    anonymous,
  )
  expect(status).toBe(200)
  const [, major, minor] = /^(\d+)\.(\d+)\.\d+$/.exec(body.version) ?? []
  // The newest minimum version of any client feature is 1.37.
  expect(Number(major) * 1000 + Number(minor)).toBeGreaterThanOrEqual(1037)
  expect(body).toMatchObject({
    uptime: expect.any(Number),
    idle_time: expect.any(Number),
    title: expect.any(String),
    sdk_version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    tools_version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    workspace_version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    docs: '/docs',
    redoc: '/redoc',
  })
  expect(body.usable_tools).toEqual(expect.arrayContaining(['terminal', 'file_editor', 'task_tracker']))
})

wireCase('GET /', 'is the server info, or redirects to a page', async () => {
  const { status, type, headers } = await wire.request('GET', '/', anonymous)
  if (status >= 300 && status < 400) expect(headers.get('location')).toMatch(/^\//)
  else expect([status, /json|html/.test(type)]).toEqual([200, true])
})

/** Follows redirects, like browsers. */
async function fetchPage(path: string) {
  const response = await fetch(`${wire.url}${path}`, { headers: wire.headers })
  return { status: response.status, text: await response.text() }
}

wireCase('GET /docs', 'is a page', async () => {
  const { status, text } = await fetchPage('/docs')
  expect([status, /<html/i.test(text)]).toEqual([200, true])
})

wireCase('GET /redoc', 'is a page', async () => {
  const { status, text } = await fetchPage('/redoc')
  expect([status, /<html/i.test(text)]).toEqual([200, true])
})

wireCase('GET /openapi.json', 'describes every operation of the suite without a nested path', async () => {
  const { status, body } = await wire.request<{ openapi: string; paths: object }>('GET', '/openapi.json')
  expect([status, body.openapi]).toEqual([200, expect.stringMatching(/^3\.1\./)])
  for (const path of ['/api/conversations', '/api/bash/execute_bash_command', '/api/settings'])
    expect(body.paths).toHaveProperty([path])
})

wireCaseWithKey('ALL authentication', 'is required on all of /api, with one form of error', async () => {
  const paths = [
    '/api/conversations/search',
    `/api/conversations/${unknownId}`,
    '/api/settings',
    '/api/tools/',
  ]
  for (const path of paths)
    for (const headers of [{}, { 'x-session-api-key': 'wrong' }, { 'x-session-api-key': '' }]) {
      const { status, body } = await wire.request('GET', path, { ...anonymous, headers })
      expect([path, status, body]).toEqual([path, 401, { detail: 'Unauthorized' }])
    }
  for (const path of ['/file/create_directory', '/api/file/create_directory', '/api/conversations'])
    expect(await wire.requestStatus('POST', path, { ...anonymous, body: {} })).toBe(401)
  expect(await wire.requestStatus('GET', '/api/conversations/count')).toBe(200)
})

wireCase(
  'ALL CORS',
  'lets pages of configured origins in, without a key before the request and on errors',
  async () => {
    for (const origin of pageOrigins) {
      const asked = {
        origin,
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'x-session-api-key,content-type,x-expose-secrets',
      }
      const preflight = await wire.request('OPTIONS', '/api/settings', { ...anonymous, headers: asked })
      expect(preflight.status).toBeLessThan(300)
      expect(preflight.headers.get('access-control-allow-origin')).toBe(origin)
      for (const name of ['x-session-api-key', 'content-type', 'x-expose-secrets'])
        expect(preflight.headers.get('access-control-allow-headers')?.toLowerCase()).toContain(name)
      for (const method of ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'])
        expect(preflight.headers.get('access-control-allow-methods')).toContain(method)
      for (const path of [`/api/conversations/${unknownId}`, '/api/conversations/search?limit=0']) {
        const { status, headers } = await wire.request('GET', path, { headers: { origin } })
        expect(status).toBeGreaterThanOrEqual(400)
        expect(headers.get('access-control-allow-origin')).toBe(origin)
      }
      if (sessionKey !== undefined) {
        const refused = await wire.request('GET', '/api/settings', { ...anonymous, headers: { origin } })
        expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, origin])
      }
    }
    for (const origin of ['http://elsewhere.example', 'http://localhost:3002']) {
      const stranger = await wire.request('GET', '/api/conversations/count', { headers: { origin } })
      expect(stranger.headers.get('access-control-allow-origin')).toBeNull()
    }
  },
)

wireCase('ALL errors', 'have a detail; what fails validation has its place', async () => {
  const unknown = await wire.request('GET', `/api/conversations/${unknownId}/events/search`)
  expect(unknown).toMatchObject({ status: 404, body: { detail: expect.stringContaining(unknownId) } })
  const bad = [
    ['GET', '/api/conversations/search?limit=101', ['query', 'limit']],
    ['GET', '/api/conversations/search?limit=0', ['query', 'limit']],
    ['GET', '/api/conversations/not-an-id', ['path', 'conversation_id']],
  ] as const
  for (const [method, path, loc] of bad) {
    const { status, body } = await wire.request(method, path)
    expect([path, status]).toEqual([path, 422])
    expect(body).toMatchObject({ detail: [{ loc, msg: expect.any(String), type: expect.any(String) }] })
  }
  expect(await wire.request('POST', '/api/conversations', { body: {} })).toMatchObject({
    status: 422,
    body: { detail: expect.arrayContaining([expect.objectContaining({ loc: expect.any(Array) })]) },
  })
  const missing = await wire.request('GET', '/api/no/such/route')
  expect(missing).toMatchObject({ status: 404, body: { detail: expect.any(String) } })
  const broken = await wire.request('POST', '/api/conversations', { body: '{' })
  expect([400, 422]).toContain(broken.status)
  expect(broken.body).toHaveProperty('detail')
})

test('no reply to a wrong key contains a key', async () => {
  const canary = 'wrong-key-canary'
  const { body, headers } = await wire.request('POST', '/api/conversations', {
    headers: { 'x-session-api-key': canary },
    body: { agent: 1 },
  })
  expect(JSON.stringify([body, [...headers]])).not.toContain(canary)
})
