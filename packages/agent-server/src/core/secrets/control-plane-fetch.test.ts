import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { webhookSpec } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { sameOriginFetch } from '@slipway/shared/url'
import { expect, onTestFinished, test } from 'vitest'
import { controlPlaneFetch } from './control-plane-fetch.ts'

const key = 'sk-of-this-server'
const door = 'http+unix://%2Frun%2Fhost.sock'
const path = '/api/v1/sandboxes/sb-1/settings/secrets/TOKEN'

/** Where a request goes. */
async function target(url: string, webhooks: readonly string[], headers: Record<string, string>) {
  let called = ''
  const config = {
    webhooks: webhooks.map((base_url) => webhookSpec.parse({ base_url })),
    sessionKeys: [new Secret(key)],
  }
  const fetch = controlPlaneFetch(config, async (input) => {
    called = String(input)
    return new Response()
  })
  await fetch(url, { headers })
  return called
}

test.each([
  ['http://127.0.0.1:3000'],
  ['http://localhost:3000'],
  ['https://slipway.example'],
  ['https://slipway.example/some/where'],
])('a secret of the control plane, known to a client as %s, is fetched through its door', async (base) => {
  const webhooks = ['https://other.example/hooks', `${door}/api/v1/webhooks`]
  expect(await target(base + path, webhooks, { 'X-Session-API-Key': key })).toBe(door + path)
  expect(
    await target(base + path, ['http://10.0.0.1:3000/base/api/v1/webhooks/'], { 'x-session-api-key': key }),
  ).toBe(`http://10.0.0.1:3000/base${path}`)
})

test.each([
  ['with another key', `http://127.0.0.1:3000${path}`, { 'x-session-api-key': 'other' }],
  ['without a key', `http://127.0.0.1:3000${path}`, {}],
  ['with an empty key', `http://127.0.0.1:3000${path}`, { 'x-session-api-key': '' }],
  ['of another path', 'http://127.0.0.1:3000/api/v1/users/me', { 'x-session-api-key': key }],
  ['that leaves the path', `http://127.0.0.1:3000${path}/../../x`, { 'x-session-api-key': key }],
  ['with a query', `http://127.0.0.1:3000${path}?to=x`, { 'x-session-api-key': key }],
] as const)('a request %s stays as it is', async (_, url, headers) => {
  expect(await target(url, [`${door}/api/v1/webhooks`], headers)).toBe(url)
})

test('without webhooks of a control plane nothing is rewritten', async () => {
  const url = `http://127.0.0.1:3000${path}`
  for (const webhooks of [
    [],
    ['https://other.example/hooks'],
    ['https://user:word@a.example/api/v1/webhooks'],
  ])
    expect(await target(url, webhooks, { 'x-session-api-key': key })).toBe(url)
})

test('a redirect of the control plane takes the key to no address that the client named', async () => {
  const open = async (status: number, location: string) => {
    const requests: string[] = []
    const server = createServer((request, answer) => {
      requests.push(`${request.url} ${request.headers['x-session-api-key']}`)
      answer.writeHead(status, { location }).end()
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void server.close())
    return { requests, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }
  const [controlPlane, named] = [await open(307, '/elsewhere'), await open(200, '')]
  const webhooks = [webhookSpec.parse({ base_url: `${controlPlane.url}/api/v1/webhooks` })]
  const fetch = sameOriginFetch(controlPlaneFetch({ webhooks, sessionKeys: [new Secret(key)] }))
  await expect(fetch(named.url + path, { headers: { 'x-session-api-key': key } })).rejects.toThrow()
  expect(controlPlane.requests).toEqual([`${path} ${key}`])
  expect(named.requests).toEqual([])
})
