import { hash, randomBytes } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { TestServer } from '../testing/test-server.ts'
import type { Reply } from './handler.ts'

const page = { method: 'GET', path: '/api/page', tag: 'test', summary: 'test', responses: {} } as const
const routes = {
  page: { ...page, compressed: true },
  plain: { ...page, path: '/api/plain' },
  stream: { ...page, path: '/api/stream', compressed: true },
  small: { ...page, path: '/api/small', compressed: true },
} as const
const text = JSON.stringify(Array.from({ length: 200 }, () => randomBytes(24).toString('hex')))
const bytes = Buffer.from(text)
const etag = `"${hash('sha256', bytes).slice(0, 20)}"`
const asked = { 'accept-encoding': 'br;q=1.0, gzip;q=0.8' }
const forwarded = { ...asked, 'x-forwarded-for': '192.0.2.7' }
const headers = { etag, 'cache-control': 'no-cache' }

const start = () =>
  TestServer.start(routes, {
    page: ({ header }): Reply =>
      header('if-none-match') === etag
        ? { status: 304, bytes: Buffer.alloc(0), headers }
        : { bytes, headers },
    plain: () => ({ bytes }),
    stream: () => ({ contentType: 'text/event-stream', chunks: [text] as unknown as AsyncIterable<string> }),
    small: () => ({ json: text.slice(0, 6_000) }),
  })

async function fetchRaw(url: string, headers: Record<string, string>, method = 'GET') {
  const { request } = await import('node:http')
  return await new Promise<{ status: number; headers: Record<string, unknown>; body: Buffer }>(
    (resolve, reject) => {
      request(url, { method, headers }, (answer) => {
        const parts: Buffer[] = []
        answer.on('data', (part) => parts.push(part))
        answer.on('end', () =>
          resolve({
            status: answer.statusCode ?? 0,
            headers: answer.headers,
            body: Buffer.concat(parts),
          }),
        )
      })
        .on('error', reject)
        .end()
    },
  )
}

test('a client behind a proxy gets what it asks for compressed, with a separate tag', async () => {
  await using trial = await start()
  const { url } = trial.listening
  for (let at = 0; at < 2; at++) {
    const answer = await fetchRaw(`${url}/api/page`, forwarded)
    expect(answer.headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-length': String(answer.body.length),
      'content-type': 'application/json',
      vary: 'Origin, Accept-Encoding',
      etag: etag.replace(/"$/, '-gzip"'),
    })
    expect(gunzipSync(answer.body).equals(bytes)).toBe(true)
    expect(answer.body.length).toBeLessThan(bytes.length * 0.7)
  }
  const known = { ...forwarded, 'if-none-match': etag.replace(/"$/, '-gzip"') }
  expect(await fetchRaw(`${url}/api/page`, known)).toMatchObject({
    status: 304,
    headers: { etag: known['if-none-match'], vary: 'Origin, Accept-Encoding' },
  })
  expect(await fetchRaw(`${url}/api/page`, { ...forwarded, 'if-none-match': etag })).toMatchObject({
    status: 304,
    headers: { etag },
  })
})

test.for([
  ['a program of this machine', '/api/page', asked, 'GET'],
  ['a client that does not ask', '/api/page', { 'x-forwarded-for': '192.0.2.7' }, 'GET'],
  ['a client that refuses it', '/api/page', { ...forwarded, 'accept-encoding': 'gzip;q=0, br' }, 'GET'],
  ['a route that may hold secrets', '/api/plain', forwarded, 'GET'],
  ['a stream of events', '/api/stream', forwarded, 'GET'],
  ['less than 8 KiB', '/api/small', forwarded, 'GET'],
  ['a request for the head', '/api/page', forwarded, 'HEAD'],
] as const)('%s gets plain bytes', async ([, path, sent, method]) => {
  await using trial = await start()
  const answer = await fetchRaw(`${trial.listening.url}${path}`, sent, method)
  expect(answer.status).toBe(200)
  expect(answer.headers).not.toHaveProperty('content-encoding')
  if (path === '/api/page') expect(answer.headers).toMatchObject({ etag, vary: 'Origin, Accept-Encoding' })
  if (path === '/api/page' && method === 'GET') expect(answer.body.equals(bytes)).toBe(true)
})

test('the document and the page of the API are compressed for everybody', async () => {
  const openapi = { openapi: '3.1.0', info: { title: text } }
  const options = { openapi, openDocs: true } as const
  await using trial = await TestServer.start({}, {}, options)
  const { url } = trial.listening
  const document = await fetchRaw(`${url}/openapi.json`, asked)
  expect(JSON.parse(gunzipSync(document.body).toString())).toEqual(openapi)
  const script = await fetchRaw(`${url}/docs/static/swagger-ui-bundle.js`, asked)
  expect(script.headers).toMatchObject({ 'content-encoding': 'gzip' })
  expect(script.body.length).toBeLessThan(700_000)
  const again = { ...asked, 'if-none-match': String(script.headers.etag) }
  expect((await fetchRaw(`${url}/docs/static/swagger-ui-bundle.js`, again)).status).toBe(304)
})
