import { readFileSync } from 'node:fs'
import { settingRows } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { Ajv } from 'ajv'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { settings as sandboxServer } from '../packages/sandbox-server/src/config/settings.ts'

type Values = Record<string, unknown>

const schema = JSON.parse(readFileSync('deploy/helm/slipway/values.schema.json', 'utf8'))
const text = readFileSync('deploy/helm/slipway/values.yaml', 'utf8')
const defaults: Values = parse(text)
const validate = new Ajv({ allowUnionTypes: true }).compile(schema)
/** What users may name as they like. */
const freeMaps = [
  ...['global', 'nodeSelector', 'ingress.annotations', 'serviceMonitor.labels'],
  ...['resources.requests', 'resources.limits'],
]

/** Whether Helm takes the defaults with this value at this path. */
function takes(path: string, value: unknown): boolean {
  const values: Values = { global: {}, ...structuredClone(defaults) }
  const names = path.split('.')
  const last = names.pop() ?? ''
  let at = values
  for (const name of names) {
    const inner = at[name]
    if (!isRecord(inner)) throw new Error(`${path} is not below an object`)
    at = inner as Values
  }
  at[last] = value
  return validate(values)
}

/** The paths of all values below an object. */
function paths(values: Values, prefix = ''): [string, unknown][] {
  return Object.entries(values).flatMap(([name, value]) => {
    const path = `${prefix}${name}`
    return [[path, value], ...(isRecord(value) ? paths(value as Values, `${path}.`) : [])] as [
      string,
      unknown,
    ][]
  })
}

test('a setting of the chart is what the server takes', () => {
  expect(validate(defaults)).toBe(true)
  const rows = settingRows(sandboxServer).filter(({ isSecret }) => !isSecret)
  const samples = [
    ...['lots', '-2', '-1', '0', '1', '1.5', '30', '30,31', 'true', 'off', '70000', '2000000001', ''],
    ...['https://a.example', 'ftp://a', '5f0c1c2e-0d3a-4a58-8a57-0f6d4c7f3b11', 'debug', 'docker', 'none'],
  ]
  for (const { name, schema: ofServer } of rows) {
    for (const sample of samples) {
      const isTaken = sample === '' || ofServer.safeParse(sample).success
      const isNumber = /^-?\d+(\.\d+)?$/.test(sample)
      // A text of digits may be beyond the range of the number, which a pattern does not say.
      if (isTaken || !isNumber)
        expect([name, sample, takes(`settings.${name}`, sample)]).toEqual([name, sample, isTaken])
      const refusesTexts = !ofServer.safeParse('lots').success
      if (isNumber && refusesTexts && ofServer.safeParse('30').success)
        expect([name, Number(sample), takes(`settings.${name}`, Number(sample))]).toEqual([
          name,
          Number(sample),
          isTaken,
        ])
    }
    if (!ofServer.safeParse('lots').success)
      for (const value of ['lots', '-2', -2])
        expect([name, takes(`settings.${name}`, value)]).toEqual([name, false])
  }
})

test('at every level unknown names are refused, except in free maps', () => {
  const levels = ['', ...paths(defaults).flatMap(([path, value]) => (isRecord(value) ? [path] : []))]
  expect(levels.length).toBeGreaterThan(12)
  for (const level of levels)
    expect([level, takes(level === '' ? 'setings' : `${level}.lots`, '1')]).toEqual([
      level,
      freeMaps.includes(level),
    ])
  for (const path of ['global.lots', 'nodeSelector.pool', 'ingress.annotations.a', 'serviceMonitor.labels.a'])
    expect([path, takes(path, 'x')]).toEqual([path, true])
  expect(takes('tolerations', [{ key: 'a', operator: 'Exists', lots: 1 }])).toBe(false)
  expect(takes('sandboxSpecs', [{ id: 'a', kubernetes: { lots: 1 } }])).toBe(false)
})

test('numbers and sizes of the chart refuse "lots", -2 and 1.5', () => {
  const numbers = paths(defaults).flatMap(([path, value]) => (typeof value === 'number' ? [path] : []))
  expect(numbers).toEqual(expect.arrayContaining(['replicas', 'service.port']))
  for (const path of [...numbers, 'persistence.size', 'postgresql.storage', 'serviceMonitor.interval'])
    for (const value of ['lots', -2, '-2', 1.5, '1.5'])
      expect([path, value, takes(path, value)]).toEqual([path, value, false])
  for (const value of ['lots', -2, '-2']) expect(takes('resources.limits.memory', value)).toBe(false)
  expect(takes('settings.SLIPWAY_DAILY_CONVERSATION_LIMIT', -1)).toBe(true)
  expect(takes('settings.SLIPWAY_DAILY_CONVERSATION_LIMIT', 1.5)).toBe(false)
})

test('values.yaml shows the daily limit and the exempt organisations, with a comment', () => {
  for (const name of ['SLIPWAY_DAILY_CONVERSATION_LIMIT', 'SLIPWAY_EXEMPT_ORGANIZATIONS'])
    expect(text).toMatch(new RegExp(`^ {2}# .*\\n {2}${name}: `, 'm'))
})
