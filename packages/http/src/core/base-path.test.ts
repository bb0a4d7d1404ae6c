import { once } from 'node:events'
import type { Route } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import * as z from 'zod'
import { createApp } from '../app.ts'
import { listen } from '../listen.ts'
import { TestServer } from '../testing/test-server.ts'
import { BasePath } from './base-path.ts'
import type { Handlers } from './handler.ts'

const routes = {
  item: {
    method: 'GET',
    path: '/api/{id}',
    tag: 'test',
    summary: 'test',
    responses: {},
    params: z.object({ id: z.string() }),
  },
  slipway: { method: 'GET', path: '/slipway/api', tag: 'test', summary: 'test', responses: {} },
  root: { method: 'GET', path: '/', tag: 'test', summary: 'test', responses: {} },
} as const satisfies Record<string, Route>
const handlers: Handlers<typeof routes> = {
  item: ({ params }) => ({ json: params.id }),
  slipway: () => ({ json: 'own' }),
  root: () => ({ json: 'root' }),
}
const sockets = [{ path: '/sockets/x', accepts: () => true, serve: async () => {} }]

test.for([
  ['/slipway/api/1', 200, '"1"'],
  ['/slipway/api/1?x', 200, '"1"'],
  ['/api/1', 200, '"1"'],
  ['/slipway', 200, '"root"'],
  ['/slipway/', 200, '"root"'],
  ['/slipway?x', 200, '"root"'],
  ['/', 200, '"root"'],
  ['/slipway/slipway/api', 200, '"own"'],
  ['/slipwayapi/1', 404, '{"detail":"Not Found"}'],
  ['/Slipway/api/1', 404, '{"detail":"Not Found"}'],
] as const)(
  'with the base path /slipway, %s is answered with %i, again and again',
  async ([path, status, text]) => {
    await using trial = await TestServer.start(routes, handlers, { basePath: '/slipway' })
    for (let time = 0; time < 3; time++) expect(await trial.call(path)).toMatchObject({ status, text })
    const head = await trial.call(path, { method: 'HEAD' })
    expect(head.status).toBe(status)
  },
)

test('the base path applies to each address of localhost', async () => {
  const web = createApp(routes, handlers, { openapi: {}, log: () => {}, basePath: '/slipway/' })
  const listening = await listen(web, { host: 'localhost', port: 0 })
  for (const host of ['localhost', '127.0.0.1', '[::1]']) {
    const answer = await fetch(`http://${host}:${listening.port}/slipway/api/1`).catch(() => undefined)
    if (host === 'localhost' || answer !== undefined) expect(await answer?.json()).toBe('1')
  }
  await listening.close()
})

test('the API page finds its files with and without the base path', async () => {
  await using trial = await TestServer.start(routes, handlers, { basePath: '/a/b' })
  for (const base of ['', '/a/b']) {
    for (const path of ['/docs', '/docs/', '/redoc', '/redoc/']) {
      const answer = await fetch(`${trial.listening.url}${base}${path}`)
      expect([answer.status, new URL(answer.url).pathname.replace(/\/$/, '')]).toEqual([200, `${base}/docs`])
      const links = [...(await answer.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map(
        ([, link]) => link ?? '',
      )
      expect(links.length).toBeGreaterThan(2)
      for (const link of links) {
        const { pathname } = new URL(link, answer.url)
        expect(pathname.startsWith(`${base}/docs/static/`)).toBe(true)
        expect((await trial.call(pathname)).status).toBe(200)
      }
    }
  }
})

test('sockets, proxy routes and checkReady see requests without the base path', async () => {
  const paths: string[] = []
  const behind = {
    ...handlers,
    item: ({ header }: { header(name: string): string | undefined }) => ({
      json: header('x-forwarded-prefix'),
    }),
  }
  await using target = await TestServer.start(routes, behind)
  await using trial = await TestServer.start(routes, handlers, {
    basePath: '/slipway',
    sockets,
    checkReady: (path) => void paths.push(path),
    proxyRoutes: [{ prefix: '/to/{name}', target: async () => ({ url: target.listening.url }) }],
  })
  const ws = new WebSocket(`ws://127.0.0.1:${trial.port}/slipway/sockets/x`)
  await once(ws, 'close')
  for (let time = 0; time < 2; time++)
    expect((await trial.call('/slipway/to/a/api/1')).text).toBe('"/slipway/to/a"')
  expect((await trial.call('/to/a/api/1')).text).toBe('"/to/a"')
  expect((await trial.call('/slipway/to/a/../../api/1')).status).toBe(400)
  expect(paths).toEqual(['/sockets/x', '/to/a/api/1', '/to/a/api/1', '/to/a/api/1', '/to/a/../../api/1'])
})

test.for(['slipway', '/a b', '/a?b', '/a/../b', '/.', '//a', '/%2e'])(
  'the base path %j is refused',
  (path) => {
    expect(() => new BasePath(path)).toThrow(`The base path ${path} is not one like /slipway`)
  },
)

test.for(['', '/', '/a', '/a/b.c/~d/'])('the base path %j is valid', (path) => {
  expect(new BasePath(path).rewrite === undefined).toBe(path === '' || path === '/')
})
