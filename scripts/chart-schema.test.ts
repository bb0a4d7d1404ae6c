import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as z from 'zod'

const schema = JSON.parse(readFileSync('deploy/helm/slipway/values.schema.json', 'utf8'))
const settings = z.fromJSONSchema(schema.properties.settings)
const takes = (name: string, value: unknown) => settings.safeParse({ [name]: value }).success

test('numbers and switches of the chart take what the server takes, and nothing else', () => {
  const limit = 'SLIPWAY_DAILY_CONVERSATION_LIMIT'
  for (const value of [-1, '-1', 0, 50, '50', '']) expect(takes(limit, value), `${value}`).toBe(true)
  for (const value of ['lots', true, -2, '-2', 1.5, '1.5'])
    expect(takes(limit, value), `${value}`).toBe(false)
  expect([0, '0', -1, 'many'].map((value) => takes('SLIPWAY_MAX_SANDBOXES', value))).toEqual([
    ...[true, true, false, false],
  ])
  expect([true, 'false', 'perhaps'].map((value) => takes('SLIPWAY_CONSOLE', value))).toEqual([
    true,
    true,
    false,
  ])
  expect([0.5, '0.5', 2].map((value) => takes('SLIPWAY_SANDBOX_CPUS', value))).toEqual([true, true, true])
  expect(takes('SLIPWAY_NO_SUCH_SETTING', '1')).toBe(false)
})

test('a misspelt name of a value is refused, and each name of values.yaml is known', () => {
  const names: string[] = schema.propertyNames.enum
  expect(names).not.toContain('setings')
  const shown = readFileSync('deploy/helm/slipway/values.yaml', 'utf8').matchAll(/^(\w+):/gm)
  expect(names).toEqual(expect.arrayContaining([...shown].map(([, name]) => name)))
})
