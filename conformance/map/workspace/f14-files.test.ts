import { access, mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { endFamily, mapCase } from '../frame.ts'
import { type Json, type MapClient, OwnMapServer, openMapServer, unknownId } from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }

const folderOf = (name: string) => mkdtemp(join(server.directory, `${name}-`))
const get = (route: string, query: Record<string, string> | string = {}) =>
  server.request<Json>('GET', `/api/file/${route}`, { query })
const makeDirectory = (path: string) =>
  server.request<Json>('POST', '/api/file/create_directory', { query: { path } })
const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

/** The bytes and headers of an answer. */
async function getBytes(path: string, query: Record<string, string> | string) {
  const response = await fetch(`${server.url}${path}?${new URLSearchParams(query)}`, {
    headers: server.headers,
  })
  return {
    status: response.status,
    headers: response.headers,
    bytes: Buffer.from(await response.arrayBuffer()),
  }
}

mapCase('F14.auth', 'the routes need a key and write nothing', async () => {
  const folder = await folderOf('auth')
  for (const [method, path] of [
    ['GET', '/api/file/home'],
    ['GET', `/api/file/search_subdirs?path=${folder}`],
    ['POST', `/api/file/upload?path=${folder}/x`],
    ['GET', `/api/file/download?path=${folder}/x`],
    ['POST', `/api/file/create_directory?path=${folder}/x`],
    ['GET', `/api/file/archive?path=${folder}`],
    ['GET', `/api/file/download-trajectory/${unknownId}`],
  ] as const)
    expect(await server.requestStatus(method, path, { isAnonymous: true }), path).toBe(401)
  expect(await exists(join(folder, 'x'))).toBe(false)
})

mapCase('F14.upload-download', 'bytes come back as an attachment; a second upload replaces', async () => {
  const path = join(await folderOf('xfer'), 'a/b/blob.bin')
  const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, n) => (n * 7919) % 256))
  expect(await server.upload(path, new Uint8Array(bytes))).toMatchObject({
    status: 200,
    body: { success: true },
  })
  const found = await getBytes('/api/file/download', { path })
  expect(found.bytes.equals(bytes)).toBe(true)
  expect(found.headers.get('content-disposition')).toBe('attachment; filename="blob.bin"')
  expect(found.headers.get('content-type')).toBe('application/octet-stream')
  await server.upload(path, 'second')
  expect(String((await getBytes('/api/file/download', { path })).bytes)).toBe('second')
})

mapCase('F14.upload-errors', 'a missing part or path is 422, a relative path 400', async () => {
  const path = join(await folderOf('xfer'), 'x.txt')
  const form = new FormData()
  form.append('other', new Blob(['x']), 'x')
  const found = await server.request<{ detail: { loc: string[] }[] }>('POST', '/api/file/upload', {
    query: { path },
    body: form,
  })
  expect(found.status).toBe(422)
  expect(found.body.detail[0]?.loc).toContain('file')
  expect(await server.requestStatus('POST', '/api/file/upload', { query: { path } })).toBe(422)
  const file = new FormData()
  file.append('file', new Blob(['x']), 'x')
  expect(await server.requestStatus('POST', '/api/file/upload', { body: file })).toBe(422)
  expect(await server.upload('relative.txt', 'x')).toMatchObject({
    status: 400,
    body: { detail: 'Path must be absolute' },
  })
})

mapCase(
  'F14.upload-onto-directory',
  'an upload onto a folder or below a file is a client error',
  async () => {
    const folder = await folderOf('onto')
    await writeFile(join(folder, 'file'), 'x')
    for (const path of [folder, join(folder, 'file/below')])
      expect(Math.floor((await server.upload(path, 'y')).status / 100)).toBe(4)
    expect(await readFile(join(folder, 'file'), 'utf8')).toBe('x')
  },
)

mapCase('F14.upload-size', 'an upload answers its size', async () => {
  const path = join(await folderOf('size'), 'x.txt')
  expect((await server.upload(path, 'seven b')).body).toMatchObject({ success: true, file_size: 7 })
})

mapCase('F14.upload-atomic', 'an upload that fails leaves the former file', async () => {
  const folder = await folderOf('atomic')
  const path = join(folder, 'kept.txt')
  await server.upload(path, 'former')
  const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n'
  const upload = request(`${server.url}/api/file/upload?path=${encodeURIComponent(path)}`, {
    method: 'POST',
    headers: {
      ...server.headers,
      'content-type': 'multipart/form-data; boundary=b',
      'content-length': 10_000_000,
    },
  })
  upload.on('error', () => {})
  upload.write(head + 'x'.repeat(3_000_000))
  await sleep(300)
  expect(await readFile(path, 'utf8')).toBe('former')
  upload.destroy()
  await sleep(300)
  expect(await readFile(path, 'utf8')).toBe('former')
  expect(await readdir(folder)).toEqual(['kept.txt'])
})

mapCase('F14.download-errors', 'missing files, folders and relative paths', async () => {
  const folder = await folderOf('errors')
  for (const [path, status, detail] of [
    [join(folder, 'missing'), 404, 'File not found'],
    [folder, 400, 'Path is not a file'],
    ['relative', 400, 'Path must be absolute'],
  ] as const)
    expect(await get('download', { path })).toMatchObject({ status, body: { detail } })
})

mapCase('F14.mkdir', 'parents are made, twice is the same, files are in the way', async () => {
  const folder = await folderOf('mkdir')
  const path = join(folder, 'a/b')
  for (const _ of [1, 2]) expect((await makeDirectory(path)).status).toBe(200)
  expect(JSON.stringify((await get('search_subdirs', { path: folder })).body)).toContain(join(folder, 'a'))
  await writeFile(join(folder, 'file'), 'x')
  for (const blocked of [join(folder, 'file'), join(folder, 'file/below')])
    expect(await makeDirectory(blocked)).toMatchObject({
      status: 400,
      body: { detail: 'Path exists and is not a directory' },
    })
})

mapCase(
  'F14.home',
  'the home with its folders, sorted, without links and files',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    for (const name of ['beta', 'Alpha', '.hidden']) await mkdir(join(own.home, name))
    await writeFile(join(own.home, 'file'), 'x')
    await symlink(join(own.home, 'beta'), join(own.home, 'link'))
    const home = (query: Record<string, string>) =>
      own.requestOrThrow<{ home: string; favorites: Json[]; locations: Json[] }>('GET', '/api/file/home', {
        query,
      })
    const found = await home({})
    expect(found.home).toBe(own.home)
    expect(found.favorites.map(({ path }) => path)).toEqual([join(own.home, 'Alpha'), join(own.home, 'beta')])
    expect(found.locations).toEqual([{ label: '/', path: '/' }])
    const hidden = await home({ include_hidden: 'true' })
    expect(hidden.favorites.map(({ path }) => path)).toContain(join(own.home, '.hidden'))
  },
  { hasOwnServer: true },
)

const subdirs = async (path: string, query: Record<string, string> = {}) =>
  await server.requestOrThrow<{ items: Json[]; next_page_id: string | null }>(
    'GET',
    '/api/file/search_subdirs',
    {
      query: { path, ...query },
    },
  )

mapCase('F14.subdirs', 'real folders only, sorted without case', async () => {
  const folder = await folderOf('subdirs')
  for (const name of ['beta', 'Alpha', '.hidden', 'gamma/deep'])
    await mkdir(join(folder, name), { recursive: true })
  await writeFile(join(folder, 'file'), 'x')
  await symlink(join(folder, 'beta'), join(folder, 'link'))
  const names = async (query: Record<string, string> = {}) =>
    (await subdirs(folder, query)).items.map(({ path }) => String(path).slice(folder.length + 1))
  expect(await names()).toEqual(['Alpha', 'beta', 'gamma'])
  expect(await names({ include_hidden: 'true' })).toEqual(['.hidden', 'Alpha', 'beta', 'gamma'])
})

async function walk(path: string): Promise<unknown[]> {
  const found: unknown[] = []
  for (let page_id: string | null = ''; page_id !== null && found.length < 20; ) {
    const page: Awaited<ReturnType<typeof subdirs>> = await subdirs(path, {
      limit: '1',
      ...(page_id === '' ? {} : { page_id }),
    })
    found.push(...page.items.map((item) => item.path))
    page_id = page.next_page_id
  }
  return found
}

mapCase('F14.subdirs-pagination', 'pages of folders; limits', async () => {
  const folder = await folderOf('pages')
  for (const name of ['a', 'b', 'c']) await mkdir(join(folder, name))
  expect(await walk(folder)).toEqual(['a', 'b', 'c'].map((name) => join(folder, name)))
  for (const limit of ['0', '101'])
    expect((await get('search_subdirs', { path: folder, limit })).status).toBe(422)
})

mapCase('F14.subdirs-errors', 'missing folders, files and relative paths', async () => {
  const folder = await folderOf('errors')
  await writeFile(join(folder, 'file'), 'x')
  for (const [path, status] of [
    [join(folder, 'missing'), 404],
    [join(folder, 'file'), 400],
    ['relative', 400],
  ] as const)
    expect((await get('search_subdirs', { path })).status).toBe(status)
})

mapCase('F14.subdirs-case-pagination', 'names that differ by case only are both reached', async () => {
  const folder = await folderOf('case')
  for (const name of ['Foo', 'foo', 'zoo']) await mkdir(join(folder, name))
  expect((await walk(folder)).sort()).toEqual(['Foo', 'foo', 'zoo'].map((name) => join(folder, name)))
})

const git = (folder: string, ...commands: string[]) =>
  server.runCommand(
    commands
      .map(
        (command) =>
          `git -C '${folder}' -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false ${command}`,
      )
      .join(' && '),
  )

/** A folder with a repository: one commit, a change, an untracked file and modules. */
async function makeRepository(): Promise<{ parent: string; folder: string }> {
  const parent = await folderOf('archive')
  const folder = join(parent, 'project')
  await mkdir(join(folder, 'node_modules/pkg'), { recursive: true })
  await writeFile(join(folder, 'node_modules/pkg/j.js'), 'j\n')
  await writeFile(join(folder, '.gitignore'), 'node_modules/\n')
  await writeFile(join(folder, 'a.txt'), 'one\n')
  await git(folder, 'init -qb main', 'add .', 'commit -qm first')
  await writeFile(join(folder, 'a.txt'), 'two\n')
  await writeFile(join(folder, 'new.txt'), 'new\n')
  await writeFile(join(folder, 'x.log'), 'log\n')
  return { parent, folder }
}

const archive = (query: Record<string, string> | string) => getBytes('/api/file/archive', query)

/** The entries of a packed folder, and its manifest. */
async function unpack(bytes: Buffer, parent: string): Promise<{ entries: string[]; manifest: Json }> {
  const file = join(parent, `${crypto.randomUUID()}.tar.gz`)
  await writeFile(file, bytes)
  const entries = (await server.runCommand(`tar tzf '${file}'`)).trim().split('\n')
  const manifest = await server.runCommand(`tar xzOf '${file}' project/archive_manifest.json`)
  return { entries, manifest: JSON.parse(manifest) }
}

mapCase('F14.archive-tar', 'a packed folder with a manifest, without git and modules', async () => {
  const { parent, folder } = await makeRepository()
  await symlink('a.txt', join(folder, 'link'))
  const { status, headers, bytes } = await archive({ path: folder, format: 'tar.gz' })
  expect(status).toBe(200)
  expect(headers.get('content-type')).toBe('application/gzip')
  expect(headers.get('content-disposition')).toContain('project.tar.gz')
  expect(headers.get('x-archive-branch')).toBe('main')
  expect(headers.get('x-archive-head-commit')).toMatch(/^[0-9a-f]{40}$/)
  expect(headers.get('x-archive-base-commit')).toBe(null)
  const { entries, manifest } = await unpack(bytes, parent)
  expect(entries).toEqual(expect.arrayContaining(['project/a.txt', 'project/new.txt']))
  expect(entries.filter((entry) => /\.git\/|node_modules|link/.test(entry))).toEqual([])
  expect(manifest).toMatchObject({ format: 'tar.gz', source: 'project', file_count: 4 })
})

mapCase('F14.archive-excludes', 'own patterns, with or without the usual ones', async () => {
  const { parent, folder } = await makeRepository()
  const query = `path=${folder}&format=tar.gz&use_default_excludes=false&exclude=*.log`
  const { entries, manifest } = await unpack((await archive(query)).bytes, parent)
  expect(entries).toEqual(expect.arrayContaining(['project/node_modules/pkg/j.js', 'project/.git/HEAD']))
  expect(entries.filter((entry) => /\.git\/(config$|logs\/)|x\.log/.test(entry))).toEqual([])
  expect(manifest.excludes).toEqual(['*.log'])
})

mapCase('F14.archive-git-delta', 'a patch that applies to its base', async () => {
  const { parent, folder } = await makeRepository()
  const { status, headers, bytes } = await archive({ path: folder, base_ref: 'HEAD' })
  expect(status).toBe(200)
  expect(headers.get('content-type')).toMatch(/^text\/x-patch/)
  expect(headers.get('x-archive-base-ref')).toBe('HEAD')
  expect(headers.get('x-archive-base-commit')).toMatch(/^[0-9a-f]{40}$/)
  await writeFile(join(parent, 'delta.patch'), bytes)
  await git(parent, `clone -q '${folder}' clone`)
  await git(join(parent, 'clone'), `apply '${join(parent, 'delta.patch')}'`)
  expect(await readFile(join(parent, 'clone/a.txt'), 'utf8')).toBe('two\n')
  expect(await readFile(join(parent, 'clone/new.txt'), 'utf8')).toBe('new\n')
  expect(await git(folder, 'diff --cached --name-only')).toBe('')
  const whole = await archive({ path: folder })
  expect(whole.headers.get('x-archive-base-commit')).toBe(null)
  expect(String(whole.bytes)).toContain('new file')
})

mapCase('F14.archive-auto-base', 'a clone is compared with its origin', async () => {
  const { parent, folder } = await makeRepository()
  await git(parent, `clone -q '${folder}' clone`)
  const clone = join(parent, 'clone')
  await writeFile(join(clone, 'local.txt'), 'local\n')
  await git(clone, 'add .', 'commit -qm local')
  const { headers, bytes } = await archive({ path: clone })
  expect(headers.get('x-archive-base-ref')).toBe('auto')
  expect(headers.get('x-archive-base-commit')).toBe((await git(folder, 'rev-parse HEAD')).trim())
  expect(headers.get('x-archive-repo-remote')).not.toBe(null)
  expect(String(bytes)).toContain('local.txt')
})

mapCase('F14.archive-nested-repo', 'the only repository of a folder is packed', async () => {
  const { parent, folder } = await makeRepository()
  const { headers } = await archive({ path: parent, format: 'tar.gz' })
  expect(headers.get('content-disposition')).toContain('project.tar.gz')
  await git(parent, `clone -q '${folder}' second`)
  expect((await archive({ path: parent })).status).toBe(400)
  expect((await archive({ path: parent, format: 'tar.gz' })).status).toBe(200)
})

mapCase('F14.archive-format-doc', 'the document says what is packed', async () => {
  const { paths } = await server.requestOrThrow<{ paths: Record<string, { get: { parameters: Json[] } }> }>(
    'GET',
    '/openapi.json',
  )
  const format = paths['/api/file/archive']?.get.parameters.find(({ name }) => name === 'format')
  expect(JSON.stringify(format)).toMatch(/repositor/i)
})

mapCase('F14.archive-errors', 'each error has its status', async () => {
  const { folder } = await makeRepository()
  const bare = await folderOf('bare')
  for (const [query, status] of [
    [{ path: 'relative' }, 400],
    [{ path: join(folder, 'missing') }, 404],
    [{ path: join(folder, 'a.txt') }, 400],
    [{ path: folder, base_ref: '--output=x' }, 400],
    [{ path: folder, base_ref: 'unknown' }, 400],
    [{ path: folder, format: 'zip' }, 422],
    [{ path: bare }, 400],
  ] as const)
    expect((await archive(query as unknown as Record<string, string>)).status, JSON.stringify(query)).toBe(
      status,
    )
})

/** The entries of a packed conversation. */
async function trajectory(id: string, folder: string): Promise<{ entries: string[]; text: string }> {
  const { status, headers, bytes } = await getBytes(`/api/file/download-trajectory/${id}`, {})
  expect(status).toBe(200)
  expect(headers.get('content-disposition')).toContain(`${id.replaceAll('-', '')}.zip`)
  const file = join(folder, `${crypto.randomUUID()}.zip`)
  await writeFile(file, bytes)
  const python = (code: string) =>
    server.runCommand(`python3 -c "import zipfile; z = zipfile.ZipFile('${file}'); ${code}"`)
  const entries = (await python("print('\\n'.join(z.namelist()))")).trim().split('\n')
  return { entries, text: await python("print(''.join(z.read(n).decode() for n in z.namelist()))") }
}

async function withMessage(on: MapClient = server): Promise<string> {
  const { id } = await on.createConversation(undefined, plain)
  await on.sendMessage(id, 'FIRST hello')
  return id
}

mapCase('F14.trajectory', 'a packed conversation has every event and no key', async () => {
  const id = await withMessage()
  const folder = await folderOf('trajectory')
  const { entries, text } = await trajectory(id, folder)
  const hex = id.replaceAll('-', '')
  expect(entries).toEqual(expect.arrayContaining([`${hex}/meta.json`, `${hex}/base_state.json`]))
  const events = entries.filter((entry) => entry.startsWith(`${hex}/events/event-`))
  expect(events).toHaveLength((await server.getEvents(id)).length)
  expect(text).toContain('**********')
  expect(text).not.toMatch(/sk-far|gAAAAA/)
  expect((await getBytes(`/api/file/download-trajectory/${hex}`, {})).status).toBe(200)
})

mapCase('F14.trajectory-errors', 'unknown ids are 404, malformed ones 422', async () => {
  expect(await get(`download-trajectory/${unknownId}`)).toMatchObject({
    status: 404,
    body: { detail: 'Conversation not found' },
  })
  expect((await get('download-trajectory/no-uuid')).status).toBe(422)
})

mapCase(
  'F14.trajectory-concurrent',
  'parallel downloads are whole',
  async () => {
    const id = await withMessage()
    const all = await Promise.all(
      Array.from({ length: 6 }, () => getBytes(`/api/file/download-trajectory/${id}`, {})),
    )
    for (const { status, bytes } of all) {
      expect(status).toBe(200)
      expect(bytes.subarray(0, 2).toString()).toBe('PK')
      expect(bytes.includes(Buffer.from([0x50, 0x4b, 0x05, 0x06]))).toBe(true)
    }
  },
  { faultThere: 'some are damaged' },
)

mapCase(
  'F14.trajectory-init-path',
  'conversations below a delivered path can be downloaded',
  async () => {
    const env = { SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: 'init-key-of-the-pool' }
    await using own = await OwnMapServer.open({ key: undefined, env })
    const body = { conversations_path: join(own.directory, 'delivered') }
    const headers = { 'x-init-api-key': 'init-key-of-the-pool' }
    expect((await own.request('POST', '/api/init', { body, headers })).status).toBe(200)
    const id = await withMessage(own)
    expect(await exists(body.conversations_path)).toBe(true)
    expect(await own.requestStatus('GET', `/api/file/download-trajectory/${id}`)).toBe(200)
  },
  { hasOwnServer: true },
)

mapCase('F14.scoped-transfer', 'files of a conversation by its own routes', async () => {
  const id = await withMessage()
  const path = join(server.directory, `${crypto.randomUUID()}.txt`)
  const body = new FormData()
  body.append('file', new Blob(['scoped']), 'x')
  const prefix = `/api/conversations/${id}/file`
  expect(await server.requestStatus('POST', `${prefix}/upload`, { query: { path }, body })).toBe(200)
  expect(String((await getBytes(`${prefix}/download`, { path })).bytes)).toBe('scoped')
})

mapCase('F14.scoped-path-guard', 'paths outside of the workspace are 422', async () => {
  const prefix = `/api/conversations/${await withMessage()}/file`
  for (const path of [
    '/etc/hostname',
    `${server.directory}/../x`,
    `${server.directory}-sibling/x`,
    'relative',
  ])
    expect(await server.requestStatus('GET', `${prefix}/download`, { query: { path } })).toBe(422)
})

mapCase('F14.scoped-conversation-errors', 'unknown conversations are 404 with the id', async () => {
  const path = `/api/conversations/${unknownId}/file/create_directory`
  expect(await server.request('POST', path, { query: { path: join(server.directory, 'x') } })).toMatchObject({
    status: 404,
    body: { detail: `Conversation not found: ${unknownId}` },
  })
})

mapCase('F14.scoped-trajectory-archive', 'only its own trajectory', async () => {
  const id = await withMessage()
  const path = `/api/conversations/${id}/file/download-trajectory/${unknownId}`
  expect(await server.requestStatus('GET', path)).toBe(422)
})

mapCase(
  'F14.restart',
  'files and trajectories are served after a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    const id = await withMessage(own)
    const path = join(own.directory, 'kept.txt')
    const body = new FormData()
    body.append('file', new Blob(['kept']), 'x')
    const prefix = `/api/conversations/${id}/file`
    expect(await own.requestStatus('POST', `${prefix}/upload`, { query: { path }, body })).toBe(200)
    await own.restart()
    for (const route of [`${prefix}/download`, '/api/file/download'])
      expect((await own.request('GET', route, { query: { path } })).body).toBe('kept')
    for (const route of [`${prefix}/download-trajectory/${id}`, `/api/file/download-trajectory/${id}`])
      expect(await own.requestStatus('GET', route)).toBe(200)
  },
  { hasOwnServer: true },
)

// One more case of this family is in `clients/python-sdk-elsewhere.ts`.
endFamily('F14', 29)
