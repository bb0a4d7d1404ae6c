import { once } from 'node:events'
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { expect } from 'vitest'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import { type Json, type MapClient, OwnMapServer, openMapServer, waitFor } from '../map-server.ts'

const server = openMapServer()

async function serverInfo(client: MapClient = server): Promise<Json> {
  return (await client.request<Json>('GET', '/server_info', { isAnonymous: true })).body
}

mapCase('F01.alive', 'liveness needs no key, other routes do', async () => {
  const found = await server.request('GET', '/alive', { isAnonymous: true })
  expect(found).toMatchObject({ status: 200, body: { status: 'ok' } })
  if (server.key !== undefined)
    expect(await server.requestStatus('GET', '/api/conversations/count', { isAnonymous: true })).toBe(401)
})

mapCase('F01.health', 'health needs no key', async () => {
  const found = await server.request('GET', '/health', { isAnonymous: true })
  expect(found).toMatchObject({ status: 200, body: { status: 'ok' } })
})

mapCase('F01.ready', 'readiness needs no key', async () => {
  const found = await server.request('GET', '/ready', { isAnonymous: true })
  expect(found).toMatchObject({ status: 200, body: { status: 'ready' } })
})

mapCase('F01.server-info', 'versions, build, usable tools and capabilities without a key', async () => {
  const info = await serverInfo()
  expect(info).toMatchObject({ conversation_runtime: 'local', version: expect.any(String) })
  for (const member of ['sdk_version', 'tools_version', 'workspace_version', 'build_git_sha'])
    expect(info).toHaveProperty(member)
  expect(info.usable_tools).toContain('terminal')
  expect(info.capabilities).toEqual(
    expect.arrayContaining(['idempotent_conversation_create_v1', 'tool_catalog_v1']),
  )
})

mapCase('F01.root-info', 'the root is the same document', async () => {
  const { body } = await server.request<Json>('GET', '/', { isAnonymous: true })
  const withoutClocks = ({ uptime: _, idle_time: __, ...rest }: Json) => rest
  expect(withoutClocks(body)).toEqual(withoutClocks(await serverInfo()))
})

mapCase(
  'F01.uptime-restart',
  'uptime grows and begins again after a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    await waitFor(
      async () => Number((await serverInfo(own)).uptime),
      (uptime) => uptime >= 1,
    )
    const restart = Date.now()
    await own.restart()
    expect(Number((await serverInfo(own)).uptime)).toBeLessThanOrEqual((Date.now() - restart) / 1000 + 1)
  },
  { hasOwnServer: true },
)

mapCase('F01.idle-time', 'idle time grows until a file operation', async () => {
  await server.request('POST', '/api/file/create_directory', { query: { path: `${server.directory}/a` } })
  const before = await waitFor(
    async () => Number((await serverInfo()).idle_time),
    (idle) => idle >= 1,
  )
  expect(
    await server.requestStatus('POST', '/api/file/create_directory', {
      query: { path: `${server.directory}/b` },
    }),
  ).toBe(200)
  expect(Number((await serverInfo()).idle_time)).toBeLessThan(before)
})

differs(
  'F01.openapi',
  'the document has the conversation routes and no sockets, without a key',
  'operation ids',
  async () => {
    const { status, body } = await server.request<{
      paths: Record<string, { post?: { operationId: string } }>
    }>('GET', '/openapi.json', { isAnonymous: true })
    expect(status).toBe(200)
    expect(body.paths['/api/conversations']?.post?.operationId).toBe('createConversation')
    expect(body.paths).toHaveProperty(['/api/conversations/{conversation_id}/pause'])
    expect(Object.keys(body.paths).filter((path) => path.startsWith('/sockets'))).toEqual([])
  },
)

mapCase(
  'F01.static-files',
  'a folder served below /static, and the root leads there',
  async () => {
    const folder = join(server.directory, 'static')
    await mkdir(join(folder, 'sub'), { recursive: true })
    await writeFile(join(folder, 'index.html'), '<!doctype html><title>map</title>')
    await writeFile(join(folder, 'map.json'), '{"map":1}')
    await writeFile(join(folder, '.hidden'), 'hidden')
    await writeFile(join(server.directory, 'server_info'), 'outside')
    await symlink('/etc/hostname', join(folder, 'link'))
    await using own = await OwnMapServer.open({ key: 'k', env: { OH_STATIC_FILES_PATH: folder } })
    const get = (path: string) => fetch(`${own.url}${path}`, { redirect: 'manual' })
    const root = await get('/')
    expect([root.status, root.headers.get('location')]).toEqual([302, '/static/index.html'])
    const page = await get('/static/index.html')
    expect([page.status, page.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('text/html'),
    ])
    expect(await page.text()).toContain('<title>map</title>')
    expect(await (await get('/static/map.json')).json()).toEqual({ map: 1 })
    for (const path of [
      '%2e%2e%2fserver_info',
      'sub',
      'sub/',
      '',
      'none',
      '.hidden',
      'link',
      '%2fetc%2fhostname',
    ])
      expect((await get(`/static/${path}`)).status, path).toBe(404)
    // As it is: `fetch` would resolve the dots.
    const { hostname, port } = new URL(own.url)
    const escaping = request({ hostname, port, path: '/static/%2e%2e/server_info' }).end()
    const [answer] = await once(escaping, 'response')
    expect(answer.resume().statusCode).toBe(404)
    expect((await get('/api/conversations/count')).status).toBe(401)
    expect(await serverInfo(own)).toMatchObject({ title: expect.any(String) })
    await rm(join(folder, 'index.html'))
    expect((await get('/')).headers.get('location')).toBe('/static/')
    await own.restart('SIGTERM', { OH_STATIC_FILES_PATH: join(folder, 'missing') })
    expect((await get('/')).status).toBe(200)
    expect((await get('/static/map.json')).status).toBe(404)
  },
  { hasOwnServer: true },
)

differs(
  'F01.debug-tracebacks',
  'bodies of 5xx have a traceback in debug mode',
  'stacks in bodies',
  async () => {
    const env = { DEBUG: 'true', SLIPWAY_GITHUB_API_URL: 'http://127.0.0.1:9' }
    await using own = await OwnMapServer.open({ key: 'k', env })
    const secret = { name: 'github_token', value: 'ghp_sentinel' }
    await own.requestOrThrow('PUT', '/api/settings/secrets', { body: secret })
    const query = { provider: 'github' }
    const { status, body } = await own.request<Json>('GET', '/api/git/repositories/search', { query })
    expect(status).toBe(502)
    expect(body).not.toHaveProperty('traceback')
  },
)

notApplicable(
  'F01.preload-tools',
  'tools are loaded before the server is ready',
  'tools are a part of the program; a browser is started by the first call that needs one',
)

endFamily('F01', 11)
