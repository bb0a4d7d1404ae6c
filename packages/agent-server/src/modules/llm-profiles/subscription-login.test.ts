import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Model, OpenModel } from '@slipway/agent'
import { llm } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { SubscriptionLogin } from './subscription-login.ts'

const claims = { 'https://api.openai.com/auth': { chatgpt_account_id: 'account-1' } }
const accessToken = `head.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.canary`

/** A provider that consents at once; `seen` has the paths and headers of its requests. */
async function openProvider({ onRenewal }: { readonly onRenewal?: () => Promise<void> } = {}) {
  const seen: { path: string; authorization: string | undefined; account: unknown }[] = []
  const server = createServer(async (request, response) => {
    await request.toArray()
    const { url: path = '', headers } = request
    seen.push({ path, authorization: headers.authorization, account: headers['chatgpt-account-id'] })
    if (path === '/oauth/token') await onRenewal?.()
    const answers: Readonly<Record<string, object>> = {
      '/api/accounts/deviceauth/usercode': { device_auth_id: 'd', usercode: 'CODE', interval: 0 },
      '/api/accounts/deviceauth/token': { authorization_code: 'c', code_verifier: 'v' },
      '/oauth/token': { access_token: accessToken, refresh_token: 'r', expires_in: 100 },
    }
    if (path.endsWith('/refused')) response.statusCode = 400
    const answer = answers[path] ?? { error: headers.authorization }
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    seen,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function openLogin(directory: string, url: string, now: () => number) {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const modelsUrl = `${url}/models`
  return new SubscriptionLogin({
    documents: fileDocuments(directory),
    cipher,
    clientId: 'client',
    issuer: url,
    modelsUrl,
    now,
  })
}

/** What a model is opened with. */
function opened(login: SubscriptionLogin, members: object) {
  const calls: Parameters<OpenModel>[] = []
  login.wrap((...args) => {
    calls.push(args)
    return {} as Model
  })(llm.parse({ model: 'gpt-5', api_key: 'own', ...members }))
  const [[settings, options] = []] = calls
  return { settings, send: options?.fetch }
}

test('models of a subscription are asked with its token, which goes to them alone', async () => {
  using directory = temporaryDirectory()
  await using provider = await openProvider()
  const clock = { now: 1_000_000 }
  const login = await openLogin(directory.path, provider.url, () => clock.now)
  expect(opened(login, {})).toMatchObject({ settings: { api_key: 'own' }, send: undefined })
  const { settings, send = fetch } = opened(login, { auth_type: 'subscription' })
  expect(settings).toMatchObject({
    model: 'openai/gpt-5',
    base_url: `${provider.url}/models`,
    api_mode: 'responses',
    api_key: undefined,
  })
  const url = `${provider.url}/models/responses`
  expect((await send(url, { method: 'POST' })).status).toBe(401)
  expect(provider.seen).toEqual([])

  const { device_code, interval_seconds } = await login.start()
  expect(interval_seconds).toBeGreaterThanOrEqual(1)
  expect(await login.poll(device_code)).toMatchObject({ connected: true, expires_at: 1_100_000 })
  await send(url, { method: 'POST', headers: { authorization: 'Bearer none' } })
  const token = { authorization: `Bearer ${accessToken}`, account: 'account-1' }
  expect(provider.seen.at(-1)).toEqual({ path: '/models/responses', ...token })
  const refused = await send(`${provider.url}/models/refused`)
  expect([refused.status, await refused.json()]).toEqual([400, { error: 'Bearer **********' }])
  for (const other of ['/modelsother', '/v1/responses']) {
    await send(provider.url + other, { method: 'POST' })
    expect(provider.seen.at(-1)).toEqual({ path: other, authorization: undefined, account: undefined })
  }

  clock.now += 90_000
  provider.seen.length = 0
  await Promise.all([send(url), send(url)])
  expect(provider.seen.map(({ path }) => path)).toEqual([
    '/oauth/token',
    '/models/responses',
    '/models/responses',
  ])
  await login.logout()
  expect((await send(url)).status).toBe(401)
})

test('codes expire', async () => {
  using directory = temporaryDirectory()
  await using provider = await openProvider()
  const clock = { now: 1_000_000 }
  const login = await openLogin(directory.path, provider.url, () => clock.now)
  const { device_code, expires_at } = await login.start()
  clock.now = expires_at
  await expect(login.poll(device_code)).rejects.toMatchObject({ code: 'not_found' })
})

test('a renewal leaves tokens that another server has stored meanwhile', async () => {
  using directory = temporaryDirectory()
  let meanwhile = async () => {}
  await using provider = await openProvider({ onRenewal: () => meanwhile() })
  const clock = { now: 1_000_000 }
  const login = await openLogin(directory.path, provider.url, () => clock.now)
  expect(await login.poll((await login.start()).device_code)).toMatchObject({ connected: true })
  const other = await openLogin(directory.path, provider.url, () => clock.now)
  meanwhile = async () => void (await other.logout())
  clock.now += 90_000
  expect(await login.status()).toMatchObject({ connected: false })
  expect(await other.status()).toMatchObject({ connected: false })
})
