import { once } from 'node:events'
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { networkInterfaces } from 'node:os'
import type { Route } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { SocketRoute } from '../core/handler.ts'
import { TestServer } from '../testing/test-server.ts'
import { OriginPool } from './origin-pool.ts'

const plain = { tag: 'test', summary: 'test', responses: {} } as const
const routes = {
  show: { ...plain, method: 'GET', path: '/docs' },
  act: { ...plain, method: 'POST', path: '/act' },
} as const satisfies Record<string, Route>

const echo: SocketRoute = {
  path: '/ws',
  accepts: () => true,
  serve: async (socket) => void (await once(socket.signal, 'abort')),
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** A program and a pool with its origin. */
async function openFixture() {
  const seen: (string | undefined)[] = []
  const requests = { act: 0 }
  const program = await TestServer.start(
    routes,
    {
      show: ({ header }) => {
        seen.push(header('cookie'), header('x-session-api-key'), header('authorization'))
        return { json: 'shown', headers: { 'set-cookie': 'program=1; Path=/' } }
      },
      act: () => {
        requests.act++
        return { json: 'done' }
      },
    },
    // Its own address, as the server sees it.
    { sockets: [echo], allowedOrigins: [/.*/], openapi: undefined },
  )
  const ended = new AbortController()
  const clock = new FakeClock()
  const pool = new OriginPool({ log: () => {}, clock })
  const owner = {}
  const target = () => ({ url: program.listening.url })
  const origin = await pool.open(owner, { label: 'app', ended: ended.signal, target })
  const { host, port } = new URL(origin.url)
  const call = (path: string, headers: OutgoingHttpHeaders = {}, method = 'GET', address = '127.0.0.1') =>
    new Promise<Answer>((done, fail) => {
      const options = { host: address, port, path, method, headers: { host, ...headers }, agent: false }
      const outgoing = request(options, async (answer) => {
        const text = Buffer.concat(await answer.toArray()).toString()
        done({ status: answer.statusCode ?? 0, headers: answer.headers, text })
      })
      outgoing.on('error', fail).end()
    })
  return {
    ...{ pool, origin, owner, ended, clock, seen, requests, call, host, port, target },
    /** The cookie of a browser that has opened a link. */
    async signIn(): Promise<string> {
      const { pathname, search } = new URL(origin.createLink().url)
      const answer = await call(pathname + search)
      return String(answer.headers['set-cookie']).split(';')[0] ?? ''
    },
    async [Symbol.asyncDispose]() {
      await pool[Symbol.asyncDispose]()
      await program.listening.close()
    },
  }
}

test('a link opens an origin once, and its address is that of the owner', async () => {
  await using it = await openFixture()
  expect(it.origin.url).toMatch(/^http:\/\/app-[0-9a-f]{8}\.localhost:\d+$/)
  expect(await it.pool.open(it.owner, { label: 'x', ended: it.ended.signal, target: it.target })).toBe(
    it.origin,
  )
  const { pathname, search } = new URL(it.origin.createLink().url)
  const opened = await it.call(`/docs${search}&view=%22%3E`, { 'sec-fetch-site': 'cross-site' })
  expect(opened).toMatchObject({ status: 200, headers: { 'cache-control': 'no-store' } })
  expect(opened.text).toContain(`content="0;url=${it.origin.url}/docs?view=%22%3E"`)
  const [cookie = '', ...traits] = String(opened.headers['set-cookie']).split('; ')
  expect(traits).toEqual(['Path=/', 'HttpOnly', 'Secure', 'SameSite=None', 'Partitioned'])
  expect((await it.call(pathname + search)).status).toBe(403)
  const shown = await it.call('/docs', { cookie, 'sec-fetch-site': 'same-origin' })
  expect([shown.status, shown.text, shown.headers['set-cookie']]).toEqual([200, '"shown"', undefined])
  const { search: late } = new URL(it.origin.createLink().url)
  await it.clock.advance(60_000)
  expect((await it.call(`/${late}`)).status).toBe(403)
})

test('what opens the server opens no origin, and the program sees none of it', async () => {
  await using it = await openFixture()
  const cookie = await it.signIn()
  const key = { 'x-session-api-key': 'k', authorization: 'Bearer k' }
  expect((await it.call('/docs', key)).status).toBe(401)
  expect((await it.call('/docs', { cookie: `${cookie}x` })).status).toBe(401)
  const cookies = `slipway_console_0011223344556677=c; oh_workspace_session_key=w; ${cookie}; other=1`
  expect((await it.call('/docs', { ...key, cookie: cookies })).status).toBe(200)
  expect(it.seen).toEqual([undefined, undefined, undefined])
})

test('the cookie of one origin is worthless at another', async () => {
  await using one = await openFixture()
  await using two = await openFixture()
  const cookie = await one.signIn()
  expect((await one.call('/docs', { cookie })).status).toBe(200)
  expect((await two.call('/docs', { cookie })).status).toBe(401)
})

test('requests of foreign pages do not reach the program, and neither do other hosts', async () => {
  await using it = await openFixture()
  const cookie = await it.signIn()
  const foreign = `http://app-00000000.localhost:${it.port}`
  const own = { cookie, origin: it.origin.url }
  for (const [method, headers, status] of [
    ['GET', { cookie, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }, 403],
    ['GET', { cookie, 'sec-fetch-site': 'same-site' }, 403],
    ['GET', { cookie, origin: foreign }, 403],
    ['GET', { cookie, origin: 'null' }, 403],
    ['POST', { cookie }, 403],
    ['POST', { cookie, origin: foreign }, 403],
    ['POST', { ...own, 'sec-fetch-site': 'cross-site' }, 403],
    ['GET', { cookie, host: `localhost:${it.port}` }, 421],
    ['GET', { cookie, host: `127.0.0.1:${it.port}` }, 421],
    ['GET', { cookie, host: 'evil.example' }, 421],
    ['GET', { cookie, 'sec-fetch-site': 'none' }, 200],
    ['POST', own, 200],
  ] as const)
    expect((await it.call(method === 'GET' ? '/docs' : '/act', headers, method)).status).toBe(status)
  expect(it.requests.act).toBe(1)
})

test('WebSockets need the session and a page of the origin, and end with the owner', async () => {
  await using it = await openFixture()
  const cookie = await it.signIn()
  const open = (headers: Record<string, string>) =>
    new Promise<WebSocket | number>((done) => {
      const socket = new WebSocket(`ws://127.0.0.1:${it.port}/ws`, { headers: { host: it.host, ...headers } })
      socket.on('open', () => done(socket)).on('error', () => {})
      socket.on('unexpected-response', (_, { statusCode }) => done(statusCode ?? 0))
    })
  const origin = it.origin.url
  for (const headers of [{}, { cookie }, { origin }, { cookie, origin: 'http://localhost:1' }])
    expect(await open(headers)).toBe(403)
  const socket = await open({ cookie, origin })
  if (typeof socket === 'number') throw new Error(`refused with ${socket}`)
  const closed = once(socket, 'close')
  it.ended.abort()
  expect((await closed)[0]).toBe(1000)
  await it.pool[Symbol.asyncDispose]()
  await expect(it.call('/docs', { cookie })).rejects.toThrow('ECONNREFUSED')
  const again = it.pool.open({}, { label: 'x', ended: it.ended.signal, target: it.target })
  await expect(again).rejects.toThrow('has ended')
})

const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
)
test.runIf(hasIpv6)('an origin has its port at both loopback addresses', async () => {
  await using it = await openFixture()
  const cookie = await it.signIn()
  expect((await it.call('/docs', { cookie }, 'GET', '::1')).status).toBe(200)
})
