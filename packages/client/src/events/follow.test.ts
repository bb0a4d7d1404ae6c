import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Client } from '../calls/agent-server-client.ts'
import { CallError } from '../calls/errors.ts'
import { follow, type TransientUpdate } from './follow.ts'

const id = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11'

async function withServer<T>(listener: RequestListener, use: (client: Client) => Promise<T>): Promise<T> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  try {
    return await use(new Client({ url: `http://127.0.0.1:${port}` }))
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** A log of `size` events; the nth connection to its stream ends after `cuts[n]` bytes, cleanly or not. */
function serveEventLog(
  size: number,
  cuts: readonly { readonly bytes: number; readonly isClean: boolean }[],
): RequestListener {
  let connections = 0
  return (request, response) => {
    const url = new URL(request.url ?? '', 'http://x')
    if (url.pathname.endsWith('/events/count')) return void respondJson(response, size)
    if (!url.pathname.endsWith('/stream')) return void respondJson(response, { execution_status: 'idle' })
    // One event again that was read before, as a careless server might.
    const first = Math.max(1, Number(url.searchParams.get('after')))
    let text = ': open\n\n'
    for (let n = first; n <= size; n++)
      text += `id: ${n}\ndata: {"kind":"PauseEvent",\ndata: "id":"ευρώ ${n} 🐢"}\n\n`
    const connectionCut = cuts[connections++] ?? { bytes: Number.POSITIVE_INFINITY, isClean: true }
    response.setHeader('content-type', 'text/event-stream')
    const bytes = Buffer.from(text).subarray(0, connectionCut.bytes)
    response.write(bytes, () => (connectionCut.isClean ? response.end() : response.destroy()))
  }
}

function respondJson(response: Parameters<RequestListener>[1], value: unknown): void {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(value))
}

test('however a stream is cut, each event comes once and in order', async () => {
  const cut = fc.record({ bytes: fc.nat({ max: 900 }), isClean: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: 20 }),
      fc.array(cut, { maxLength: 6 }),
      fc.nat({ max: 20 }),
      async (size, cuts, from) => {
        const after = Math.min(from, size)
        const seen = await withServer(serveEventLog(size, cuts), async (client) => {
          const items: [number, unknown][] = []
          for await (const { position, event } of follow(client, id, {
            after,
            until: 'idle',
            retryDelayMs: () => 0,
          })) {
            items.push([position, event.id])
          }
          return items
        })
        expect(seen).toEqual(
          Array.from({ length: size - after }, (_, n) => [after + n + 1, `ευρώ ${after + n + 1} 🐢`]),
        )
      },
    ),
    { numRuns: 60 },
  )
})

test.each([401, 403, 404, 422])('a refusal with %i ends the following with its error', async (status) => {
  const refuse: RequestListener = (_, response) => void response.writeHead(status).end('{"detail":"no"}')
  await withServer(refuse, async (client) => {
    const reading = follow(client, id).next()
    await expect(reading).rejects.toMatchObject({ status, detail: 'no' })
    await expect(reading).rejects.toBeInstanceOf(CallError)
  })
})

test('a server that fails for a while is asked again', async () => {
  let failures = 0
  const whole = serveEventLog(2, [])
  const waits: number[] = []
  const moody: RequestListener = (request, response) =>
    failures++ < 3 ? void response.writeHead(503).end() : whole(request, response)
  await withServer(moody, async (client) => {
    const retryDelayMs = (n: number) => waits.push(n) && 0
    const positions = await Array.fromAsync(
      follow(client, id, { until: 'idle', retryDelayMs }),
      (item) => item.position,
    )
    expect(positions).toEqual([1, 2])
    expect(waits).toEqual([1, 2, 3])
  })
})

test('a connection that falls silent is given up and made again', async () => {
  let connections = 0
  const whole = serveEventLog(1, [])
  const deaf: RequestListener = (request, response) => {
    if (connections++ === 0)
      return void response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    if (connections === 2) return
    whole(request, response)
  }
  await withServer(deaf, async (client) => {
    const items = follow(client, id, { until: 'idle', silenceTimeoutMs: 30, retryDelayMs: () => 0 })
    expect((await Array.fromAsync(items)).length).toBe(1)
  })
  expect(connections).toBeGreaterThan(2)
})

test('aborting ends the following quietly, while reading and while waiting to try again', async () => {
  const endless: RequestListener = (_, response) => void response.write('id: 1\ndata: {}\n\n')
  const failing: RequestListener = (_, response) => void response.writeHead(500).end()
  await withServer(endless, async (client) => {
    const stop = new AbortController()
    const items = follow(client, id, { signal: stop.signal })
    expect((await items.next()).value).toMatchObject({ position: 1 })
    const next = items.next()
    stop.abort()
    expect(await next).toEqual({ done: true, value: undefined })
  })
  await withServer(failing, async (client) => {
    const stop = new AbortController()
    const retryDelayMs = () => {
      setImmediate(() => stop.abort())
      return 60_000
    }
    expect(await Array.fromAsync(follow(client, id, { signal: stop.signal, retryDelayMs }))).toEqual([])
  })
})

test('hints are told between the events, asked for only by who listens, and count as no event', async () => {
  const asked: (string | null)[] = []
  const speaking: RequestListener = (request, response) => {
    const url = new URL(request.url ?? '', 'http://x')
    if (!url.pathname.endsWith('/stream')) return serveEventLog(2, [])(request, response)
    asked.push(url.searchParams.get('hints'))
    const piece = (content: string) =>
      `event: hint\ndata: {"kind":"StreamingDeltaEvent","content":"${content}"}\n\n`
    const event = (n: number) => `id: ${n}\ndata: {"kind":"PauseEvent","id":"${n}"}\n\n`
    response.setHeader('content-type', 'text/event-stream')
    response.end(`${piece('a')}${event(1)}${piece('b')}event: other\ndata: x\n\n${piece('c')}${event(2)}`)
  }
  await withServer(speaking, async (client) => {
    const seen: unknown[] = []
    const onTransientUpdate = (hint: TransientUpdate) => seen.push('content' in hint && hint.content)
    for await (const { position } of follow(client, id, { until: 'idle', onTransientUpdate }))
      seen.push(position)
    expect(seen).toEqual(['a', 1, 'b', 'c', 2])
    const items = await Array.fromAsync(follow(client, id, { until: 'idle' }))
    expect(items.map(({ position }) => position)).toEqual([1, 2])
    const fault = new Error('mine')
    const throwing = follow(client, id, {
      onTransientUpdate() {
        throw fault
      },
    })
    await expect(throwing.next()).rejects.toBe(fault)
  })
  expect(asked).toEqual(['true', null, 'true'])
})

test('who stops reading closes the connection', async () => {
  const closed = Promise.withResolvers<void>()
  const endless: RequestListener = (_, response) => {
    response.on('close', () => closed.resolve())
    response.write('id: 1\ndata: {}\n\n')
  }
  await withServer(endless, async (client) => {
    for await (const { position } of follow(client, id)) {
      expect(position).toBe(1)
      break
    }
    await closed.promise
  })
})

/** A log that was restored after the client had read two events: others follow the first. */
function serveRestoredLog(starts: string[]): RequestListener {
  const resync = { after: 0, head: 2, cursor: '2.00000002', message: 'Another history.' }
  const event = (n: number, digest: string) =>
    `id: ${n}.${digest}\ndata: {"kind":"PauseEvent","id":"${digest}"}\n\n`
  return (request, response) => {
    const url = new URL(request.url ?? '', 'http://x')
    if (!url.pathname.endsWith('/stream')) return serveEventLog(2, [])(request, response)
    const start = String(request.headers['last-event-id'] ?? url.searchParams.get('after') ?? '')
    starts.push(start)
    response.setHeader('content-type', 'text/event-stream')
    if (start === '') return void response.end(event(1, '00000001') + event(2, '00000002'))
    if (start.startsWith('2.00000003')) return void response.end()
    response.write(`event: resync\nid: 0\ndata: ${JSON.stringify(resync)}\n\n`)
    response.end(event(1, '00000001') + event(2, '00000003'))
  }
}

test('a reader of a log that continues in another history gets a notice, and reads that history from its beginning', async () => {
  const starts: string[] = []
  await withServer(serveRestoredLog(starts), async (client) => {
    const seen: unknown[] = []
    const onResync = ({ after, cursor }: { after: number; cursor: string }) => seen.push({ after, cursor })
    const stop = new AbortController()
    const options = { onResync, signal: stop.signal, retryDelayMs: () => 0 }
    for await (const { cursor } of follow(client, id, options)) {
      seen.push(cursor)
      if (seen.length === 5) stop.abort()
    }
    expect(seen).toEqual([
      '1.00000001',
      '2.00000002',
      { after: 0, cursor: '2.00000002' },
      '1.00000001',
      '2.00000003',
    ])
  })
  expect(starts).toEqual(['', '2.00000002'])
})

test('without a listener another history ends the following with an error', async () => {
  await withServer(serveRestoredLog([]), async (client) => {
    const items = follow(client, id, { after: '2.00000002' })
    await expect(items.next()).rejects.toMatchObject({ name: 'ResyncError', resync: { after: 0, head: 2 } })
    const fault = new Error('mine')
    const throwing = follow(client, id, {
      after: '2.00000002',
      onResync() {
        throw fault
      },
    })
    await expect(throwing.next()).rejects.toBe(fault)
  })
})

test('a bare position is answered by cursors, which the next connection names', async () => {
  const starts: string[] = []
  await withServer(serveRestoredLog(starts), async (client) => {
    const items = follow(client, id, { after: 2, onResync: () => {} })
    expect((await items.next()).value).toMatchObject({ position: 1, cursor: '1.00000001' })
    await items.return()
  })
  expect(starts).toEqual(['2'])
})
