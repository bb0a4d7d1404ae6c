import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Route } from '@slipway/protocol'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { TestServer } from '../testing/test-server.ts'
import { openTraces } from './telemetry.ts'
import { type Traces, tracedFetch } from './traces.ts'

interface Sent {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly status: { readonly code?: number }
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[]
}

/** A receiver of OTLP over HTTP as JSON, on loopback. */
async function traceReceiver() {
  const spans: Sent[] = []
  const bodies: string[] = []
  const headers: IncomingHttpHeaders[] = []
  const server = createServer(async (request, response) => {
    headers.push(request.headers)
    const text = Buffer.concat(await request.toArray()).toString()
    bodies.push(text)
    const { resourceSpans } = JSON.parse(text)
    for (const { scopeSpans } of resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    server.close()
  }
  const url = `http://127.0.0.1:${port}/v1/traces`
  return { spans, bodies, headers, url, [Symbol.asyncDispose]: close }
}

async function open(url: string, ratio = 1): Promise<Traces> {
  const options = {
    url,
    headers: { 'x-token': 'receiver-secret' },
    service: 'it',
    version: '1',
    attributes: { team: 'mine', 'service.name': 'another' },
    ratio,
    delayMs: 20,
  }
  const traces = await openTraces(options)
  if (traces === undefined) throw new Error('there are no traces')
  return traces
}

const plain = { tag: 'test', summary: 'test', responses: {} } as const
const params = z.object({ id: z.string() })
const routes = {
  item: { ...plain, method: 'GET', path: '/api/items/{id}', params },
  fail: { ...plain, method: 'POST', path: '/api/fail' },
} as const satisfies Record<string, Route>

function startServer(traces: Traces, target = 'http://127.0.0.1:9') {
  return TestServer.start(
    routes,
    {
      item: async () => {
        const span = traces.startSpan('inner', { attributes: { 'slipway.tool': 'x' } })
        await span.run(async () => {
          await new Promise(setImmediate)
          traces.startSpan('innermost').end('refused')
        })
        span.end()
        return { json: traces.headers }
      },
      fail: () => {
        throw new Error('private reason')
      },
    },
    { traces, proxyRoutes: [{ prefix: '/relay/{name}', target: async () => ({ url: target }) }] },
  )
}

function spanAttributes({ attributes }: Pick<Sent, 'attributes'>): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}

test('without options there are no traces, and fetch is unchanged', async () => {
  expect(await openTraces(undefined)).toBeUndefined()
  expect(tracedFetch(fetch, undefined)).toBe(fetch)
})

test('a request is a span by its route, and its work are child spans', async () => {
  await using there = await traceReceiver()
  const traces = await open(there.url)
  {
    await using trial = await startServer(traces)
    await trial.call('/api/items/private?secret=private')
    await trial.call('/api/fail', { method: 'POST' })
    await trial.call('/private/nowhere')
  }
  await traces[Symbol.asyncDispose]()
  const named = (name: string) => there.spans.filter((span) => span.name === name)
  const [request] = named('GET /api/items/{id}')
  const [inner] = named('inner')
  const [innermost] = named('innermost')
  expect(request).toMatchObject({ kind: 2 })
  expect(request?.parentSpanId ?? '').toBe('')
  expect([inner?.traceId, inner?.parentSpanId]).toEqual([request?.traceId, request?.spanId])
  expect([innermost?.traceId, innermost?.parentSpanId]).toEqual([request?.traceId, inner?.spanId])
  expect(innermost).toMatchObject({ status: { code: 2 } })
  expect(named('POST /api/fail')).toMatchObject([{ status: { code: 2 } }])
  expect(named('GET')).toHaveLength(1)
  expect(request && spanAttributes(request)).toEqual({ 'http.response.status_code': 200 })
  expect(there.bodies.join()).not.toContain('private')
  expect(there.headers[0]).toMatchObject({ 'x-token': 'receiver-secret' })
  const [{ resource, scopeSpans }] = JSON.parse(there.bodies[0] ?? '').resourceSpans
  expect(spanAttributes(resource)).toMatchObject({
    'service.name': 'it',
    'service.version': '1',
    team: 'mine',
  })
  expect(scopeSpans[0].scope).toMatchObject({ name: 'slipway', version: '1' })
})

test('a trace of the caller continues, also to a proxied target; an invalid one does not', async () => {
  await using there = await traceReceiver()
  const traces = await open(there.url)
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const seen: IncomingHttpHeaders[] = []
  const target = createServer((request, response) => {
    seen.push(request.headers)
    response.end('ok')
  }).listen(0, '127.0.0.1')
  await once(target, 'listening')
  const { port } = target.address() as AddressInfo
  {
    await using trial = await startServer(traces, `http://127.0.0.1:${port}`)
    const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01`, tracestate: 'a=1,b=2' }
    const { text } = await trial.call('/api/items/1', { headers })
    expect(JSON.parse(text)).toMatchObject({ tracestate: 'a=1,b=2' })
    await trial.call('/relay/x/some', { headers })
    for (const traceparent of [
      '',
      'private',
      `ff-${traceId}-b7ad6b7169203331-01`,
      `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
      `00-${traceId}-${'0'.repeat(16)}-01`,
      `00-${traceId.toUpperCase()}-b7ad6b7169203331-01`,
    ]) {
      await trial.call('/api/items/2', { headers: { traceparent } })
    }
  }
  target.closeAllConnections()
  target.close()
  await traces[Symbol.asyncDispose]()
  const requests = there.spans.filter(({ name }) => name === 'GET /api/items/{id}')
  expect(requests).toHaveLength(7)
  expect(requests.filter((span) => span.traceId === traceId)).toMatchObject([
    { parentSpanId: 'b7ad6b7169203331' },
  ])
  const relayed = there.spans.find(({ name }) => name === 'GET /relay/{name}/*')
  expect(seen[0]?.traceparent).toBe(`00-${traceId}-${relayed?.spanId}-01`)
  expect(seen[0]?.tracestate).toBe('a=1,b=2')
})

test('the sampling decision of the caller and the sampling ratio apply', async () => {
  await using there = await traceReceiver()
  const traces = await open(there.url, 0)
  {
    await using trial = await startServer(traces)
    const traceId = '0af7651916cd43dd8448eb211c80319c'
    const { text } = await trial.call('/api/items/1', {
      headers: { traceparent: `00-${traceId}-b7ad6b7169203331-00` },
    })
    expect(JSON.parse(text).traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`))
    await trial.call('/api/items/2')
    await trial.call('/api/items/3', { headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01` } })
  }
  await traces[Symbol.asyncDispose]()
  expect(there.spans.filter(({ kind }) => kind === 2)).toHaveLength(1)
})

test('a request within a span continues its trace', async () => {
  await using there = await traceReceiver()
  const traces = await open(there.url)
  const seen: (string | null)[][] = []
  const far = tracedFetch(async (input, init) => {
    const { headers } = new Request(input, init)
    seen.push([headers.get('traceparent'), headers.get('x-own')])
    return new Response('ok')
  }, traces)
  await far('http://127.0.0.1/', { method: 'POST', body: 'x' })
  const span = traces.startSpan('work')
  await span.run(() => far('http://127.0.0.1/', { headers: { 'x-own': '1' } }))
  await span.run(() => far(new Request('http://127.0.0.1/', { method: 'PUT', headers: { 'x-own': '1' } })))
  span.end()
  await traces[Symbol.asyncDispose]()
  const { traceparent } = span.headers
  expect(seen).toEqual([
    [null, null],
    [traceparent, '1'],
    [traceparent, '1'],
  ])
})

test('a missing receiver loses spans and nothing else', async () => {
  const traces = await open('http://127.0.0.1:9/v1/traces')
  await using trial = await startServer(traces)
  expect((await trial.call('/api/items/1')).status).toBe(200)
  await traces[Symbol.asyncDispose]()
})
