import { expect } from 'vitest'
import { finishStep, scriptedModel } from '../support/agent-driver.ts'
import { openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()

async function download(path: string) {
  const query = new URLSearchParams({ path })
  const response = await fetch(`${wire.url}/api/file/download?${query}`, { headers: wire.headers })
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    bytes: Buffer.from(await response.arrayBuffer()),
  }
}

wireCase('POST /api/file/upload', 'stores byte for byte, creates folders, and replaces files', async () => {
  const bytes = Uint8Array.from({ length: 300_000 }, (_, n) => (n * 7919) % 256)
  const path = `${wire.directory}/deep/er/ö b.bin`
  expect(await wire.upload(path, bytes)).toMatchObject({ status: 200, body: { success: true } })
  expect((await download(path)).bytes.equals(bytes)).toBe(true)
  await wire.upload(path, '')
  expect((await download(path)).bytes).toHaveLength(0)
})

wireCase(
  'POST /api/file/upload',
  'refuses a relative path with 400, and a form without its file with 422',
  async () => {
    expect((await wire.upload('relative.txt', 'x')).status).toBe(400)
    expect((await wire.upload(wire.directory, 'x')).status).toBe(400)
    const body = new FormData()
    body.append('other', new Blob(['x']))
    const status = await wire.requestStatus('POST', '/api/file/upload', {
      query: { path: `${wire.directory}/n` },
      body,
    })
    expect([400, 422]).toContain(status)
  },
)

wireCase('GET /api/file/download', 'is octet-stream for any name, so that JSON stays bytes', async () => {
  await wire.upload(`${wire.directory}/data.json`, '{ "a" : 1 }')
  expect(await download(`${wire.directory}/data.json`)).toMatchObject({
    status: 200,
    type: 'application/octet-stream',
  })
  expect((await download(`${wire.directory}/data.json`)).bytes.toString()).toBe('{ "a" : 1 }')
})

wireCase(
  'GET /api/file/download',
  'is 404 for what is missing, 400 for a folder and a relative path',
  async () => {
    expect((await download(`${wire.directory}/missing`)).status).toBe(404)
    expect((await download(wire.directory)).status).toBe(400)
    expect((await download('relative')).status).toBe(400)
  },
)

wireCase(
  'POST /api/file/create_directory',
  'creates it with parents, may be repeated, on both routes, by query and by body',
  async () => {
    for (const [n, mount] of ['/api/file/create_directory', '/file/create_directory'].entries()) {
      const byQuery = `${wire.directory}/made${n}/a/b`
      for (let times = 0; times < 2; times += 1)
        expect(await wire.requestStatus('POST', mount, { query: { path: byQuery } })).toBe(200)
      const byBody = `${wire.directory}/made${n}/c`
      expect(await wire.requestStatus('POST', mount, { body: { path: byBody } })).toBe(200)
      expect(await wire.runCommand(`cd '${wire.directory}/made${n}' && find . -type d | sort`)).toBe(
        '.\n./a\n./a/b\n./c\n',
      )
      await wire.upload(`${wire.directory}/file${n}`, 'x')
      expect(await wire.requestStatus('POST', mount, { query: { path: `${wire.directory}/file${n}` } })).toBe(
        400,
      )
      expect(await wire.requestStatus('POST', mount, { query: { path: 'relative' } })).toBe(400)
    }
  },
)

wireCase('GET /api/file/home', 'returns an absolute home directory, favourites and locations', async () => {
  const body = await wire.requestOrThrow<{ home: string; favorites: object[]; locations: object[] }>(
    'GET',
    '/api/file/home',
  )
  expect(body.home).toMatch(/^\//)
  for (const each of [...body.favorites, ...body.locations])
    expect(each).toEqual({ label: expect.any(String), path: expect.stringMatching(/^\//) })
})

wireCase(
  'GET /api/file/search_subdirs',
  'lists folders in pages, ignoring case, hidden ones on request',
  async () => {
    const path = `${wire.directory}/listed`
    await wire.runCommand(`mkdir -p '${path}'/{b,A,c,.hidden} && touch '${path}/file'`)
    const list = (query: Record<string, string>) =>
      wire.requestOrThrow<{ items: { name: string; path: string }[]; next_page_id: string | null }>(
        'GET',
        '/api/file/search_subdirs',
        { query: { path, ...query } },
      )
    expect((await list({})).items).toEqual(['A', 'b', 'c'].map((name) => ({ name, path: `${path}/${name}` })))
    expect((await list({ include_hidden: 'true' })).items.map(({ name }) => name)).toContain('.hidden')
    const first = await list({ limit: '2' })
    expect(first.items.map(({ name }) => name)).toEqual(['A', 'b'])
    const second = await list({ limit: '2', page_id: String(first.next_page_id) })
    expect([second.items.map(({ name }) => name), second.next_page_id]).toEqual([['c'], null])
    const bad = async (query: Record<string, string>) =>
      await wire.requestStatus('GET', '/api/file/search_subdirs', { query })
    expect([await bad({ path: `${path}/none` }), await bad({ path: 'relative' })]).toEqual([404, 400])
    expect(await bad({ path, limit: '101' })).toBe(422)
  },
)

wireCase(
  'GET /api/file/download-trajectory/{id}',
  'is a zip of the conversation without its secrets',
  async () => {
    const { id } = await wire.driver.create(
      { llm: { ...scriptedModel([finishStep('Zipped.')]), api_key: 'zip-canary-key' } },
      {
        initial_message: { content: [{ type: 'text', text: 'Go.' }] },
        secrets: { TOKEN: 'zip-canary-value' },
      },
    )
    await wire.driver.waitUntilIdle(id)
    const response = await fetch(`${wire.url}/api/file/download-trajectory/${id}`, { headers: wire.headers })
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      expect.stringMatching(/zip|octet-stream/),
    ])
    const bytes = Buffer.from(await response.arrayBuffer())
    expect(bytes.subarray(0, 2).toString()).toBe('PK')
    const name = `${wire.directory}/trajectory.zip`
    await wire.upload(name, Uint8Array.from(bytes))
    const python = `import zipfile;z=zipfile.ZipFile('${name}');assert z.testzip() is None;print(b''.join(z.read(n) for n in z.namelist()).decode())`
    const text = await wire.runCommand(`python3 -c "${python}"`)
    expect(text).toContain('Zipped.')
    expect(text).not.toContain('zip-canary')
    expect(await wire.requestStatus('GET', `/api/file/download-trajectory/${unknownId}`)).toBe(404)
  },
)
