import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loopbackFetch } from './loopback-fetch.ts'

let answer: (request: IncomingMessage, response: ServerResponse) => unknown = () => {}
let url = ''
const server = createServer((request, response) => void answer(request, response))

beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` // it listens on a port
})
afterAll(() => {
  server.closeAllConnections()
  return new Promise((done) => server.close(done))
})

test('a request and its answer are those of fetch, and redirects are not followed', async () => {
  answer = async (request, response) => {
    response.writeHead(302, { location: '/other', 'x-method': String(request.method) })
    response.end(`${request.headers['x-key']} ${await text(request)}`)
  }
  const sent = { method: 'POST', headers: { 'x-key': 'k' }, body: 'Grüße', redirect: 'manual' } as const
  const got = await loopbackFetch(url, sent)
  expect([got.status, got.headers.get('location'), got.headers.get('x-method')]).toEqual([
    302,
    '/other',
    'POST',
  ])
  expect(await got.text()).toBe('k Grüße')
})

test('a refused connection, an abort and a stream that breaks are errors', async () => {
  await expect(loopbackFetch('http://127.0.0.1:1/')).rejects.toMatchObject({
    message: 'fetch failed',
    cause: { code: 'ECONNREFUSED' },
  })
  const asked = Promise.withResolvers<void>()
  answer = () => asked.resolve()
  const abort = new AbortController()
  const waiting = loopbackFetch(url, { signal: abort.signal })
  await asked.promise
  abort.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  await expect(loopbackFetch(url, { signal: abort.signal })).rejects.toThrow('enough')
  answer = (_, response) => {
    response.write('half', () => response.destroy())
  }
  await expect((await loopbackFetch(url)).text()).rejects.toThrow()
})
