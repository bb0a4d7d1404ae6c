import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Route } from '@slipway/protocol'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { createApp } from '../app.ts'
import { listen } from '../listen.ts'
import type { Handlers } from './handler.ts'
import { unixFetch } from './unix-fetch.ts'
import { unixSocketUrl } from './unix-socket.ts'

const plain = { tag: 'test', summary: 'test', responses: {} } as const
const routes = {
  read: { ...plain, method: 'GET', path: '/api/read', query: z.object({ q: z.string().optional() }) },
  echo: { ...plain, method: 'POST', path: '/api/echo', body: z.unknown() },
  hash: { ...plain, method: 'PUT', path: '/api/hash', stream: 'application/octet-stream' },
  flood: { ...plain, method: 'GET', path: '/api/flood' },
  none: { ...plain, method: 'DELETE', path: '/api/none' },
  move: { ...plain, method: 'GET', path: '/api/move' },
  headers: { ...plain, method: 'GET', path: '/api/headers' },
} as const satisfies Record<string, Route>

class Upstream {
  sentPieces = 0
  isEnded = false

  handlers(): Handlers<typeof routes> {
    return {
      read: ({ query }) => ({ json: query }),
      echo: ({ body, header }) => ({ status: 201, json: [body ?? null, header('content-length') ?? null] }),
      async hash({ stream }) {
        const hash = createHash('sha256')
        for await (const chunk of stream) hash.update(chunk)
        return { json: hash.digest('hex') }
      },
      flood: () => ({ contentType: 'application/octet-stream', chunks: this.#flood() }),
      none: () => ({ status: 204, bytes: Buffer.alloc(0) }),
      move: () => ({ status: 307, bytes: Buffer.alloc(0), headers: { location: '/api/read' } }),
      headers: ({ header }) => ({
        json: [header('host'), header('x-own') ?? null],
        headers: { 'x-answer': 'é' },
      }),
    }
  }

  async *#flood(): AsyncGenerator<Buffer> {
    try {
      for (; this.sentPieces < 100; this.sentPieces++) yield Buffer.alloc(1 << 20, this.sentPieces)
    } finally {
      this.isEnded = true
    }
  }
}

async function open() {
  const directory = await mkdtemp(join(tmpdir(), 'reach-'))
  const far = new Upstream()
  const web = createApp(routes, far.handlers(), { openapi: {}, log: () => {} })
  const listening = await listen(web, { socketPath: join(directory, 'x.sock'), stopMs: 200 })
  return {
    far,
    url: listening.url,
    async [Symbol.asyncDispose]() {
      await listening.close()
      await rm(directory, { recursive: true })
    },
  }
}

/** A server of bytes on a Unix socket. */
async function byteServer(serve: (socket: Socket) => void) {
  const directory = await mkdtemp(join(tmpdir(), 'reach-'))
  const path = join(directory, 'x.sock')
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
    serve(socket)
  })
  await once(server.listen(path), 'listening')
  return {
    url: unixSocketUrl(path),
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await rm(directory, { recursive: true })
    },
  }
}

test('a query, headers, a status and JSON pass as with fetch', async () => {
  await using server = await open()
  const { url } = server
  const read = await unixFetch(`${url}/api/read?q=%C3%A9+1#part`)
  expect([read.status, read.ok, read.url, await read.json()]).toEqual([
    200,
    true,
    `${url}/api/read?q=%C3%A9+1#part`,
    { q: 'é 1' },
  ])
  const headers = await unixFetch(new URL(`${url}/api/headers`), { headers: { 'X-Own': 'v' } })
  expect([headers.headers.get('x-answer'), await headers.json()]).toEqual(['é', ['localhost', 'v']])
  expect((await unixFetch(`${url}/nothing`)).status).toBe(404)
  expect((await unixFetch(new Request(`${url}/api/none`, { method: 'delete' }))).status).toBe(204)
  const head = await unixFetch(`${url}/api/read`, { method: 'HEAD' })
  expect([head.status, await head.text(), head.headers.get('content-length')]).toEqual([200, '', '2'])
})

test.for([
  ['a text', '"é"', '4'],
  ['bytes', new TextEncoder().encode('"é"'), '4'],
  ['a stream', new Blob(['"', 'é"']).stream(), null],
  ['nothing', undefined, '0'],
] as const)('a body of %s arrives', async ([, body, length]) => {
  await using server = await open()
  const init = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    duplex: 'half',
    ...(body === undefined ? {} : { body }),
  }
  const answer = await unixFetch(`${server.url}/api/echo`, init)
  expect([answer.status, await answer.json()]).toEqual([201, [body === undefined ? null : 'é', length]])
})

test.for([
  ['GET', []],
  ['HEAD', []],
  ['DELETE', ['content-length: 0']],
  ['POST', ['content-length: 0']],
] as const)('a %s without a body says its length: %j', async ([method, lengths]) => {
  let head = ''
  await using server = await byteServer((socket) => {
    socket.once('data', (bytes) => {
      head = bytes.toString('latin1').toLowerCase()
      socket.end('HTTP/1.1 204 X\r\n\r\n')
    })
  })
  await unixFetch(server.url, { method })
  expect(head.split('\r\n').filter((line) => line.startsWith('content-length'))).toEqual(lengths)
})

test('a large stream arrives unchanged, and a reply is read with backpressure', async () => {
  await using server = await open()
  const bytes = randomBytes(20_000_000)
  const init = {
    method: 'PUT',
    headers: { 'content-type': 'application/octet-stream' },
    body: new Blob([bytes]).stream(),
    duplex: 'half',
  }
  const answer = await unixFetch(`${server.url}/api/hash`, init)
  expect(await answer.json()).toBe(createHash('sha256').update(bytes).digest('hex'))
  const flood = await unixFetch(`${server.url}/api/flood`)
  for (let last = -1; last !== server.far.sentPieces; ) {
    last = server.far.sentPieces
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
  expect(server.far.sentPieces).toBeLessThan(50)
  expect((await flood.arrayBuffer()).byteLength).toBe(100 << 20)
})

test('cancelling the body ends the request, also while no data arrives', async () => {
  await using server = await open()
  const flood = await unixFetch(`${server.url}/api/flood`)
  await flood.body?.cancel()
  while (!server.far.isEnded) await new Promise((resolve) => setTimeout(resolve, 5))
  await using silent = await byteServer(
    (socket) => void socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx')),
  )
  const reader = (await unixFetch(silent.url)).body?.getReader()
  expect((await reader?.read())?.value?.length).toBe(1)
  const next = reader?.read()
  await reader?.cancel()
  expect((await next)?.done).toBe(true)
  while (silent.sockets.size > 0) await new Promise((resolve) => setTimeout(resolve, 5))
})

test.for(['before the call', 'before the answer', 'in the body'])(
  'a signal that aborts %s rejects with its reason',
  async (when) => {
    await using server = await byteServer((socket) => {
      socket.once('data', () => {
        if (when === 'in the body') socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx')
        else stop.abort(reason)
      })
    })
    const stop = new AbortController()
    const reason = new Error('the reason')
    if (when === 'before the call') stop.abort(reason)
    const answer = unixFetch(server.url, { signal: stop.signal })
    if (when !== 'in the body') return await expect(answer).rejects.toBe(reason)
    const text = (await answer).text()
    stop.abort(reason)
    await expect(text).rejects.toBe(reason)
    while (server.sockets.size > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  },
)

test.for([
  ['is missing', undefined],
  ['closes', ''],
  ['does not speak HTTP', 'hello\r\n\r\n'],
  ['changes the protocol', 'HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'],
  ['answers with a status that is none', 'HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n'],
] as const)('a server that %s is a TypeError', async ([, answer]) => {
  await using server = await byteServer((socket) => void socket.once('data', () => socket.end(answer ?? '')))
  const url = answer === undefined ? `${server.url}.none` : server.url
  await expect(unixFetch(url)).rejects.toThrow(TypeError)
  const init = { method: 'POST', body: new Blob(['x'.repeat(1_000_000)]).stream(), duplex: 'half' }
  await expect(unixFetch(url, init)).rejects.toThrow(TypeError)
})

test('a truncated reply fails', async () => {
  await using server = await byteServer(
    (socket) =>
      void socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf')),
  )
  const answer = await unixFetch(server.url)
  await expect(answer.text()).rejects.toThrow(TypeError)
})

test('a redirect is returned, or refused with redirect: error', async () => {
  await using server = await open()
  const answer = await unixFetch(`${server.url}/api/move`)
  expect([answer.status, answer.headers.get('location')]).toEqual([307, '/api/read'])
  await expect(unixFetch(`${server.url}/api/move`, { redirect: 'error' })).rejects.toThrow(TypeError)
})

test.for([
  'http+unix://relative.sock/x',
  'http+unix://%2Fx%00y/',
  'http+unix://%2Fx:80/',
  'http+unix:///x',
  'http+unix://%zz/',
])('the address %s is a TypeError', async (url) => {
  await expect(unixFetch(url)).rejects.toThrow(TypeError)
})

test('other URLs use the global fetch', async () => {
  const web = createApp(routes, new Upstream().handlers(), { openapi: {}, log: () => {} })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  expect(await (await unixFetch(`${listening.url}/api/read?q=1`)).json()).toEqual({ q: '1' })
  await expect(unixFetch('nonsense')).rejects.toThrow(TypeError)
  await listening.close()
})
