import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { endFamily, mapCase, missing } from '../frame.ts'
import { type Json, type MapClient, OwnMapServer, openMapServer } from '../map-server.ts'

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
    await sleep(2500)
    const before = Number((await serverInfo(own)).uptime)
    expect(before).toBeGreaterThanOrEqual(2)
    const restart = Date.now()
    await own.restart()
    expect(Number((await serverInfo(own)).uptime)).toBeLessThanOrEqual((Date.now() - restart) / 1000 + 1)
  },
  { hasOwnServer: true },
)

mapCase('F01.idle-time', 'idle time grows until a file operation', async () => {
  await server.request('POST', '/api/file/create_directory', { query: { path: `${server.directory}/a` } })
  await sleep(2500)
  const before = Number((await serverInfo()).idle_time)
  expect(before).toBeGreaterThanOrEqual(2)
  expect(
    await server.requestStatus('POST', '/api/file/create_directory', {
      query: { path: `${server.directory}/b` },
    }),
  ).toBe(200)
  expect(Number((await serverInfo()).idle_time)).toBeLessThan(before)
})

missing(
  'F01.openapi',
  'the document has the conversation routes and no sockets, without a key',
  'the operation id of the creation is another one',
  async () => {
    const { status, body } = await server.request<{
      paths: Record<string, { post?: { operationId: string } }>
    }>('GET', '/openapi.json', { isAnonymous: true })
    expect(status).toBe(200)
    expect(body.paths['/api/conversations']?.post?.operationId).toContain('start_conversation')
    expect(body.paths).toHaveProperty(['/api/conversations/{conversation_id}/pause'])
    expect(Object.keys(body.paths).filter((path) => path.startsWith('/sockets'))).toEqual([])
  },
)

missing(
  'F01.static-files',
  'a folder served below /static, and the root leads there',
  'no setting for static files',
)

missing('F01.debug-tracebacks', 'bodies of 5xx have a traceback in debug mode', 'no debug mode')

missing(
  'F01.preload-tools',
  'tools are loaded before the server is ready',
  'no setting for a preload of tools',
)

endFamily('F01', 11)
