import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect } from 'vitest'
import {
  type EditorProgramState,
  writeEditorProgram,
} from '../../../packages/agent-server/src/testing/editor-program.ts'
import { isAlive } from '../extensions/application.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  finishReply,
  type Json,
  MapClient,
  OwnMapServer,
  type OwnMapServerOptions,
  openMapServer,
  toolReply,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }
const own = { hasOwnServer: true }

/** A conversation whose workspace has files of several types. */
async function withFiles(on: MapClient = server): Promise<{ id: string; folder: string }> {
  const folder = await mkdtemp(join(on.directory, 'site-'))
  for (const path of ['sub/docs', 'empty']) await mkdir(join(folder, path), { recursive: true })
  for (const [path, content] of [
    ['index.html', '<h1>map-root</h1>\n'],
    ['sub/index.html', '<p>map-sub</p>\n'],
    ['sub/docs/notes.txt', 'map notes here!\n'],
    ['data.json', '{"map":1}\n'],
    ['pic.svg', '<svg xmlns="http://www.w3.org/2000/svg"/>\n'],
    ['style.css', 'body{color:red}\n'],
    ['img.png', 'x'.repeat(4096)],
    ['blob.unknown', 'blob'],
    ['my file é.txt', 'spaced\n'],
    ['../outside.txt', 'outside\n'],
  ] as const)
    await writeFile(join(folder, path), content)
  await symlink('data.json', join(folder, 'inside.json'))
  await symlink('../outside.txt', join(folder, 'escape.txt'))
  await symlink('/etc', join(folder, 'escape-dir'))
  const { id } = await on.createConversation(undefined, { ...plain, workspace: { working_dir: folder } })
  return { id, folder }
}

const get = (id: string, path: string, options: object = {}, on: MapClient = server) =>
  on.request('GET', `/api/conversations/${id}/workspace${path}`, options)

/** A request whose path is sent as it is. */
async function getRaw(id: string, path: string): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(server.url)
  return await new Promise((done, fail) => {
    const options = {
      hostname,
      port,
      path: `/api/conversations/${id}/workspace${path}`,
      headers: server.headers,
    }
    const call = request(options, async (response) => {
      let body = ''
      for await (const chunk of response) body += chunk
      done({ status: response.statusCode ?? 0, body })
    })
    call.on('error', fail)
    call.end()
  })
}

mapCase('F16.root-index', 'the root is its index, inline', async () => {
  const { id } = await withFiles()
  for (const path of ['', '/']) {
    const found = await get(id, path)
    expect(found).toMatchObject({ status: 200, type: 'text/html; charset=utf-8' })
    expect(found.body).toContain('map-root')
    expect(found.headers.get('content-disposition')).toBe(null)
  }
})

mapCase('F16.file-bytes', 'bytes with length, tag, time and ranges; encoded names', async () => {
  const { id } = await withFiles()
  const found = await get(id, '/img.png')
  expect(found.body).toBe('x'.repeat(4096))
  expect(found.headers.get('content-length')).toBe('4096')
  expect(found.headers.get('accept-ranges')).toBe('bytes')
  for (const name of ['etag', 'last-modified']) expect(found.headers.get(name)).not.toBe(null)
  expect((await get(id, '/my%20file%20%C3%A9.txt')).body).toBe('spaced\n')
})

mapCase('F16.content-types', 'types follow the extension', async () => {
  const { id } = await withFiles()
  for (const [path, type] of [
    ['style.css', 'text/css; charset=utf-8'],
    ['data.json', 'application/json'],
    ['pic.svg', 'image/svg+xml'],
    ['img.png', 'image/png'],
    ['sub/docs/notes.txt', 'text/plain; charset=utf-8'],
    ['blob.unknown', 'application/octet-stream'],
  ] as const) {
    const found = await get(id, `/${path}`)
    expect(found.type).toBe(type)
    expect(found.headers.get('content-disposition')).toBe(null)
  }
})

mapCase('F16.dir-index', 'directories serve their index; what is missing is 404', async () => {
  const { id } = await withFiles()
  for (const path of ['/sub', '/sub/']) expect((await get(id, path)).body).toContain('map-sub')
  expect(await get(id, '/empty')).toMatchObject({
    status: 404,
    body: { detail: 'No index.html in directory' },
  })
  expect(await get(id, '/nothing.txt')).toMatchObject({ status: 404, body: { detail: 'File not found' } })
})

mapCase('F16.range', 'a range of bytes is 206', async () => {
  const { id } = await withFiles()
  const found = await get(id, '/sub/docs/notes.txt', { headers: { range: 'bytes=0-5' } })
  expect(found).toMatchObject({ status: 206, body: 'map no' })
  expect(found.headers.get('content-range')).toBe('bytes 0-5/16')
})

mapCase('F16.live-content', 'a changed file is served at once with another tag', async () => {
  const { id, folder } = await withFiles()
  const before = (await get(id, '/data.json')).headers.get('etag')
  await writeFile(join(folder, 'data.json'), '{"map":22}\n')
  const found = await get(id, '/data.json')
  expect(found.body).toEqual({ map: 22 })
  expect(found.headers.get('etag')).not.toBe(before)
})

mapCase('F16.traversal-rejected', 'paths that lead out are 400; others are followed', async () => {
  const { id } = await withFiles()
  for (const path of [
    '/%2e%2e/outside.txt',
    '/sub/..%2f..%2foutside.txt',
    '//etc/hostname',
    '/%2Fetc%2Fhostname',
  ]) {
    const found = await getRaw(id, path)
    expect(found.status, path).toBe(400)
    expect(found.body).toContain('Path is outside the workspace')
  }
  expect((await getRaw(id, '/sub/%2e%2e/data.json')).status).toBe(200)
})

mapCase('F16.symlink-escape', 'links that lead out are 400; others are followed', async () => {
  const { id } = await withFiles()
  for (const path of ['/escape.txt', '/escape-dir/hostname']) expect((await get(id, path)).status).toBe(400)
  expect((await get(id, '/inside.json')).status).toBe(200)
})

mapCase('F16.unknown-conversation', '404 with the id, 422, and hexadecimal ids', async () => {
  const { id } = await withFiles()
  for (const path of ['', '/data.json'])
    expect(await get(unknownId, path)).toMatchObject({
      status: 404,
      body: { detail: `Conversation not found: ${unknownId}` },
    })
  expect((await get('no-uuid', '/data.json')).status).toBe(422)
  expect((await get(id.replaceAll('-', ''), '/data.json')).status).toBe(200)
})

mapCase('F16.workspace-dir-missing', 'a workspace that is gone is 404 until it is back', async () => {
  const { id, folder } = await withFiles()
  await rename(folder, `${folder}-away`)
  expect(await get(id, '/data.json')).toMatchObject({
    status: 404,
    body: { detail: 'Workspace directory does not exist' },
  })
  await rename(`${folder}-away`, folder)
  expect((await get(id, '/data.json')).status).toBe(200)
})

mapCase('F16.deleted-conversation', 'a removed conversation is not served; its files stay', async () => {
  const { id, folder } = await withFiles()
  await server.requestOrThrow('DELETE', `/api/conversations/${id}`)
  expect((await get(id, '/data.json')).status).toBe(404)
  expect(await readFile(join(folder, 'data.json'), 'utf8')).toBe('{"map":1}\n')
})

mapCase('F16.worktree-served', 'a worktree is served, not its source', async () => {
  const source = join(server.directory, `source-${crypto.randomUUID()}`)
  const git = `git -C '${source}' -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false`
  await server.runCommand(
    `git init -qb main '${source}' && echo committed > '${source}/a.txt' && ${git} add . && ${git} commit -qm first`,
  )
  await writeFile(join(source, 'a.txt'), 'edited\n')
  const workspace = { working_dir: source }
  const info = await server.createConversation(undefined, { ...plain, workspace, worktree: true })
  expect((await get(info.id, '/a.txt')).body).toBe('committed\n')
  await writeFile(join((info.workspace as { working_dir: string }).working_dir, 'new.txt'), 'new\n')
  expect((await get(info.id, '/new.txt')).body).toBe('new\n')
})

async function cookieOf(on: MapClient = server): Promise<string> {
  const { headers } = await on.request('POST', '/api/auth/workspace-session')
  return headers.getSetCookie()[0]?.split(';')[0] ?? ''
}

mapCase('F16.auth', 'the key or the cookie, and nothing else', async () => {
  const { id } = await withFiles()
  for (const one of [id, unknownId])
    for (const headers of [
      {},
      { 'x-session-api-key': 'wrong' },
      { cookie: 'oh_workspace_session_key=wrong' },
    ])
      expect((await get(one, '/data.json', { isAnonymous: true, headers })).status).toBe(401)
  const headers = { cookie: await cookieOf() }
  expect((await get(id, '/data.json', { isAnonymous: true, headers })).status).toBe(200)
})

mapCase('F16.agent-artifact', 'a page that the agent writes is served', async () => {
  const folder = await mkdtemp(join(server.directory, 'artifact-'))
  const write = { command: 'create', path: join(folder, 'page.html'), file_text: '<p>artifact</p>\n' }
  const model = await server.openModel(toolReply('file_editor', write), finishReply())
  const agent = { kind: 'Agent', llm: model.llm('chat'), tools: [{ name: 'file_editor' }] }
  const { id } = await server.createConversation(model, {
    ...plain,
    agent,
    workspace: { working_dir: folder },
  })
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  await server.sendMessage(id, 'Begin.', true)
  await waitForFrames(socket, (frames) => frames.some(({ kind }) => kind === 'ObservationEvent'))
  await server.waitForStatus(id, 'finished')
  expect(await get(id, '/page.html')).toMatchObject({ status: 200, type: 'text/html; charset=utf-8' })
})

mapCase(
  'F16.restart',
  'the workspace is served after a restart, with a cookie of before',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id } = await withFiles(other)
    const headers = { cookie: await cookieOf(other) }
    await other.restart()
    expect((await get(id, '/data.json', {}, other)).status).toBe(200)
    expect((await get(id, '/data.json', { isAnonymous: true, headers }, other)).status).toBe(200)
  },
  own,
)

const off = { running: false, enabled: false, message: 'VSCode is disabled in configuration' }

mapCase('F16.vscode-disabled', 'an editor that is off says so on four routes', async () => {
  const { id } = await withFiles()
  for (const prefix of ['/api/vscode', `/api/conversations/${id}/vscode`]) {
    expect(await server.requestOrThrow('GET', `${prefix}/status`)).toEqual(off)
    const found = await server.request<Json>('GET', `${prefix}/url`)
    expect(found.status).toBe(503)
    expect(found.body.exception).toContain('VSCode is disabled in configuration')
  }
})

mapCase('F16.vscode-scoped-guards', 'folders outside of the workspace are 422', async () => {
  const { id } = await withFiles()
  expect(await server.requestStatus('GET', '/api/conversations/no-uuid/vscode/url')).toBe(422)
  for (const workspace_dir of ['relative', '/etc'])
    expect(
      await server.request('GET', `/api/conversations/${id}/vscode/url`, { query: { workspace_dir } }),
    ).toMatchObject({
      status: 422,
      body: { detail: 'workspace_dir must be inside the conversation workspace' },
    })
})

mapCase('F16.vscode-auth', 'the routes of the editor need the key, not the cookie', async () => {
  const { id } = await withFiles()
  expect(await server.requestStatus('GET', `/api/conversations/${id}/vscode/status`)).toBe(200)
  const headers = { cookie: await cookieOf() }
  for (const prefix of ['/api/vscode', `/api/conversations/${id}/vscode`])
    for (const route of ['status', 'url'])
      expect(await server.requestStatus('GET', `${prefix}/${route}`, { isAnonymous: true, headers })).toBe(
        401,
      )
})

/** An editor that is on and cannot start, with the variables of other servers. */
const broken = {
  OH_ENABLE_VSCODE: 'true',
  SLIPWAY_LOG_LEVEL: 'warn',
  SLIPWAY_EDITOR_COMMAND: '/nothing/openvscode-server',
  SLIPWAY_EDITOR_PORT: '0',
}
const onlyEnabled = { running: false, enabled: true }

async function expectNoEditor(own: OwnMapServer, client: MapClient = own): Promise<void> {
  await waitFor(
    async () => own.output(),
    (output) => output.includes('the editor could not be started, continuing without it'),
  )
  const { id } = await client.createConversation(undefined, plain)
  for (const prefix of ['/api/vscode', `/api/conversations/${id}/vscode`]) {
    expect(await client.requestOrThrow('GET', `${prefix}/status`)).toEqual(onlyEnabled)
    expect(await client.requestOrThrow('GET', `${prefix}/url`)).toEqual({ url: null })
  }
  expect(await client.requestStatus('GET', '/ready')).toBe(200)
}

/** A server whose editor runs: a program of the test at a free port. */
async function openWithEditor(options: OwnMapServerOptions = {}) {
  const directory = await mkdtemp(join(server.directory, 'editor-'))
  const editor = { SLIPWAY_EDITOR_COMMAND: await writeEditorProgram(directory), SLIPWAY_EDITOR_PORT: '0' }
  const env = { OH_ENABLE_VSCODE: '1', ...editor, ...options.env }
  const other = await OwnMapServer.open({ key: 'map-key-1', ...options, env })
  await waitUntilEdited(other)
  return other
}
const waitUntilEdited = (on: OwnMapServer) =>
  waitFor(
    () => on.requestOrThrow<Json>('GET', '/api/vscode/status'),
    ({ running }) => running === true,
  )
const editorUrl = async (on: MapClient, path = '', query: Readonly<Record<string, string>> = {}) =>
  (await on.requestOrThrow<{ url: string }>('GET', `/api${path}/vscode/url`, { query })).url

/** Opens the address as a browser does; returns what the program says about itself. */
async function openEditor(address: string): Promise<EditorProgramState> {
  const answer = await fetch(address, { redirect: 'manual' })
  expect(answer.status).toBe(302)
  const cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const page = new URL(answer.headers.get('location') ?? '', address)
  expect(await (await fetch(page, { headers: { cookie } })).text()).toBe('<h1>editor</h1>')
  return await (await fetch(new URL('state', page), { headers: { cookie } })).json()
}

mapCase(
  'F16.vscode-enabled-status',
  'an editor that cannot start is enabled and not running',
  async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await once(holder, 'listening')
    const address = holder.address()
    const port = String(typeof address === 'object' ? address?.port : '')
    const { SLIPWAY_EDITOR_PORT: _, ...env } = broken
    const program = await writeEditorProgram(await mkdtemp(join(server.directory, 'editor-')))
    await using other = await OwnMapServer.open({
      isProcess: true,
      key: 'map-key-1',
      env: { ...env, OH_VSCODE_PORT: port, SLIPWAY_EDITOR_COMMAND: program },
    })
    await expectNoEditor(other)
    expect(other.output()).toContain('the port is in use')
    holder.close()
  },
  own,
)

differs(
  'F16.vscode-url-shape',
  'the address of the editor',
  'token in the address of the editor',
  async () => {
    await using other = await openWithEditor({ env: { OH_VSCODE_BASE_PATH: '/map/vscode/' } })
    const { id, folder } = await withFiles(other)
    const global = new URL(await editorUrl(other))
    expect(global.host).toMatch(/^localhost:\d+$/)
    const token = global.searchParams.get('tkn') ?? ''
    expect(token).toMatch(/^[0-9a-f]{64}$/)
    const rest = (at: string) => `/map/vscode/?tkn=${token}&folder=${at}`
    expect(global.href).toBe(`${global.origin}${rest('workspace')}`)
    const elsewhere = { base_url: 'https://map.example:9443/', workspace_dir: '/map/f16' }
    expect(await editorUrl(other, '', elsewhere)).toBe(`https://map.example:9443${rest('/map/f16')}`)
    const scoped = `/conversations/${id}`
    expect(await editorUrl(other, scoped)).toBe(`${global.origin}${rest(folder)}`)
    const sub = { workspace_dir: join(folder, 'sub') }
    expect(await editorUrl(other, scoped, sub)).toBe(`${global.origin}${rest(`${folder}/sub`)}`)
    const outside = { query: { workspace_dir: '/etc' } }
    expect(await other.requestStatus('GET', `/api${scoped}/vscode/url`, outside)).toBe(422)
  },
)

mapCase(
  'F16.vscode-url-not-running',
  'no address while it is not running',
  async () => {
    await using other = await OwnMapServer.open({ key: 'map-key-1', env: broken, isProcess: true })
    await expectNoEditor(other)
  },
  own,
)

mapCase(
  'F16.vscode-url-no-key',
  'no address without a key',
  async () => {
    await using other = await OwnMapServer.open({ env: broken, isProcess: true })
    await expectNoEditor(other)
  },
  own,
)

mapCase(
  'F16.vscode-url-after-init',
  'no address after an init',
  async () => {
    const deferred = { OH_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: 'map-init-key' }
    await using other = await OwnMapServer.open({ env: { ...broken, ...deferred }, isProcess: true })
    const headers = { 'x-init-api-key': 'map-init-key' }
    const body = { session_api_keys: ['map-key-of-init'] }
    expect(await other.request('POST', '/api/init', { body, headers })).toMatchObject({
      status: 200,
      body: { state: 'ready' },
    })
    expect(await other.requestStatus('GET', '/api/vscode/url')).toBe(401)
    const client = new MapClient(other.url, 'map-key-of-init')
    client.directory = other.directory
    await expectNoEditor(other, client)
  },
  own,
)

mapCase(
  'F16.vscode-folder-encoding',
  'the folder in the address is encoded',
  async () => {
    await using other = await openWithEditor()
    const folder = join(other.directory, 'map f16&x=1#frag')
    await mkdir(folder)
    const { id } = await other.createConversation(undefined, {
      ...plain,
      workspace: { working_dir: folder },
    })
    const { searchParams, hash } = new URL(await editorUrl(other, `/conversations/${id}`))
    expect([searchParams.getAll('folder'), hash]).toEqual([[folder], ''])
    expect([...searchParams.keys()]).toEqual(['tkn', 'folder'])
  },
  own,
)

mapCase(
  'F16.vscode-running',
  'the address opens the editor',
  async () => {
    await using other = await openWithEditor({ isProcess: true })
    expect(await other.requestOrThrow('GET', '/api/vscode/status')).toEqual({ running: true, enabled: true })
    const { id, folder } = await withFiles(other)
    const address = await editorUrl(other, `/conversations/${id}`)
    expect(address).toContain(`folder=${folder}`)
    expect((await fetch(new URL('/', address))).status).toBe(401)
    const first = await openEditor(address)
    // It has the environment of tools, without the key of the server.
    expect(JSON.stringify([first.args, first.env])).not.toContain('map-key-1')
    // A killed server's editor ends when the next one starts, and a stopped server's with it.
    await other.restart('SIGKILL')
    await waitUntilEdited(other)
    for (const pid of [first.pid, first.child]) await waitForEnd(pid)
    const second = await openEditor(await editorUrl(other))
    await other.stop()
    for (const pid of [second.pid, second.child]) expect(await isAlive(pid)).toBe(false)
  },
  own,
)

const waitForEnd = (pid: number) =>
  waitFor(
    () => isAlive(pid),
    (alive) => !alive,
  )

notApplicable(
  'F16.docker-root-cookie',
  'the cookie opens the root in the mode of containers',
  'containers are the work of the sandbox server, not of the agent server',
)

endFamily('F16', 26)
