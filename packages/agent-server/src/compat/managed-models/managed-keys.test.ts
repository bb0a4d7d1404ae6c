import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { createKeyRefresh } from './managed-keys.ts'

const base = 'https://proxy.example/v1'
const never = new AbortController().signal

/** A source of keys that answers as the listener does, and what was logged. */
async function openSource(listener: RequestListener, timeoutMs?: number) {
  const requests: [string | undefined, string | string[] | undefined][] = []
  const server = createServer((request, response) => {
    requests.push([`${request.method} ${request.url}`, request.headers['x-key']])
    listener(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const lines: unknown[] = []
  const refresh = createKeyRefresh({
    url: new Secret(`http://127.0.0.1:${(server.address() as AddressInfo).port}/key?token=t0ken-of-url`),
    baseUrls: [base],
    headers: { 'X-Key': new Secret('h3ader-value') },
    fetch,
    log: (...line) => void lines.push(line),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  })
  const close = async () => {
    server.closeAllConnections()
    await new Promise((done) => server.close(done))
  }
  return { refresh, requests, lines, [Symbol.asyncDispose]: close }
}

test('the key of a listed base URL is the answer to one request with the headers', async () => {
  await using source = await openSource((_, response) => response.end(' sk-fresh-key\n'))
  expect(await source.refresh(`${base}/`, never)).toBe('sk-fresh-key')
  expect(source.requests).toEqual([['GET /key?token=t0ken-of-url', 'h3ader-value']])
  expect(JSON.stringify(source.lines)).not.toMatch(/sk-fresh-key|t0ken-of-url|h3ader-value/)
})

test.each(['https://proxy.example', 'https://proxy.example/v1/more', 'https://proxy.example.evil/v1', ''])(
  'the base URL %j is not listed: nothing is asked',
  async (baseUrl) => {
    await using source = await openSource((_, response) => response.end('sk-fresh-key'))
    expect(await source.refresh(baseUrl, never)).toBeUndefined()
    expect(source.requests).toEqual([])
  },
)

test.each<[string, RequestListener]>([
  ['an error', (_, response) => response.writeHead(500).end('sk-of-an-error')],
  ['a redirect', (_, response) => response.writeHead(302, { location: '/other' }).end()],
  ['an empty text', (_, response) => response.end('\n')],
  ['a page', (_, response) => response.end('<p>Sign in first.</p>')],
  ['a text of two lines', (_, response) => response.end('sk-one\nx-header: two')],
  ['an endless text', (_, response) => response.end('k'.repeat(20_000))],
  ['a connection that is cut', (_, response) => response.destroy()],
])('%s is no key', async (_, listener) => {
  await using source = await openSource(listener)
  expect(await source.refresh(base, never)).toBeUndefined()
  expect(source.requests).toHaveLength(1)
  expect(source.lines.at(-1)).toMatchObject(['warn', expect.any(String), expect.anything()])
  expect(JSON.stringify(source.lines)).not.toMatch(/sk-|t0ken-of-url|h3ader-value/)
})

test('a run that is stopped does not wait for a silent source', async () => {
  await using source = await openSource(() => {})
  const stop = new AbortController()
  const key = source.refresh(base, stop.signal)
  setTimeout(() => stop.abort(), 50)
  expect(await key).toBeUndefined()
  expect(source.lines).toHaveLength(1)
})

test('a silent source is given up, also in the middle of its answer', async () => {
  await using source = await openSource((_, response) => void response.write('sk-half'), 100)
  expect(await source.refresh(base, never)).toBeUndefined()
  expect(source.lines.at(-1)).toEqual(['warn', expect.any(String), { isLate: true }])
})
