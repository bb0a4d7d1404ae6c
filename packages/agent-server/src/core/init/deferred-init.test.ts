import { expect, test } from 'vitest'
import { readConfig } from '../config/config.ts'
import { DeferredInit } from './deferred-init.ts'

/** A deferred init whose server the test opens by hand. */
function openDormant(options: { readonly isExposed?: boolean } = {}) {
  const opening: PromiseWithResolvers<void>[] = []
  let closed = 0
  const lines: string[] = []
  const init = new DeferredInit({
    config: readConfig({ SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: 'init' }),
    isExposed: options.isExposed ?? false,
    log: (...line) => void lines.push(JSON.stringify(line)),
    async openServer(config) {
      const one = Promise.withResolvers<void>()
      opening.push(one)
      await one.promise
      return { config, [Symbol.asyncDispose]: async () => void closed++ }
    },
  })
  return { init, opening, lines, closed: () => closed }
}

const nothing = {
  session_api_keys: undefined,
  secret_key: undefined,
  webhooks: undefined,
  web_url: undefined,
  allow_cors_origins: undefined,
  max_concurrent_runs: undefined,
  env: undefined,
  conversations_path: undefined,
  bash_events_dir: undefined,
  conversation_worktree_root: undefined,
  telemetry: undefined,
}

test('the state goes from dormant over initializing to ready, and requests are refused before', async () => {
  const { init, opening, closed } = openDormant()
  expect([init.state, init.keys]).toEqual(['dormant', undefined])
  const given = init.initialize({ ...nothing, session_api_keys: ['one'] })
  expect([init.state, init.keys]).toEqual(['initializing', undefined])
  const request = { method: 'GET', headers: {} }
  expect(() => init.checkRequest('/api/profiles', request)).toThrow("'initializing'")
  for (const path of [
    '/',
    '/ready',
    '/ready/',
    '/api/init',
    '/api/init/',
    '/openapi.json',
    '/docs/x.js',
    '/redoc',
  ])
    expect(() => init.checkRequest(path, request)).not.toThrow()
  expect(() => init.checkRequest('/api/init', { ...request, method: 'POST' })).toThrow('Unauthorized')
  opening[0]?.resolve()
  await given
  expect(init.status).toEqual({ state: 'ready', error: null })
  expect(init.keys?.map((key) => key.reveal())).toEqual(['one'])
  expect(() => init.checkRequest('/api/profiles', request)).not.toThrow()
  expect(init.server.config.secrets.map((secret) => secret.reveal())).toContain('one')
  await init[Symbol.asyncDispose]()
  expect(closed()).toBe(1)
})

test('after a failed opening all its callers get the error, and new settings are accepted', async () => {
  const { init, opening, lines } = openDormant()
  const [a, b] = [init.initialize(nothing), init.initialize(nothing)]
  opening[0]?.reject(new Error('no disk'))
  for (const given of [a, b]) await expect(given).rejects.toMatchObject({ code: 'run_failed' })
  expect(init.status).toEqual({ state: 'dormant', error: expect.stringContaining('no disk') })
  expect(lines.join()).toContain('no disk')
  const again = init.initialize({ ...nothing, max_concurrent_runs: 7 })
  opening[1]?.resolve()
  await again
  expect(init.status).toEqual({ state: 'ready', error: null })
  expect(init.server.config.maxConcurrentRuns).toBe(7)
})

test('an exposed server does not open without a key', async () => {
  const { init, opening } = openDormant({ isExposed: true })
  await expect(init.initialize(nothing)).rejects.toMatchObject({ code: 'invalid' })
  await expect(init.initialize({ ...nothing, session_api_keys: [] })).rejects.toMatchObject({
    code: 'invalid',
  })
  expect([init.state, opening.length]).toEqual(['dormant', 0])
})

test('a stop during the opening waits for the server and closes it', async () => {
  const { init, opening, closed } = openDormant()
  const given = init.initialize(nothing)
  const disposed = init[Symbol.asyncDispose]()
  opening[0]?.resolve()
  await Promise.all([given, disposed])
  expect(closed()).toBe(1)
})
