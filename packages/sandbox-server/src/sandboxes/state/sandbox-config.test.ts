import { sandboxSpec } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { configHash, newSandboxConfig, replaceSessionKey } from './sandbox-config.ts'

const spec = sandboxSpec.parse({
  id: 'a',
  env: { APP: '1', SLIPWAY_LOG_LEVEL: 'debug', SLIPWAY_SESSION_API_KEY: 'from the spec', OH_SECRET_KEY: 'k' },
  resources: { memory_bytes: 100_000_000, cpus: 0.5 },
  working_dir: '/w',
})
const environment = {
  webhooks: 'http://h/api/v1/webhooks',
  origins: ['https://a', 'https://b'],
  idleSeconds: 60,
  trustsRepositories: true,
}

test('a cold start brings its identity in its environment, which a spec cannot change', () => {
  const { key, order, initKey } = newSandboxConfig(spec, 'sb-1', environment)
  expect(key).toMatch(/^sk-slipway-[\w-]{43}$/)
  expect(initKey).toBeNull()
  expect(order.env).toEqual({
    APP: '1',
    SLIPWAY_LOG_LEVEL: 'debug',
    OH_SECRET_KEY: 'k',
    SLIPWAY_TOOL_ENVIRONMENT: 'APP',
    OH_RUNTIME_IDLE_TIMEOUT_SECONDS: '60',
    SLIPWAY_REPOSITORY_TRUST: 'always',
    SLIPWAY_DRAIN_SECONDS: '0',
    SLIPWAY_SESSION_API_KEY: key,
    OH_SESSION_API_KEYS_0: key,
    SLIPWAY_WEBHOOKS: '[{"base_url":"http://h/api/v1/webhooks"}]',
    OH_WEBHOOKS_0_BASE_URL: 'http://h/api/v1/webhooks',
    SLIPWAY_BUDGET_URL: 'http://h/api/v1/sandboxes/sb-1/budget',
    SLIPWAY_ALLOWED_ORIGINS: 'https://a,https://b',
  })
  expect(order).toMatchObject({
    id: 'sb-1',
    workingDir: '/w',
    resources: { memoryBytes: 100_000_000, cpus: 0.5 },
  })
  expect(newSandboxConfig(spec, 'sb-1', environment).key).not.toBe(key)
})

test('one that an earlier version made asks for budgets from its next start on', () => {
  const { order, ...secrets } = newSandboxConfig(spec, 'sb-1', environment)
  const { SLIPWAY_BUDGET_URL: url, ...env } = order.env
  expect(replaceSessionKey({ ...secrets, order: { ...order, env } }).order.env.SLIPWAY_BUDGET_URL).toBe(url)
  const alone = newSandboxConfig(spec, 'sb-1', { ...environment, webhooks: undefined })
  expect(replaceSessionKey(alone).order.env).not.toHaveProperty('SLIPWAY_BUDGET_URL')
})

test('a spec decides itself what becomes of repositories, and without trust nothing is said', () => {
  const trust = (env: Record<string, string>, trustsRepositories: boolean) =>
    newSandboxConfig(sandboxSpec.parse({ id: 'a', env }), 'sb-1', { ...environment, trustsRepositories })
      .order.env.SLIPWAY_REPOSITORY_TRUST
  expect(trust({ SLIPWAY_REPOSITORY_TRUST: 'skip' }, true)).toBe('skip')
  expect(trust({}, false)).toBeUndefined()
})

test('the hash is the same in any order of members, and another when the spec or what it gets is another', () => {
  const hashOf = (env: Record<string, string>, changed = {}) =>
    configHash(sandboxSpec.parse({ id: 'a', env }), { ...environment, ...changed })
  const one = hashOf({ A: '1', B: '2' })
  expect(hashOf({ B: '2', A: '1' })).toBe(one)
  expect(hashOf({ A: '1', B: '3' })).not.toBe(one)
  expect(hashOf({ A: '1', B: '2' }, { webhooks: undefined })).not.toBe(one)
})
