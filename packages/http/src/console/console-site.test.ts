import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import { Secret } from '@slipway/shared/redaction'
import { expect, onTestFinished, test } from 'vitest'
import { TestServer } from '../testing/test-server.ts'
import { ConsoleSite } from './console-site.ts'

const html = { accept: 'text/html,*/*;q=0.8' }
const routes = {
  thing: { method: 'GET', path: '/api/thing', tag: 'x', summary: 'x', responses: {} },
} as const
const script = `export const text = '${'console '.repeat(100)}'`

async function createBuild(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-console-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  await mkdir(join(directory, 'assets'))
  await writeFile(
    join(directory, 'index.html'),
    '<!doctype html><html><head><title>Console</title></head></html>',
  )
  await writeFile(join(directory, 'assets/index-Ab12Cd34.js'), script)
  await writeFile(join(directory, 'assets/index-Ab12Cd34.js.br'), brotliCompressSync(script))
  return directory
}

async function startServer(directory: ConstructorParameters<typeof ConsoleSite>[0], basePath?: string) {
  const site = new ConsoleSite(directory)
  const handlers = { thing: () => ({ json: {} }) }
  const keys = [new Secret('the-key-of-this-server')]
  const options = { site, keys, ...(basePath === undefined ? {} : { basePath }) }
  const server = await TestServer.start(routes, handlers, options)
  onTestFinished(() => server[Symbol.asyncDispose]())
  return server
}

test('deep links get the page with the way to its root; paths of the interface stay JSON', async () => {
  const server = await startServer(await createBuild(), '/slipway')
  await expect.poll(async () => (await server.call('/', { headers: html })).status).toBe(200)
  for (const [path, base] of [
    ['/', './'],
    ['/c', './'],
    ['/c/', '../'],
    ['/c/ID?x=/a/b/', '../'],
    ['/boxes/1/events', '../../'],
    ['/slipway/c/ID', '../'],
  ]) {
    const { status, text, headers } = await server.call(path ?? '', { headers: html })
    expect({ path, status, text }).toMatchObject({
      status: 200,
      text: expect.stringContaining(`<base href="${base}">`),
    })
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self';/)
    expect(headers['content-security-policy']).toContain("frame-ancestors 'none'")
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-cache' })
  }
  for (const path of ['/api/unknown', '/api', '/assets/none.js']) {
    const { headers } = await server.call(path, { headers: path.startsWith('/assets') ? {} : html })
    expect(headers['content-type']).toMatch(/^application\/json/)
  }
  expect((await server.call('/c/ID')).status).toBe(404)
})

test('the page and its assets are cached, compressed and checked by their tags', async () => {
  const server = await startServer(await createBuild())
  await expect.poll(async () => (await server.call('/', { headers: html })).status).toBe(200)
  const page = await server.call('/', { headers: html })
  const again = await server.call('/', { headers: { ...html, 'if-none-match': String(page.headers.etag) } })
  expect(again).toMatchObject({ status: 304, text: '' })
  const asset = '/assets/index-Ab12Cd34.js'
  const plain = await server.call(asset)
  expect(plain.text).toBe(script)
  expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable')
  const address = `http://127.0.0.1:${server.port}${asset}`
  const compressed = await fetch(address, { headers: { 'accept-encoding': 'br' } })
  expect(compressed.headers.get('content-encoding')).toBe('br')
  expect(await compressed.text()).toBe(script)
})

test('while the build is made a page says so, and without one the server is as without a console', async () => {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const server = await startServer(promise)
  const pending = await server.call('/', { headers: html })
  expect(pending).toMatchObject({ status: 503, text: expect.stringContaining('being built') })
  expect((await server.call('/')).status).toBe(404)
  resolve(await createBuild())
  await expect.poll(async () => (await server.call('/', { headers: html })).status).toBe(200)
  for (const none of [undefined, '/nowhere']) {
    const bare = await startServer(none)
    await expect.poll(async () => (await bare.call('/', { headers: html })).status).toBe(404)
  }
})
