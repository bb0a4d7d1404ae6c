import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * An MCP server with one tool, `echo`, behind OAuth: registers clients, consents at once, checks PKCE, and
 * accepts each refresh token once.
 */
export async function openOAuthMcpServer() {
  const challenges = new Map<string, string>()
  const refreshTokens = new Set<string>()
  const accessTokens = new Set<string>()
  let refreshes = 0
  const newTokens = () => {
    const [access_token, refresh_token] = [`map-access-${randomUUID()}`, `map-refresh-${randomUUID()}`]
    accessTokens.add(access_token)
    refreshTokens.add(refresh_token)
    return { access_token, refresh_token, token_type: 'Bearer', expires_in: 3600 }
  }
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', url)
    const body = Buffer.concat(await request.toArray()).toString()
    const send = (status: number, value: object, headers: Record<string, string> = {}) =>
      response
        .writeHead(status, { 'content-type': 'application/json', ...headers })
        .end(JSON.stringify(value))
    if (pathname.startsWith('/.well-known/oauth-protected-resource'))
      return send(200, { resource: `${url}/mcp`, authorization_servers: [url] })
    if (pathname === '/.well-known/oauth-authorization-server')
      return send(200, {
        issuer: url,
        authorization_endpoint: `${url}/authorize`,
        token_endpoint: `${url}/token`,
        registration_endpoint: `${url}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
      })
    if (pathname === '/register')
      return send(201, { ...JSON.parse(body), client_id: `client-${randomUUID()}` })
    if (pathname === '/authorize') {
      const code = randomUUID()
      challenges.set(code, searchParams.get('code_challenge') ?? '')
      const location = new URL(searchParams.get('redirect_uri') ?? '')
      location.search = new URLSearchParams({ code, state: searchParams.get('state') ?? '' }).toString()
      return response.writeHead(302, { location: location.href }).end()
    }
    if (pathname === '/token') {
      const form = new URLSearchParams(body)
      const refresh = form.get('refresh_token') ?? ''
      if (form.get('grant_type') === 'refresh_token') {
        if (!refreshTokens.delete(refresh)) return send(400, { error: 'invalid_grant' })
        refreshes++
        return send(200, newTokens())
      }
      const verifier = createHash('sha256')
        .update(form.get('code_verifier') ?? '')
        .digest('base64url')
      const isRight = challenges.get(form.get('code') ?? '') === verifier
      return isRight ? send(200, newTokens()) : send(400, { error: 'invalid_grant' })
    }
    if (pathname !== '/mcp') return send(404, {})
    const token = request.headers.authorization?.replace('Bearer ', '') ?? ''
    if (!accessTokens.has(token)) {
      const metadata = `${url}/.well-known/oauth-protected-resource/mcp`
      return send(401, {}, { 'www-authenticate': `Bearer resource_metadata="${metadata}"` })
    }
    if (request.method !== 'POST') return response.writeHead(405).end()
    const { id, method, params } = JSON.parse(body)
    if (id === undefined) return response.writeHead(202).end()
    const serverInfo = { name: 'map', version: '1' }
    const tool = { name: 'echo', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }
    const results: Readonly<Record<string, object>> = {
      initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo },
      'tools/list': { tools: [tool] },
      'tools/call': { content: [{ type: 'text', text: `MAP_OAUTH:${params?.arguments?.text}` }] },
    }
    return send(200, { jsonrpc: '2.0', id, result: results[method] ?? {} })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: `${url}/mcp`,
    get refreshes() {
      return refreshes
    },
    /** The address to which a browser is sent that visits the consent. */
    async consent(authorizationUrl: string): Promise<string> {
      const { headers } = await fetch(authorizationUrl, { redirect: 'manual' })
      return headers.get('location') ?? ''
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
