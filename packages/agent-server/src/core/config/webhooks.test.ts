import { expect, test } from 'vitest'
import { findWebhookSecrets, readWebhooks } from './webhooks.ts'

test('receivers come as a JSON array, or as numbered variables from 0 without a gap', () => {
  const spec = { base_url: 'http+unix://%2Frun%2Fx.sock/hooks', headers: { 'X-A': 'b' }, flush_delay: 0.5 }
  expect(readWebhooks({ SLIPWAY_WEBHOOKS: JSON.stringify([spec]) })).toMatchObject([spec])
  expect(readWebhooks({ OH_WEBHOOKS: JSON.stringify([spec]) })).toMatchObject([spec])
  const numbered = {
    OH_WEBHOOKS_0_BASE_URL: 'https://a.example/api/v1/webhooks',
    OH_WEBHOOKS_0_HEADERS: '{"Authorization":"Bearer abc"}',
    OH_WEBHOOKS_0_EVENT_BUFFER_SIZE: '7',
    OH_WEBHOOKS_0_RETRY_DELAY: '0.5',
    OH_WEBHOOKS_0_FULL_STATE: 'true',
    OH_WEBHOOKS_1_BASE_URL: 'http://b.example',
    OH_WEBHOOKS_3_BASE_URL: 'http://never.example',
  }
  expect(readWebhooks(numbered)).toMatchObject([
    {
      base_url: 'https://a.example/api/v1/webhooks',
      headers: { Authorization: 'Bearer abc' },
      event_buffer_size: 7,
      retry_delay: 0.5,
      full_state: true,
    },
    { base_url: 'http://b.example', headers: {} },
  ])
  expect(readWebhooks({ ...numbered, SLIPWAY_WEBHOOKS: '[]' })).toEqual([])
  expect(readWebhooks({})).toEqual([])
})

test.each([
  [{ SLIPWAY_WEBHOOKS: 'k-secret' }, 'SLIPWAY_WEBHOOKS: it is not JSON'],
  [{ SLIPWAY_WEBHOOKS: '{"base_url":"k-secret"}' }, 'SLIPWAY_WEBHOOKS: it is not a JSON array'],
  [{ SLIPWAY_WEBHOOKS: '[{"base_url":"ftp://k-secret"}]' }, 'SLIPWAY_WEBHOOKS[0]: base_url:'],
  [
    { SLIPWAY_WEBHOOKS: '[{"base_url":"http://x:k-secret"}]' },
    'SLIPWAY_WEBHOOKS[0]: base_url: it is not an address',
  ],
  [{ SLIPWAY_WEBHOOKS: '[{"base_url":"http://x","headers":{"a":"k-secret\\n"}}, 5]' }, 'SLIPWAY_WEBHOOKS[1]'],
  [
    { SLIPWAY_WEBHOOKS: '[{"base_url":"http://x","headers":{"a b":"k-secret"}}]' },
    'SLIPWAY_WEBHOOKS[0]: headers',
  ],
  [
    { OH_WEBHOOKS_0_BASE_URL: 'http://x', OH_WEBHOOKS_0_HEADERS: 'k-secret' },
    'OH_WEBHOOKS_0_HEADERS: it is not JSON',
  ],
  [{ OH_WEBHOOKS_0_BASE_URL: 'http://x', OH_WEBHOOKS_0_FLUSH_DELAY: 'soon' }, 'OH_WEBHOOKS_0: flush_delay'],
])('%j is refused with its place and without its value', (env, place) => {
  expect(() => readWebhooks(env)).toThrow(place)
  expect(() => readWebhooks(env)).not.toThrow('k-secret')
})

test('keys of receivers are known as secrets', () => {
  const [spec] = readWebhooks({
    SLIPWAY_WEBHOOKS:
      '[{"base_url":"http://me:pass-word@x/?token=tok-en-123","headers":{"Authorization":"Bearer abc-def-ghi","X-Stage":"production"}}]',
  })
  const texts = spec === undefined ? [] : findWebhookSecrets(spec).map((secret) => secret.reveal())
  expect(texts.sort()).toEqual(['Bearer abc-def-ghi', 'abc-def-ghi', 'pass-word', 'tok-en-123'])
})
