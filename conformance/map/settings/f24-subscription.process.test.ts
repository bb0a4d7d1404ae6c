import { expect } from 'vitest'
import { expectAnswer, expectUnauthorized } from '../answers.ts'
import { endFamily, mapCase, missing } from '../frame.ts'
import { OwnMapServer, openMapServer } from '../map-server.ts'

/** The proxy of these servers refuses: nothing of these cases reaches the provider. */
const offline = { HTTPS_PROXY: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' }
const map = openMapServer(offline)
const base = '/api/llm/subscription/openai'
const signedOut = { vendor: 'openai', connected: false, account_email: null, expires_at: null }
const noSignIn = 'sign-in to a subscription with a device code'
const status = (on: Pick<typeof map, 'requestOrThrow'> = map) => on.requestOrThrow('GET', `${base}/status`)

missing('F24.models', 'ids of models, sorted', 'the models of a subscription', async () => {
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
missing(
  'F24.device-poll-unknown',
  'a code that was never given is 404',
  'the text of the error',
  async () => {
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
  },
)
mapCase('F24.offline-safe', 'what needs no provider answers without one', async () => {
  await map.requestOrThrow('GET', `${base}/models`)
  expect(await status()).toEqual(signedOut)
  await expectAnswer(map, 404, 'POST', `${base}/device/poll`, { body: { device_code: 'x' } })
  await map.requestOrThrow('POST', `${base}/logout`)
})
missing(
  'F24.device-start-offline',
  'a start without the provider is an error of a gateway',
  'a start of the sign-in',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2', env: offline })
    expect([502, 503, 504]).toContain(await server.requestStatus('POST', `${base}/device/start`))
  },
  { hasOwnServer: true },
)
missing(
  'F24.ts-client',
  'the published client reads models and status',
  'the models of a subscription',
  async () => {
    const { LLMMetadataClient } = await import('@openhands/typescript-client/clients')
    const options = { host: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) }
    const client = new LLMMetadataClient(options)
    expect((await client.getOpenAISubscriptionModels()).length).toBeGreaterThan(0)
    expect(await client.getOpenAISubscriptionStatus()).toEqual(signedOut)
    expect(await client.logoutOpenAISubscription()).toEqual(signedOut)
    await expect(client.pollOpenAISubscriptionDeviceLogin('never-given')).rejects.toMatchObject({
      status: 404,
    })
  },
)
missing('F24.device-start', 'a start has a code for the user and one for polls', noSignIn)
missing('F24.device-poll-pending', 'a poll before the consent keeps the code', noSignIn)
missing('F24.device-poll-outage', 'an outage of the provider keeps the code', noSignIn)
missing('F24.status-connected', 'a stored sign-in is connected and shows no token', noSignIn)
missing('F24.status-restart', 'a sign-in survives a restart', noSignIn)
missing('F24.status-refresh-rejected', 'a refused refresh is not connected', noSignIn)
missing('F24.status-invalid-file', 'a damaged sign-in is not connected', noSignIn)
missing('F24.status-offline', 'an expired sign-in without the provider is not connected', noSignIn)
missing('F24.logout-cancels-pending', 'a sign-out ends waiting codes', noSignIn)
missing('F24.pending-lost-on-restart', 'waiting codes do not survive a restart', noSignIn)
missing('F24.login-complete', 'after the consent a poll is connected, once', noSignIn)

endFamily('F24', 20)
