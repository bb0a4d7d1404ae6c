import { editorRoutes, llmCatalogueRoutes } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { editorHandlers } from '../../compat/editor/handlers.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { openTestServer } from '../../testing/test-server.ts'
import { llmCatalogueHandlers } from './catalogue-handlers.ts'
import { SubscriptionLogin } from './subscription-login.ts'

/** Nobody can sign in. */
const openCatalogue = () =>
  openTestServer(llmCatalogueRoutes, ({ directory, cipher }) => {
    const urls = { issuer: 'http://127.0.0.1:9', modelsUrl: 'http://127.0.0.1:9' }
    const subscription = new SubscriptionLogin({
      documents: fileDocuments(directory),
      cipher,
      clientId: undefined,
      ...urls,
    })
    return llmCatalogueHandlers({ subscription })
  })

test('models are listed by provider, and verified ones are among them', async () => {
  await using server = await openCatalogue()
  const get = async (path: string) => Object((await server.call('GET', `/api/llm/${path}`)).json)
  const { providers } = await get('providers')
  const { models } = await get('models')
  const { models: verified } = await get('models/verified')
  expect(providers).toContain('anthropic')
  expect(await get('models?provider=')).toEqual({ models })
  expect(await get('models?provider=nobody')).toEqual({ models: [] })
  for (const [provider, names] of Object.entries(verified)) {
    const { models: own }: { models: string[] } = await get(`models?provider=${provider}`)
    expect(own.every((model) => model.startsWith(`${provider}/`))).toBe(true)
    expect(own).toEqual(expect.arrayContaining([names].flat().map((name) => `${provider}/${name}`)))
    expect(models).toEqual(expect.arrayContaining(own))
  }
})

test('subscription sign-in is neither active nor possible', async () => {
  await using server = await openCatalogue()
  const { call } = server
  const base = '/api/llm/subscription/openai'
  const out = { vendor: 'openai', connected: false, account_email: null, expires_at: null }
  expect(await call('GET', `${base}/status`)).toEqual({ status: 200, json: out })
  expect(await call('GET', `${base}/models`)).toEqual({ status: 200, json: { vendor: 'openai', models: [] } })
  expect(await call('POST', `${base}/logout`)).toEqual({ status: 200, json: out })
  expect(await call('POST', `${base}/device/start`)).toMatchObject({
    status: 400,
    json: { detail: expect.stringContaining('subscription') },
  })
  expect(await call('POST', `${base}/device/poll`, { device_code: 'x' })).toMatchObject({ status: 404 })
  expect(await call('POST', `${base}/device/poll`, {})).toMatchObject({ status: 422 })
})

test('editor and desktop answer that they are not available', async () => {
  await using server = await openTestServer(editorRoutes, () => editorHandlers(undefined))
  const { call } = server
  expect(await call('GET', '/api/vscode/status')).toEqual({
    status: 200,
    json: { running: false, enabled: false, message: expect.any(String) },
  })
  for (const path of ['/api/vscode/url?base_url=http://x&workspace_dir=/w', '/api/desktop/url'])
    expect(await call('GET', path)).toMatchObject({ status: 503, json: { detail: expect.any(String) } })
})
