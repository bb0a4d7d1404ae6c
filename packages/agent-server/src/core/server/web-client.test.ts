import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { serve } from '../../serve.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'

const html = '<!doctype html><html><head><title>An app</title></head></html>'
const pageHeaders = { accept: 'text/html' }

/** A whole server that shows a page; its package's directory is named, by flag or by setting. */
async function openServer({
  key,
  isSetting = false,
}: {
  readonly key?: string
  readonly isSetting?: boolean
} = {}) {
  const directory = temporaryDirectory()
  const web = join(directory.path, 'package')
  mkdirSync(join(web, 'build/assets'), { recursive: true })
  writeFileSync(join(web, 'build/index.html'), html)
  writeFileSync(join(web, 'build/assets/app-Ab12Cd34.js'), 'let app')
  const stop = new AbortController()
  const env = {
    SLIPWAY_LOG_LEVEL: 'error',
    ...(key === undefined ? { SLIPWAY_NO_KEY: '1' } : { SLIPWAY_SESSION_API_KEY: key }),
    ...(isSetting ? { SLIPWAY_WEB: web } : {}),
  }
  const ready = Promise.withResolvers<string>()
  const done = serve({
    host: '127.0.0.1',
    port: 0,
    data: join(directory.path, 'data'),
    ...(isSetting ? {} : { web }),
    env,
    signal: stop.signal,
    ready: ready.resolve,
  })
  done.catch(ready.reject)
  const url = await ready.promise
  return {
    async get(path: string, headers: Record<string, string> = {}) {
      const response = await fetch(url + path, { headers })
      return {
        status: response.status,
        type: response.headers.get('content-type'),
        text: await response.text(),
      }
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      await done
      directory[Symbol.dispose]()
    },
  }
}

test('the page is at the address of the server for browsers, and what the server is for everybody else', async () => {
  await using server = await openServer()
  const page = await server.get('/', pageHeaders)
  expect(page).toMatchObject({ status: 200, type: 'text/html; charset=utf-8' })
  expect(page.text).not.toContain('AUTH_REQUIRED')
  expect((await server.get('/conversations/1', pageHeaders)).text).toBe(page.text)
  expect((await server.get('/assets/app-Ab12Cd34.js')).text).toBe('let app')
  expect(JSON.parse((await server.get('/')).text)).toMatchObject({ title: 'Slipway Agent Server' })
  expect(JSON.parse((await server.get('/server_info', pageHeaders)).text)).toMatchObject({
    version: '1.58.2',
  })
  for (const path of ['/api/nothing', '/sockets/nothing', '/docs'])
    expect((await server.get(path, pageHeaders)).text).not.toContain('An app')
})

test('with keys the page is told to ask for one, and is not told which', async () => {
  const key = 'canary-of-the-session-key'
  await using server = await openServer({ key, isSetting: true })
  const { text } = await server.get('/', pageHeaders)
  expect(text).toContain('window.__AGENT_CANVAS_AUTH_REQUIRED__=true')
  expect(text).not.toContain(key)
  expect((await server.get('/api/conversations/search', pageHeaders)).status).toBe(401)
  expect((await server.get('/api/nothing', pageHeaders)).status).toBe(401)
})

test('a directory without a page keeps the server from starting, and nothing is made', async () => {
  using directory = temporaryDirectory()
  const data = join(directory.path, 'data')
  const options = { host: '127.0.0.1', port: 0, data, env: {}, signal: new AbortController().signal }
  await expect(serve({ ...options, web: directory.path })).rejects.toThrow(
    /There is no web page in .*index\.html/,
  )
  expect(existsSync(data)).toBe(false)
})
