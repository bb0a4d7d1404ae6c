import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { sandboxSpec } from '@slipway/protocol'
import * as z from 'zod'
import { environmentSchema } from '../packages/sandbox-server/src/config/config.ts'

/** Writes `values.schema.json` of the chart from the settings of the sandbox server; `--check` compares. */
const file = resolve(import.meta.dirname, '../deploy/helm/slipway/values.schema.json')

const flag = { type: 'object', properties: { enabled: { type: 'boolean' } } }
/** They belong into a Secret. */
const secretSettings = ['SLIPWAY_API_KEY', 'SLIPWAY_SECRET_KEY', 'LLM_API_KEY']
const settings = Object.entries(environmentSchema.shape)
  .filter(([name]) => !secretSettings.includes(name) && !name.startsWith('SLIPWAY_DATABASE'))
  .map(([name, schema]) => [name, settingSchema(schema)])

const { definitions, ...sandboxSpecs } = z.toJSONSchema(z.array(sandboxSpec).min(1), {
  ...{ io: 'input', target: 'draft-7' },
})

const values = readFileSync(resolve(file, '../values.yaml'), 'utf8')
/** A misspelt name is refused. Helm gives charts `global`. */
const names = [...values.matchAll(/^(\w+):/gm)].map(([, name]) => name)

const document = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  type: 'object',
  propertyNames: { enum: [...names, 'global'] },
  properties: {
    replicas: { type: 'integer', minimum: 0 },
    database: {
      type: 'object',
      properties: {
        url: { type: 'string', pattern: '^($|postgres(ql)?://)' },
        existingSecret: { type: 'string' },
      },
      additionalProperties: false,
    },
    existingSecret: { type: 'string' },
    settings: { type: 'object', properties: Object.fromEntries(settings), additionalProperties: false },
    sandboxSpecs,
    ...{
      postgresql: flag,
      ingress: flag,
      podDisruptionBudget: flag,
      networkPolicy: flag,
      serviceMonitor: flag,
    },
  },
  definitions,
}

const text = `${JSON.stringify(document, null, 2)}\n`
if (!process.argv.includes('--check')) writeFileSync(file, text)
else if (readFileSync(file, 'utf8') !== text) {
  console.error(
    'values.schema.json is out of date: run `npx node scripts/print-chart-schema.ts` and review the diff',
  )
  process.exitCode = 1
}

/**
 * The values of an enum, a switch or a number where the server takes no other text; otherwise any, which it
 * checks.
 */
function settingSchema(schema: z.ZodType): object {
  const inner = schema instanceof z.ZodDefault || schema instanceof z.ZodOptional ? schema.unwrap() : schema
  if (inner instanceof z.ZodEnum) return { enum: inner.options }
  const takes = (text: string) => schema.safeParse(text).success
  if (takes('lots') || takes('a/b')) return { type: ['string', 'number', 'boolean'] }
  const words = 'true|false|1|0|yes|no|on|off|y|n|enabled|disabled'.split('|').filter(takes)
  if (takes('true')) return { type: ['boolean', 'string', 'number'], pattern: `^(${words.join('|')}|)$` }
  if (!takes('30')) return { type: ['string', 'number', 'boolean'] }
  const minimum = takes('-1') ? -1 : 0
  const digits = takes('30.5') ? '\\d+(\\.\\d+)?' : '\\d+'
  return {
    type: [takes('30.5') ? 'number' : 'integer', 'string'],
    minimum,
    pattern: `^(${minimum === -1 ? '-1|' : ''}${digits}|)$`,
  }
}
