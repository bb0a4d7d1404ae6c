import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { assertSettingsKnown, findUnknownSettings } from './check-settings.ts'

test('a misspelt setting is refused with the nearest name and without its value', async () => {
  const check = (name: string) => assertSettingsKnown({ [name]: 'canary-value', PATH: '/bin' }, () => {})
  await expect(check('SLIPWAY_LOGLEVEL')).rejects.toThrow(
    'SLIPWAY_LOGLEVEL is no setting. Is it SLIPWAY_LOG_LEVEL?',
  )
  await expect(check('SLIPWAY_MAX_CONCURRENT_RUN')).rejects.toThrow('Is it SLIPWAY_MAX_CONCURRENT_RUNS?')
  await expect(check('SLIPWAY_SESION_API_KEY')).rejects.not.toThrow('canary-value')
  await check('SLIPWAY_SANDBOX_DISK_MB')
})

test.each([
  ['a name that is two letters away', { SLIPWAY_DIR: 'canary-value' }, 'Is it SLIPWAY_WIRE?'],
  [
    'a name that is one letter away from a setting that is set',
    { SLIPWAY_LOGLEVEL: 'canary-value', SLIPWAY_LOG_LEVEL: 'info' },
    'Is it SLIPWAY_LOG_LEVEL?',
  ],
])('%s is a warning', async (_, env, text) => {
  const warnings: string[] = []
  await assertSettingsKnown(env, (warning) => warnings.push(warning))
  expect(warnings).toEqual([expect.stringContaining(text)])
  expect(warnings.join()).not.toContain('canary-value')
})

test('an empty variable is unset', async () => {
  expect(await findUnknownSettings({ SLIPWAY_DIR: '', SLIPWAY_LOGLEVEL: '' })).toEqual([])
  await expect(
    assertSettingsKnown({ SLIPWAY_LOGLEVEL: 'x', SLIPWAY_LOG_LEVEL: '' }, () => {}),
  ).rejects.toThrow('SLIPWAY_LOG_LEVEL')
})

test('variables of an agent server, of Kubernetes and of the tests are no mistakes', async () => {
  const names = [
    ...[
      'SLIPWAY_SERVER',
      'SLIPWAY_TERMINAL',
      'SLIPWAY_SERVICE_HOST',
      'SLIPWAY_PORT',
      'SLIPWAY_PORT_8000_TCP_ADDR',
    ],
    ...['SLIPWAY_SANDBOX_SERVICE_PORT_HTTP', 'SLIPWAY_TEST_DOCKER_SOCKET'],
  ]
  expect(await findUnknownSettings(Object.fromEntries(names.map((name) => [name, 'x'])))).toEqual([])
  const page = await readFile(new URL('../../../../CONTRIBUTING.md', import.meta.url), 'utf8')
  const ofTests = [...page.matchAll(/`(SLIPWAY_[A-Z_]+)`/g)].map(([, name = '']) => name)
  expect(ofTests.length).toBeGreaterThan(15)
  expect(await findUnknownSettings(Object.fromEntries(ofTests.map((name) => [name, 'x'])))).toEqual([])
})

test('a name that resembles no setting is found and refuses nothing', async () => {
  const env = { SLIPWAY_COLOUR_OF_THE_SHIP: 'blue' }
  expect(await findUnknownSettings(env)).toEqual([expect.objectContaining({ isSimilar: false })])
  await assertSettingsKnown(env, (warning) => expect.unreachable(warning))
})
