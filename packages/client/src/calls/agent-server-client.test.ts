import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unixFetch } from '@slipway/http'
import { Problem } from '@slipway/protocol/client'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { Client } from './agent-server-client.ts'
import { CallError, ConnectionError } from './errors.ts'

const id = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11'
const params = { conversation_id: id }

/** A server that answers one way; what it was asked is in `asked`. */
async function withServer<T>(
  respond: (request: IncomingMessage, response: ServerResponse) => void,
  use: (url: string, recorded: { url?: string; key?: unknown; body: string }) => Promise<T>,
): Promise<T> {
  const recorded: { url?: string; key?: unknown; body: string } = { body: '' }
  const server = createServer(async (request, response) => {
    recorded.url = request.url ?? ''
    recorded.key = request.headers['x-session-api-key']
    for await (const chunk of request) recorded.body += chunk
    respond(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, recorded)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const respondJson =
  (value: unknown, status = 200) =>
  (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))

test('a call fills the path and the query, keeps the prefix of the base address and sends the key', async () => {
  await withServer(respondJson({ items: [], next_page_id: null }), async (url, asked) => {
    const client = new Client({ url: `${url}/behind/proxy/`, sessionApiKey: new Secret('s3cret') })
    const query = { limit: '5', kind: 'ActionEvent', body: 'a&b ς', page_id: undefined }
    expect(await client.call('searchEvents', { params, query })).toEqual({ items: [], next_page_id: null })
    expect(asked.url).toBe(
      `/behind/proxy/api/conversations/${id}/events/search?limit=5&kind=ActionEvent&body=a%26b+%CF%82`,
    )
    expect(asked.key).toBe('s3cret')
  })
})

test('numbers and switches of a query are written as texts, and a call without input needs none', async () => {
  await withServer(respondJson({ items: [] }), async (url, asked) => {
    const client = new Client({ url })
    await client.call('searchConversations', { query: { limit: 5, include_skills: true } })
    expect(asked.url).toBe('/api/conversations/search?limit=5&include_skills=true')
    await client.call('searchConversations')
    expect(asked.url).toBe('/api/conversations/search')
    // @ts-expect-error a moment is a text, not the number that it is after parsing
    await client.call('searchEvents', { params, query: { timestamp__gte: 5 } })
    // @ts-expect-error the path of this one has a parameter
    await client.call('searchEvents').catch(() => undefined)
  })
})

test('a request needs no member that has a default', async () => {
  await withServer(respondJson({ id }), async (url, asked) => {
    const body = {
      agent: { llm: { model: 'scripted/m' }, tools: [{ name: 'terminal' }] },
      workspace: { working_dir: '.' },
    }
    await new Client({ url }).call('createConversation', { body })
    expect(JSON.parse(asked.body)).toEqual(body)
  })
})

test('a list in the query is repeated and a path parameter is escaped', async () => {
  await withServer(respondJson([null]), async (url, asked) => {
    const client = new Client({ url })
    await client.call('getEvents', { params, query: { ids: ['a', 'b'] } })
    expect(asked.url).toBe(`/api/conversations/${id}/events?ids=a&ids=b`)
    await client.call('getEvent', { params: { ...params, event_id: 'a/x?y' } })
    expect(asked.url).toBe(`/api/conversations/${id}/events/a%2Fx%3Fy`)
    expect(asked.key).toBeUndefined()
    const beyond = client.call('getEvent', { params: { ...params, event_id: '..' } })
    await expect(beyond).rejects.toMatchObject({ code: 'bad_request' })
  })
})

test('the key does not follow a redirect to another origin', async () => {
  await withServer(respondJson({}), async (foreign, taken) => {
    const redirect = (_: IncomingMessage, response: ServerResponse) =>
      void response.writeHead(307, { location: `${foreign}/take` }).end()
    await withServer(redirect, async (url) => {
      const client = new Client({ url, sessionApiKey: new Secret('s3cret') })
      const reason = expect.stringContaining(`${url} redirects to ${foreign}`)
      await expect(client.call('serverInfo')).rejects.toMatchObject({
        name: 'ConnectionError',
        message: reason,
      })
      expect(taken.url).toBeUndefined()
    })
  })
})

test('a JSON body is sent and its answer read', async () => {
  await withServer(respondJson({ success: true }), async (url, asked) => {
    const body = { content: [{ type: 'text' as const, text: 'Γεια' }] }
    expect(await new Client({ url }).call('sendMessage', { params, body })).toEqual({ success: true })
    expect(JSON.parse(asked.body)).toEqual(body)
  })
})

test('a refusal becomes a CallError with the detail and the issues of the server', async () => {
  const fault = { loc: ['query', 'limit'], msg: 'Input should be greater than 0', type: 'greater_than' }
  await withServer(respondJson({ detail: [fault] }, 422), async (url) => {
    const error = await new Client({ url })
      .call('searchEvents', { params, query: { limit: '0' } })
      .catch((e) => e)
    expect(error).toBeInstanceOf(CallError)
    expect(error).toMatchObject({
      status: 422,
      issues: [fault],
      detail: 'query.limit: Input should be greater than 0',
    })
  })
  await withServer(respondJson({ detail: 'Conversation not found' }, 404), async (url) => {
    const error = await new Client({ url }).call('countEvents', { params }).catch((e) => e)
    expect(error).toMatchObject({ status: 404, issues: undefined, detail: 'Conversation not found' })
  })
})

test('a refusal that is no JSON still says its status', async () => {
  const page = (_: IncomingMessage, response: ServerResponse) => void response.writeHead(502).end('<html>')
  await withServer(page, async (url) => {
    await expect(new Client({ url }).call('alive')).rejects.toThrow('502: Bad Gateway')
  })
})

test('an unreachable server is a ConnectionError that says what to do', async () => {
  const url = await withServer(respondJson({}), (url) => Promise.resolve(url))
  const error = await new Client({ url }).call('alive').catch((e) => e)
  expect(error).toBeInstanceOf(ConnectionError)
  expect(error.message).toContain(url)
  expect(error.message).toContain('slipway serve')
})

test('an abort rejects with the reason of the signal', async () => {
  await withServer(respondJson({}), async (url) => {
    const reason = new Error('enough')
    await expect(new Client({ url }).call('alive', { signal: AbortSignal.abort(reason) })).rejects.toBe(
      reason,
    )
  })
})

test('an import streams its body and an export streams it back', async () => {
  await withServer(respondJson({ conversation_id: id, imported: 2 }, 201), async (url, asked) => {
    const stream = new Blob(['{"a":', '1}\n']).stream()
    const client = new Client({ url })
    expect(await client.importEvents(stream, { unknown: 'keep' })).toEqual({
      conversation_id: id,
      imported: 2,
    })
    expect(asked).toMatchObject({ url: '/api/conversations/import?unknown=keep', body: '{"a":1}\n' })
  })
  const lines = (_: IncomingMessage, response: ServerResponse) => void response.end('{"b":2}\n')
  await withServer(lines, async (url, asked) => {
    const stream = await new Client({ url }).exportEvents(id, { meta: true })
    expect(await new Response(stream).text()).toBe('{"b":2}\n')
    expect(asked.url).toBe(`/api/conversations/${id}/export?meta=true&gzip=false`)
  })
})

test.each(['127.0.0.1:8000', 'ftp://x', 'http://user:pass@x', 'http://x/?a=1', ''])(
  '%j is no base address',
  (url) => {
    expect(() => new Client({ url })).toThrow(Problem)
  },
)

test('with a fetch that knows Unix sockets, a client speaks to a server on one', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'client-'))
  const path = join(directory, 'A server.sock')
  const asked: (string | undefined)[] = []
  const server = createServer((request, response) => {
    asked.push(request.url)
    respondJson({ items: [], next_page_id: null })(request, response)
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  const url = `http+unix://${encodeURIComponent(path)}`
  const client = new Client({ url: `${url}/behind/`, fetch: unixFetch })
  expect(client.url).toBe(`${url}/behind`)
  expect(await client.call('searchEvents', { params, query: { limit: '5' } })).toEqual({
    items: [],
    next_page_id: null,
  })
  expect(asked).toEqual([`/behind/api/conversations/${id}/events/search?limit=5`])
  const other = new Client({ url: url.replace('A%20server', 'nobody'), fetch: unixFetch })
  await expect(other.call('alive')).rejects.toBeInstanceOf(ConnectionError)
  await new Promise((resolve) => server.close(resolve))
  await rm(directory, { recursive: true })
})

test.for([
  ['an answer', 200],
  ['a refusal', 400],
] as const)('%s without an end is left when it is longer than the limit', async ([, status]) => {
  const endless = (_: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    const write = (): void => void (response.destroyed || response.write('"x'.repeat(50_000), write))
    write()
  }
  await withServer(endless, async (url) => {
    const call = new Client({ url, maxAnswerBytes: 100_000 }).call('countConversations')
    if (status === 200) await expect(call).rejects.toThrow(ConnectionError)
    else await expect(call).rejects.toThrow('400: Bad Request')
  })
})
