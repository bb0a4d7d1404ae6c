import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The provider of a subscription: codes wait for `consent`, refresh tokens count once. */
export async function openSubscriptionProvider() {
  const verifiers = new Map<string, string>()
  const consented = new Set<string>()
  const refreshTokens = new Set<string>()
  const provider = {
    url: '',
    /** Of tokens, in seconds. */
    expiresIn: 3600,
    isAway: false,
    refusesRefresh: false,
    refreshes: 0,
    consent: () => {
      for (const id of verifiers.keys()) consented.add(id)
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  const newTokens = () => {
    const [access_token, refresh_token] = [`map-access-${randomUUID()}`, `map-refresh-${randomUUID()}`]
    refreshTokens.add(refresh_token)
    return { access_token, refresh_token, expires_in: provider.expiresIn }
  }
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString()
    const send = (status: number, value: object = {}) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    if (provider.isAway) return response.destroy()
    if (request.url === '/api/accounts/deviceauth/usercode') {
      const id = randomUUID()
      verifiers.set(id, randomUUID())
      return send(200, { device_auth_id: id, user_code: `MAP-${id.slice(0, 4)}`, interval: '5' })
    }
    if (request.url === '/api/accounts/deviceauth/token') {
      const { device_auth_id: id } = JSON.parse(body)
      if (!consented.has(id)) return send(403, { error: 'authorization_pending' })
      return send(200, { authorization_code: id, code_verifier: verifiers.get(id) })
    }
    const form = new URLSearchParams(body)
    if (request.url !== '/oauth/token' || form.get('client_id') !== 'map-client') return send(404)
    if (form.get('grant_type') === 'refresh_token') {
      const isKnown = !provider.refusesRefresh && refreshTokens.delete(form.get('refresh_token') ?? '')
      if (!isKnown) return send(400, { error: 'invalid_grant' })
      provider.refreshes++
      return send(200, newTokens())
    }
    const id = form.get('code') ?? ''
    const isRight = consented.has(id) && verifiers.get(id) === form.get('code_verifier')
    return isRight ? send(200, newTokens()) : send(400, { error: 'invalid_grant' })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  provider.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return provider
}
