import { expect } from 'vitest'
import { expectAnswer, expectUnauthorized, filesWith } from '../answers.ts'
import { differs, endFamily, type MapId, mapCase } from '../frame.ts'
import { type Json, OwnMapServer, openMapServer } from '../map-server.ts'
import { StoredDocument } from '../stored-document.ts'
import { openSubscriptionProvider } from './subscription-provider.ts'

/** The proxy of these servers refuses: nothing of these cases reaches the provider. */
const offline = { HTTPS_PROXY: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' }
const unreachable = {
  ...offline,
  SLIPWAY_SUBSCRIPTION_CLIENT_ID: 'map-client',
  SLIPWAY_SUBSCRIPTION_ISSUER: 'http://127.0.0.1:9',
}
const map = openMapServer(unreachable)
const own = { hasOwnServer: true }
const base = '/api/llm/subscription/openai'
const signedOut = { vendor: 'openai', connected: false, account_email: null, expires_at: null }
const status = (on: Pick<typeof map, 'requestOrThrow'> = map) => on.requestOrThrow('GET', `${base}/status`)

mapCase('F24.models', 'ids of models, sorted', async () => {
  const found = await map.requestOrThrow<{ vendor: string; models: string[] }>('GET', `${base}/models`)
  expect(found.vendor).toBe('openai')
  expect(found.models.length).toBeGreaterThan(0)
  expect(found.models).toEqual([...found.models].sort())
})
mapCase('F24.status-disconnected', 'without a sign-in nothing is connected', async () => {
  expect(await status()).toEqual(signedOut)
})
mapCase('F24.auth-required', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['GET', `${base}/models`],
    ['GET', `${base}/status`],
    ['POST', `${base}/device/start`],
    ['POST', `${base}/device/poll`, { device_code: 'x' }],
    ['POST', `${base}/logout`],
  )
})
mapCase('F24.logout', 'a sign-out is 200, with or without a sign-in', async () => {
  for (let n = 0; n < 2; n++) expect(await map.requestOrThrow('POST', `${base}/logout`)).toEqual(signedOut)
  expect(await status()).toEqual(signedOut)
})
mapCase('F24.device-poll-invalid', 'a poll without a code is 422', async () => {
  await expectAnswer(map, 422, 'POST', `${base}/device/poll`)
  for (const body of [{}, { device_code: 5 }])
    await expectAnswer(map, 422, 'POST', `${base}/device/poll`, { body })
})
mapCase('F24.device-poll-unknown', 'a code that was never given is 404', async () => {
  await expectAnswer(
    map,
    404,
    'POST',
    `${base}/device/poll`,
    { body: { device_code: 'never-given' } },
    {
      detail: 'Subscription device login not found or expired',
    },
  )
})
mapCase('F24.offline-safe', 'what needs no provider answers without one', async () => {
  await map.requestOrThrow('GET', `${base}/models`)
  expect(await status()).toEqual(signedOut)
  await expectAnswer(map, 404, 'POST', `${base}/device/poll`, { body: { device_code: 'x' } })
  await map.requestOrThrow('POST', `${base}/logout`)
})
mapCase(
  'F24.device-start-offline',
  'a start without the provider is an error of a gateway',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: unreachable })
    expect([502, 503, 504]).toContain(await server.requestStatus('POST', `${base}/device/start`))
  },
  { hasOwnServer: true },
)
mapCase('F24.ts-client', 'the published client reads models and status', async () => {
  const { LLMMetadataClient } = await import('@openhands/typescript-client/clients')
  const options = { host: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) }
  const client = new LLMMetadataClient(options)
  expect((await client.getOpenAISubscriptionModels()).length).toBeGreaterThan(0)
  expect(await client.getOpenAISubscriptionStatus()).toEqual(signedOut)
  expect(await client.logoutOpenAISubscription()).toEqual(signedOut)
  await expect(client.pollOpenAISubscriptionDeviceLogin('never-given')).rejects.toMatchObject({
    status: 404,
  })
})
/** A server and its provider; `signIn` stores tokens that are valid for some seconds. */
async function openSignIn() {
  const provider = await openSubscriptionProvider()
  const env = { SLIPWAY_SUBSCRIPTION_CLIENT_ID: 'map-client', SLIPWAY_SUBSCRIPTION_ISSUER: provider.url }
  const server = await OwnMapServer.open({ key: 'map-key-2', env })
  const start = () => server.requestOrThrow<Json & { device_code: string }>('POST', `${base}/device/start`)
  const poll = (device_code: string) =>
    server.request<Json>('POST', `${base}/device/poll`, { body: { device_code } })
  return {
    ...{ provider, server, start, poll },
    async signIn(expiresIn = 3600) {
      provider.expiresIn = expiresIn
      const { device_code } = await start()
      provider.consent()
      const { body } = await poll(device_code)
      expect(body).toMatchObject({ connected: true })
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
    },
  }
}
type SignIn = Awaited<ReturnType<typeof openSignIn>>
const signInCase = (id: MapId, promise: string, run: (signIn: SignIn) => Promise<void>) =>
  mapCase(
    id,
    promise,
    async () => {
      await using signIn = await openSignIn()
      await run(signIn)
    },
    own,
  )

signInCase(
  'F24.device-start',
  'a start has a code for the user and one for polls',
  async ({ server, provider, start }) => {
    const before = Date.now()
    const started = await start()
    expect(started).toEqual({
      device_code: expect.stringMatching(/^[\w-]{43}$/),
      user_code: expect.stringMatching(/^MAP-/),
      verification_uri: `${provider.url}/codex/device`,
      verification_uri_complete: null,
      expires_at: expect.any(Number),
      interval_seconds: 5,
    })
    expect(Number(started.expires_at)).toBeGreaterThanOrEqual(before + 15 * 60_000)
    expect(await filesWith(server, started.device_code)).toEqual([])
  },
)
signInCase(
  'F24.device-poll-pending',
  'a poll before the consent keeps the code',
  async ({ provider, start, poll }) => {
    const { device_code } = await start()
    for (let n = 0; n < 2; n++)
      expect(await poll(device_code)).toMatchObject({ status: 200, body: signedOut })
    provider.consent()
    expect((await poll(device_code)).body).toMatchObject({ connected: true })
  },
)
signInCase(
  'F24.device-poll-outage',
  'an outage of the provider keeps the code',
  async ({ provider, start, poll }) => {
    const { device_code } = await start()
    provider.isAway = true
    expect((await poll(device_code)).status).toBe(502)
    provider.isAway = false
    expect(await poll(device_code)).toMatchObject({ status: 200, body: signedOut })
  },
)
signInCase(
  'F24.status-connected',
  'a stored sign-in is connected and shows no token',
  async ({ server, signIn }) => {
    await signIn()
    expect(await status(server)).toEqual({
      vendor: 'openai',
      connected: true,
      account_email: null,
      expires_at: expect.any(Number),
    })
  },
)
signInCase('F24.status-restart', 'a sign-in survives a restart', async ({ server, signIn }) => {
  await signIn()
  const before = await status(server)
  await server.restart()
  expect(await status(server)).toEqual(before)
})
signInCase(
  'F24.status-refresh-rejected',
  'a refused refresh is not connected',
  async ({ server, provider, signIn }) => {
    await signIn(30)
    provider.refusesRefresh = true
    expect(await status(server)).toEqual(signedOut)
    Object.assign(provider, { refusesRefresh: false, expiresIn: 3600 })
    expect(await status(server)).toMatchObject({ connected: true })
    await status(server)
    expect(provider.refreshes).toBe(1)
  },
)
differs(
  'F24.status-invalid-file',
  'a damaged sign-in is not connected',
  'damaged files of the server',
  async () => {
    await using signedIn = await openSignIn()
    const { server, signIn } = signedIn
    await signIn()
    await new StoredDocument(server, 'subscription.sealed').whileDamaged('bm90aGluZw==', async () => {
      const detail = expect.stringMatching(/subscription\.sealed cannot be read: .*sign out to remove it/)
      for (const [method, path] of [
        ['GET', 'status'],
        ['POST', 'device/start'],
      ] as const)
        await expectAnswer(server, 409, method, `${base}/${path}`, {}, { detail })
    })
    expect(await status(server)).toMatchObject({ connected: true })
    await new StoredDocument(server, 'subscription.sealed').write('bm90aGluZw==')
    await server.requestOrThrow('POST', `${base}/logout`)
    await signIn()
    expect(await status(server)).toMatchObject({ connected: true })
  },
)
signInCase(
  'F24.status-offline',
  'an expired sign-in without the provider is not connected',
  async ({ server, provider, signIn }) => {
    await signIn(30)
    provider.isAway = true
    expect(await status(server)).toEqual(signedOut)
  },
)
signInCase(
  'F24.logout-cancels-pending',
  'a sign-out ends waiting codes',
  async ({ server, provider, start, poll }) => {
    const { device_code } = await start()
    provider.consent()
    await server.requestOrThrow('POST', `${base}/logout`)
    expect((await poll(device_code)).status).toBe(404)
    expect(await status(server)).toEqual(signedOut)
  },
)
signInCase(
  'F24.pending-lost-on-restart',
  'waiting codes do not survive a restart',
  async ({ server, start, poll }) => {
    const { device_code } = await start()
    await server.restart()
    expect((await poll(device_code)).status).toBe(404)
  },
)
signInCase(
  'F24.login-complete',
  'after the consent a poll is connected, once',
  async ({ server, provider, start, poll }) => {
    const { device_code } = await start()
    provider.consent()
    const { body } = await poll(device_code)
    expect(body).toMatchObject({ connected: true, expires_at: expect.any(Number) })
    expect((await poll(device_code)).status).toBe(404)
    expect(await status(server)).toEqual(body)
    for (const token of ['map-access', 'map-refresh']) expect(await filesWith(server, token)).toEqual([])
    await server.requestOrThrow('POST', `${base}/logout`)
    expect(await status(server)).toEqual(signedOut)
  },
)

endFamily('F24', 20)
