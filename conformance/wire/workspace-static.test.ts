import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { finishStep, scriptedModel } from '../support/agent-driver.ts'
import { openWireServer, unknownId, wireCase, wireCaseWithKey } from './wire-server.ts'

const wire = openWireServer()

/** Creates a conversation with its own folder and some files. */
async function createWithFiles(): Promise<{ id: string; path: string }> {
  const path = `${wire.directory}/${randomUUID()}`
  await wire.upload(`${path}/index.html`, '<p>index</p>')
  await wire.upload(`${path}/a b/ü.txt`, 'text')
  await wire.upload(`${path}/data.json`, '{}')
  const { id } = await wire.driver.create(
    { llm: scriptedModel([finishStep()]) },
    { workspace: { working_dir: path } },
  )
  return { id, path }
}

async function fetchFile(id: string, rest: string, headers: Record<string, string> = wire.headers) {
  const response = await fetch(`${wire.url}/api/conversations/${id}/workspace${rest}`, {
    headers,
    redirect: 'follow',
  })
  return {
    status: response.status,
    type: response.headers.get('content-type') ?? '',
    text: await response.text(),
  }
}

wireCase(
  'GET /api/conversations/{id}/workspace/{path}',
  'serves files with their types, a folder by its index',
  async () => {
    const { id } = await createWithFiles()
    expect(await fetchFile(id, '/index.html')).toMatchObject({
      status: 200,
      text: '<p>index</p>',
      type: expect.stringContaining('html'),
    })
    expect(await fetchFile(id, '/a%20b/%C3%BC.txt')).toMatchObject({
      status: 200,
      text: 'text',
      type: expect.stringContaining('text/plain'),
    })
    for (const rest of ['', '/'])
      expect(await fetchFile(id, rest)).toMatchObject({ status: 200, text: '<p>index</p>' })
    for (const rest of ['/missing', '/a%20b']) expect((await fetchFile(id, rest)).status).toBe(404)
    expect((await fetchFile(unknownId, '/index.html')).status).toBe(404)
  },
)

wireCase('GET /api/conversations/{id}/workspace/{path}', 'never leaves the folder', async () => {
  const { id, path } = await createWithFiles()
  await wire.runCommand(
    `echo outside > '${wire.directory}/outside.txt' && ln -s '${wire.directory}/outside.txt' '${path}/link.txt'`,
  )
  const ways = [
    '/..%2foutside.txt',
    '/%2e%2e/outside.txt',
    '/a%20b/..%2f..%2foutside.txt',
    '/link.txt',
    '/%2fetc%2fpasswd',
    '/x%00y',
  ]
  for (const rest of ways) {
    const { status, text } = await fetchFile(id, rest)
    expect([rest, status >= 400 && status < 500, text.includes('outside\n'), text.includes('root:')]).toEqual(
      [rest, true, false, false],
    )
  }
})

wireCase('POST /api/auth/workspace-session', 'sets a cookie that opens files', async () => {
  const { id } = await createWithFiles()
  const { status, type, headers } = await wire.request('POST', '/api/auth/workspace-session')
  expect([status, type]).toEqual([204, ''])
  const cookie = String(headers.get('set-cookie'))
  expect(cookie).toMatch(/^oh_workspace_session_key=/)
  for (const attribute of ['HttpOnly', 'Path=/api/conversations', 'SameSite=None'])
    expect(cookie.toLowerCase()).toContain(attribute.toLowerCase())
  const own = { cookie: String(cookie.split(';')[0]) }
  expect(await fetchFile(id, '/index.html', own)).toMatchObject({ status: 200, text: '<p>index</p>' })
})

wireCaseWithKey(
  'POST /api/auth/workspace-session',
  'opens only workspace files, and no other cookie does',
  async () => {
    const { id } = await createWithFiles()
    const { headers } = await wire.request('POST', '/api/auth/workspace-session')
    const own = { cookie: String(headers.get('set-cookie')?.split(';')[0]) }
    expect((await fetchFile(id, '/index.html', {})).status).toBe(401)
    expect((await fetchFile(id, '/index.html', { cookie: 'oh_workspace_session_key=wrong' })).status).toBe(
      401,
    )
    for (const path of [`/api/conversations/${id}`, '/api/settings'])
      expect(await wire.requestStatus('GET', path, { isAnonymous: true, headers: own })).toBe(401)
    expect(await wire.requestStatus('POST', '/api/auth/workspace-session', { isAnonymous: true })).toBe(401)
  },
)

wireCase(
  'DELETE /api/auth/workspace-session',
  'is 204 without a content type, and removes the cookie',
  async () => {
    const { status, type, headers } = await wire.request('DELETE', '/api/auth/workspace-session')
    expect([status, type]).toEqual([204, ''])
    expect(headers.get('set-cookie')).toMatch(
      /^oh_workspace_session_key=[^;]*;.*(Max-Age=0|Expires=Thu, 01 Jan 1970)/i,
    )
  },
)

wireCase('GET /api/vscode/url', 'is a url or null, or reports that there is none', async () => {
  const { status, body } = await wire.request('GET', '/api/vscode/url')
  expect([200, 503]).toContain(status)
  if (status === 200) expect(body).toHaveProperty('url')
  else expect(body).toHaveProperty('detail')
})

wireCase('GET /api/vscode/status', 'reports whether it exists and runs', async () => {
  expect(await wire.requestOrThrow('GET', '/api/vscode/status')).toMatchObject({
    running: expect.any(Boolean),
    enabled: expect.any(Boolean),
  })
})
