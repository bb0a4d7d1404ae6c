import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Problem } from '@slipway/protocol/client'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { Client } from './agent-server-client.ts'
import { CallError, ConnectionError } from './errors.ts'
import { SandboxServerClient } from './sandbox-server-client.ts'

const id = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11'

interface RecordedRequest {
  readonly line: string
  readonly authorization: string | undefined
  readonly sessionKey: unknown
  readonly body: string
}

/** A server that gives one answer; `asked` is what it was asked, in order. */
async function withServer<T>(
  respond: (response: ServerResponse) => void,
  use: (url: string, requests: RecordedRequest[]) => Promise<T>,
): Promise<T> {
  const requests: RecordedRequest[] = []
  const server = createServer(async (request: IncomingMessage, response) => {
    const { authorization, 'x-session-api-key': sessionKey } = request.headers
    const body = Buffer.concat(await request.toArray()).toString('utf8')
    requests.push({ line: `${request.method} ${request.url}`, authorization, sessionKey, body })
    respond(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const respondJson =
  (value: unknown, status = 200) =>
  (response: ServerResponse) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))

test('a call of the control plane goes to its route with the key as a bearer token', async () => {
  await withServer(respondJson({ success: true }), async (url, asked) => {
    const client = new SandboxServerClient({ url: `${url}/behind/proxy/`, apiKey: new Secret('sk-1') })
    await client.call('pauseSandbox', { params: { sandbox_id: 'sb-1/2' } })
    await client.call('sendAppMessage', { params: { conversation_id: id }, body: { content: 'Γεια' } })
    await client.call('getSandboxes', { query: { id: ['a', 'b'] } })
    expect(asked).toEqual([
      { line: 'POST /behind/proxy/api/v1/sandboxes/sb-1%2F2/pause', authorization: 'Bearer sk-1', body: '' },
      {
        line: `POST /behind/proxy/api/v1/app-conversations/${id}/send-message`,
        authorization: 'Bearer sk-1',
        body: '{"content":"Γεια"}',
      },
      { line: 'GET /behind/proxy/api/v1/sandboxes?id=a&id=b', authorization: 'Bearer sk-1', body: '' },
    ])
    expect(client.url).toBe(`${url}/behind/proxy`)
  })
})

test('without a key none is sent', async () => {
  await withServer(respondJson(7), async (url, asked) => {
    expect(await new SandboxServerClient({ url }).call('countAppConversations')).toBe(7)
    expect(asked[0]).toMatchObject({ authorization: undefined, sessionKey: undefined })
  })
})

test('an answer that is no JSON is a text, and one that is opened is left unread', async () => {
  const answer = (response: ServerResponse) =>
    void response.writeHead(200, { 'content-type': 'text/plain' }).end('OK')
  await withServer(answer, async (url) => {
    const client = new SandboxServerClient({ url })
    expect(await client.call('health')).toBe('OK')
    expect(await (await client.open('health', {})).text()).toBe('OK')
  })
})

test('a refusal says what the server said, also when it says more than words', async () => {
  const detail = { message: 'The sandbox does not run', sandbox_status: 'PAUSED' }
  await withServer(respondJson({ detail }, 409), async (url) => {
    const calling = new SandboxServerClient({ url, apiKey: 'sk-1' }).call('resumeSandbox', {
      params: { sandbox_id: 'sb-1' },
    })
    const error = await calling.catch((e) => e)
    expect(error).toBeInstanceOf(CallError)
    expect(error).toMatchObject({ status: 409, detail: 'The sandbox does not run', issues: undefined })
  })
  await withServer(respondJson({ detail: { sandbox_status: 'PAUSED' } }, 409), async (url) => {
    const error = await new SandboxServerClient({ url }).call('me').catch((e) => e)
    expect(error).toMatchObject({ status: 409, detail: 'Conflict' })
  })
})

test('an unreachable server is reported with the command that starts one', async () => {
  const url = await withServer(respondJson(null), async (address) => address)
  const error = await new SandboxServerClient({ url }).call('me').catch((e) => e)
  expect(error).toBeInstanceOf(ConnectionError)
  expect(error.message).toContain('slipway sandbox-server')
  const agent = await new Client({ url }).call('searchConversations').catch((e) => e)
  expect(agent.message).toContain('"slipway serve"')
})

test('a signal ends a call with its reason, and an address that is none is refused', async () => {
  await withServer(
    () => undefined,
    async (url) => {
      const reason = new Error('enough')
      const calling = new SandboxServerClient({ url }).call('me', { signal: AbortSignal.abort(reason) })
      expect(await calling.catch((e) => e)).toBe(reason)
    },
  )
  expect(() => new SandboxServerClient({ url: 'ftp://host' })).toThrow(Problem)
  expect(() => new SandboxServerClient({ url: 'http://user:pass@host' })).toThrow(Problem)
})

test('the key is in no text that the client becomes', () => {
  const client = new SandboxServerClient({ url: 'http://127.0.0.1:1', apiKey: 'sk-very-secret' })
  expect(JSON.stringify(client) + String(client)).not.toContain('sk-very-secret')
})
