import dns from 'node:dns'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { accessToken, signInToMcpServer } from './oauth.ts'

async function listen(answer: RequestListener): Promise<number> {
  const server = createServer(answer)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** Names lead to this machine; those of the internet have a public address besides. */
function resolveNames(): void {
  const real = dns.lookup
  const resolve = (name: string, options: object, done: (...found: unknown[]) => void) => {
    const here = { address: '127.0.0.1', family: 4 }
    const list = name.endsWith('.corp.example') ? [here] : [here, { address: '93.184.216.34', family: 4 }]
    if ('all' in options && options.all === true) done(null, list)
    else done(null, here.address, here.family)
  }
  const replace = (lookup: unknown) => {
    Object.assign(dns, { lookup })
    syncBuiltinESMExports()
  }
  replace(resolve)
  onTestFinished(() => replace(real))
}

const refusal = 'for its sign-in, which is in a private network'

test.for([
  ['mcp.internet.example', '127.0.0.1', 0],
  ['mcp.internet.example', 'sso.corp.example', 0],
  ['mcp.corp.example', 'sso.corp.example', 1],
  ['127.0.0.1', 'sso.corp.example', 1],
] as const)(
  'the server %s names %s for its sign-in: it is asked %i times',
  async ([server, other, times]) => {
    resolveNames()
    let asked = 0
    const internal = await listen((_, response) => {
      asked++
      response.writeHead(404).end()
    })
    const metadata = `http://${other}:${internal}/metadata`
    const port = await listen((request, response) => {
      const headers = { 'www-authenticate': `Bearer resource_metadata="${metadata}"` }
      if (request.url === '/mcp') response.writeHead(401, headers).end()
      else response.writeHead(404).end()
    })
    const signIn = signInToMcpServer({
      ...{ url: `http://${server}:${port}/mcp`, headers: {}, authentication: {} },
      ...{ redirectUrl: 'http://localhost:1/callback', consent: async () => ({ code: '' }) },
      signal: AbortSignal.timeout(10_000),
    })
    const text = `${other}:${internal} ${refusal}`
    await expect(signIn).rejects.toThrow(times === 0 ? text : /^(?!.*private network)/)
    expect(asked).toBe(times)
  },
)

test('a renewal names the host that was refused, and no token', async () => {
  resolveNames()
  const port = await listen((request, response) => {
    if (request.url?.includes('oauth-protected-resource') !== true) return response.writeHead(404).end()
    const resource = `http://mcp.internet.example:${port}/mcp`
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ resource, authorization_servers: ['http://10.1.2.3/'] }))
  })
  const state = {
    tokens: { access_token: 'old', token_type: 'bearer', refresh_token: 'renewing' },
    client_info: { client_id: 'c' },
    token_expires_at: 1,
  }
  const token = accessToken(`http://mcp.internet.example:${port}/mcp`, { state }, undefined)
  await expect(token).rejects.toThrow(`could not be renewed: the server names 10.1.2.3 ${refusal}`)
})

test.for([
  [500, (body: string) => `<pre>${body}</pre>`],
  [400, (body: string) => JSON.stringify({ error: 'server_error', error_description: body })],
  [400, (body: string) => JSON.stringify({ error: body })],
  [200, (body: string) => JSON.stringify({ error: 'server_error', error_description: body })],
] as const)('an error that repeats the tokens of a renewal reaches no log: %s', async ([status, answer]) => {
  const printed = vi.spyOn(console, 'warn').mockImplementation(() => {})
  onTestFinished(() => printed.mockRestore())
  const port = await listen(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString()
    const issuer = `http://127.0.0.1:${port}`
    const json = { 'content-type': 'application/json' }
    if (request.url?.includes('oauth-protected-resource'))
      response
        .writeHead(200, json)
        .end(JSON.stringify({ resource: `${issuer}/mcp`, authorization_servers: [issuer] }))
    else if (request.url?.includes('.well-known'))
      response.writeHead(200, json).end(
        JSON.stringify({
          ...{ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` },
          ...{ response_types_supported: ['code'], code_challenge_methods_supported: ['S256'] },
        }),
      )
    else response.writeHead(status).end(answer(body))
  })
  const state = {
    tokens: { access_token: 'old', token_type: 'bearer', refresh_token: 'a-refresh-token' },
    client_info: { client_id: 'c' },
    token_expires_at: 1,
  }
  await expect(accessToken(`http://127.0.0.1:${port}/mcp`, { state }, undefined)).rejects.toThrow()
  expect(JSON.stringify(printed.mock.calls)).toContain(`HTTP ${status}`)
  expect(JSON.stringify(printed.mock.calls)).not.toContain('a-refresh-token')
})
