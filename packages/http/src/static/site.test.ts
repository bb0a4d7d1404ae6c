import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { Secret } from '@slipway/shared/redaction'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { TestServer } from '../testing/test-server.ts'
import { Site } from './site.ts'

const html = '<!doctype html><html><head lang="en"><title>An app</title></head><body></body></html>'
const script = '<script>window.x=1</script>'
const page = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

async function createDirectory(files: Record<string, string | Buffer>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-site-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(directory, name, '..'), { recursive: true })
    await writeFile(join(directory, name), content)
  }
  return directory
}

const files = {
  'secret.txt': 'outside',
  'app/build/index.html': html,
  'app/build/assets/main-D_2gnSyB.js': 'export {}',
  'app/build/assets/plain.js': '// plain',
  'app/build/locales/en.json': '{"a":1}',
  'app/build/ümläut & more.svg': '<svg/>',
  'app/build/.env': 'hidden',
  'app/build/.well-known/app.txt': 'shown',
}

const routes = {
  thing: { method: 'GET', path: '/api/thing', tag: 'x', summary: 'x', responses: {} },
  up: { method: 'GET', path: '/up', tag: 'x', summary: 'x', open: true, responses: {} },
} as const

async function startServer({ keys = [] as readonly Secret[], head = script } = {}) {
  const directory = await createDirectory(files)
  await symlink(join(directory, 'secret.txt'), join(directory, 'app/build/link.txt'))
  await symlink('/etc', join(directory, 'app/build/etc'))
  const site = await Site.open(join(directory, 'app'), { head: () => head })
  const handlers = { thing: () => ({ json: { thing: true } }), up: () => ({ json: { up: true } }) }
  const sockets = [{ path: '/sockets/x', accepts: () => true, serve: async () => {} }]
  const made = await TestServer.start(routes, handlers, { site, keys, sockets })
  onTestFinished(() => made[Symbol.asyncDispose]())
  return { made, directory }
}

test('files have their types, and assets with a digest in their names are immutable', async () => {
  const { made } = await startServer()
  const cached = await made.call('/assets/main-D_2gnSyB.js')
  expect(cached.text).toBe('export {}')
  expect(cached.headers).toMatchObject({
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
    'content-length': '9',
    'x-content-type-options': 'nosniff',
  })
  const plain = await made.call('/assets/plain.js')
  expect(plain.headers['cache-control']).toBe('no-cache')
  expect((await made.call('/locales/en.json?v=2')).headers['content-type']).toBe('application/json')
  const named = await made.call(`/${encodeURIComponent('ümläut & more.svg')}`)
  expect([named.text, named.headers['content-type']]).toEqual(['<svg/>', 'image/svg+xml'])
  expect((await made.call('/.well-known/app.txt')).text).toBe('shown')
})

test('every other address that a browser requests as a page is the page, with the inserted head first', async () => {
  const { made } = await startServer()
  for (const path of ['/', '/index.html', '/conversations/1?x=%2F', '/settings/llm', '/missing.js']) {
    const answer = await made.call(path, { headers: page })
    expect([path, answer.status, answer.text]).toEqual([
      path,
      200,
      html.replace('<title>', `${script}<title>`),
    ])
    expect(answer.headers['content-security-policy']).toBe("frame-ancestors 'self'")
    const { etag = '' } = answer.headers
    const again = await made.call(path, { headers: { ...page, 'if-none-match': etag } })
    expect([again.status, again.text]).toEqual([304, ''])
  }
  const head = await made.call('/settings', { method: 'HEAD', headers: page })
  expect([head.status, head.text]).toEqual([200, ''])
})

test('other requests to unknown addresses are 404 or 405', async () => {
  const { made } = await startServer()
  expect((await made.call('/missing.js')).status).toBe(404)
  expect((await made.call('/settings', { method: 'POST', headers: page })).status).toBe(404)
  expect((await made.call('/assets')).status).toBe(404)
})

test('unknown paths below reserved segments are 404 for pages too', async () => {
  const { made } = await startServer()
  const paths = ['/api/other', '/%61pi/other', '//api/other', '/sockets/y', '/docs-not/../api/x', '/up/x']
  for (const path of paths) {
    const answer = await made.call(path, { headers: page })
    if (path.includes('..')) expect(answer.text).not.toContain('thing')
    else expect([path, answer.status, answer.text]).toEqual([path, 404, '{"detail":"Not Found"}'])
  }
  expect((await made.call('/api/thing', { headers: page })).text).toBe('{"thing":true}')
})

test('with keys, only the site is open', async () => {
  const { made } = await startServer({ keys: [new Secret('a-key-of-some-length')] })
  expect((await made.call('/', { headers: page })).status).toBe(200)
  expect((await made.call('/assets/plain.js')).status).toBe(200)
  expect((await made.call('/missing.js')).status).toBe(404)
  expect((await made.call('/api/thing', { headers: page })).status).toBe(401)
  expect((await made.call('/api/other', { headers: page })).status).toBe(401)
})

test('foreign hosts and origins are refused', async () => {
  const { made } = await startServer()
  const foreign = await made.call('/', { headers: { ...page, host: 'rebound.example' } })
  expect(foreign.status).toBe(403)
  const embedded = await made.call('/assets/plain.js', {
    headers: { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
  })
  expect(embedded.status).toBe(403)
})

test('no address leads out of the directory or to a hidden file', async () => {
  const { made } = await startServer()
  const paths = [
    '/link.txt',
    '/etc/hostname',
    '/etc/passwd',
    '/../secret.txt',
    '/../../secret.txt',
    '/%2e%2e/%2e%2e/secret.txt',
    '/..%2f..%2fsecret.txt',
    '/assets/..%2f..%2f..%2fsecret.txt',
    '/.env',
    '/%2eenv',
    '/assets/../.env',
    '/locales%00/en.json',
    '/..%5c..%5csecret.txt',
  ]
  for (const path of paths) {
    const { status, text } = await made.call(path)
    expect([path, status, text]).toEqual([path, 404, '{"detail":"Not Found"}'])
  }
})

test('arbitrary addresses get nothing but files of the directory', async () => {
  const { made } = await startServer()
  const piece = fc.constantFrom(
    '..',
    '.',
    '',
    'assets',
    'link.txt',
    'etc',
    'passwd',
    'secret.txt',
    '%2e%2e',
    '%2f',
    '%00',
    '%',
    '~',
    'build',
    'app',
    '.env',
    '%c0%ae',
  )
  const known = new Set([html.replace('<title>', `${script}<title>`), ...Object.values(files)])
  known.delete('outside')
  known.delete('hidden')
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 7 }), fc.boolean(), async (pieces, isPage) => {
      const { status, text } = await made.call(`/${pieces.join('/')}`, isPage ? { headers: page } : {})
      expect([200, 400, 404]).toContain(status)
      if (status === 200) expect(known).toContain(text)
    }),
    { numRuns: 150 },
  )
}, 120_000)

test('a precompressed file is sent to clients that accept it', async () => {
  const long = 'x'.repeat(5_000)
  const directory = await createDirectory({
    'index.html': html,
    'a.js': long,
    'a.js.br': brotliCompressSync(long),
    'a.js.gz': gzipSync(long),
    'b.js': long,
    'b.js.gz': gzipSync(long),
  })
  const made = await TestServer.start({}, {}, { site: await Site.open(directory) })
  onTestFinished(() => made[Symbol.asyncDispose]())
  const encodings = async (path: string, accepted: string) =>
    (await made.call(path, { headers: { 'accept-encoding': accepted } })).headers
  expect(await encodings('/a.js', 'gzip, deflate, br')).toMatchObject({
    'content-encoding': 'br',
    'content-type': 'text/javascript; charset=utf-8',
    vary: 'Origin, Accept-Encoding',
  })
  expect((await encodings('/a.js', 'br;q=0, gzip')).etag).toBe((await encodings('/a.js', 'gzip')).etag)
  expect((await encodings('/b.js', 'gzip, br'))['content-encoding']).toBe('gzip')
  expect((await encodings('/b.js', 'br'))['content-encoding']).toBeUndefined()
  expect((await encodings('/b.js', 'gzip;q=0'))['content-encoding']).toBeUndefined()
})

test('an unchanged file is 304, a changed one is sent', async () => {
  const { made, directory } = await startServer()
  const { etag = '' } = (await made.call('/assets/plain.js')).headers
  const ask = () => made.call('/assets/plain.js', { headers: { 'if-none-match': `"other", W/${etag}` } })
  expect((await ask()).status).toBe(304)
  await writeFile(join(directory, 'app/build/assets/plain.js'), '// plaiN')
  expect((await ask()).text).toBe('// plaiN')
})

test('a range of a file is 206', async () => {
  const { made } = await startServer()
  const ask = (range: string, more = {}) =>
    made.call('/assets/main-D_2gnSyB.js', { headers: { range, ...more } })
  const part = await ask('bytes=2-4')
  expect([part.status, part.text, part.headers['content-range']]).toEqual([206, 'por', 'bytes 2-4/9'])
  expect((await ask('bytes=6-')).text).toBe(' {}')
  expect((await ask('bytes=-3')).text).toBe(' {}')
  expect((await ask('bytes=-300')).text).toBe('export {}')
  expect((await ask('bytes=7-300')).text).toBe('{}')
  const beyond = await ask('bytes=9-')
  expect([beyond.status, beyond.headers['content-range']]).toEqual([416, 'bytes */9'])
  for (const odd of ['bytes=4-2', 'bytes=1-2,4-5', 'lines=1-2', 'bytes=-', 'bytes=a-b']) {
    expect([odd, (await ask(odd)).status]).toEqual([odd, 200])
  }
  expect((await ask('bytes=2-4', { 'if-range': '"old"' })).text).toBe('export {}')
  const { etag = '' } = part.headers
  expect((await ask('bytes=2-4', { 'if-range': etag })).text).toBe('por')
})

test('a directory without a page has a readable error', async () => {
  const directory = await createDirectory({ 'other.html': html })
  await expect(Site.open(directory)).rejects.toThrow(
    `There is no web page in ${directory}: neither index.html nor build/index.html`,
  )
  await expect(Site.open(join(directory, 'nowhere'))).rejects.toThrow('There is no web page')
})

test('a removed page is 404', async () => {
  const { made, directory } = await startServer()
  await rm(join(directory, 'app/build/index.html'))
  expect((await made.call('/settings', { headers: page })).status).toBe(404)
})
