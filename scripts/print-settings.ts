import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { listSetting, type Setting, type SettingTable, sandboxSpec, settingRows } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { parse } from 'yaml'
import * as z from 'zod'
import { settings as agentServer } from '../packages/agent-server/src/core/config/settings.ts'
import { commandSettings, modelSettings } from '../packages/cli/src/context/settings.ts'
import { settings as sandboxServer } from '../packages/sandbox-server/src/config/settings.ts'

/**
 * Writes what is said about settings from their rows: the schema of `config.toml`, which the command reads,
 * the page of the reference, the schema of the chart's values, and what the compose file passes on.
 * `--check` compares.
 */
const root = resolve(import.meta.dirname, '..')

type Json = Readonly<Record<string, unknown>>

const draft7 = 'http://json-schema.org/draft-07/schema#'
const text = { type: 'string', minLength: 1 }

const quantity = '^\\d+(\\.\\d+)?(m|k|[MGTPE]|[KMGTPE]i)?$'
const size = { type: 'string', pattern: '^\\d+(\\.\\d+)?(k|[MGTPE]|[KMGTPE]i)$' }
const texts = { type: 'object', additionalProperties: { type: 'string' } }
const quantities = {
  type: 'object',
  additionalProperties: { type: ['string', 'number'], pattern: quantity, minimum: 0 },
}

/** Values of the chart of which the default says too little, by their paths. */
const chartShapes: Json = {
  'image.pullPolicy': { enum: ['Always', 'IfNotPresent', 'Never'] },
  imagePullSecrets: { type: 'array', items: objectSchema({ name: text }) },
  resources: objectSchema({ requests: quantities, limits: quantities }),
  nodeSelector: texts,
  tolerations: {
    type: 'array',
    items: objectSchema({
      key: { type: 'string' },
      operator: { enum: ['Exists', 'Equal'] },
      value: { type: 'string' },
      effect: { enum: ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] },
      tolerationSeconds: { type: 'integer' },
    }),
  },
  'database.url': { type: 'string', pattern: '^($|postgres(ql)?://)' },
  'postgresql.storage': size,
  'persistence.size': size,
  'service.type': { enum: ['ClusterIP', 'NodePort', 'LoadBalancer'] },
  'service.port': { type: 'integer', minimum: 1, maximum: 65_535 },
  'ingress.annotations': texts,
  'serviceMonitor.interval': { type: 'string', pattern: '^(\\d+(ms|[smhdwy]))+$' },
  'serviceMonitor.labels': texts,
}

const words = 'true|false|1|0|yes|no|on|off|y|n|enabled|disabled'.split('|')
const uuid = '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}'
/** What a setting of texts of one kind takes, and the pattern of the kind. */
const textKinds = [
  ['https://a.example', '^(https?://.+|)$'],
  ['a=b', '^(.*=.*|)$'],
  ['5/25', '^(\\d{1,6}(\\.\\d{1,6})?/\\d{1,6}(\\.\\d{1,6})?|)$'],
  ['30,31', '^( *\\d+ *(, *\\d+ *)*|)$'],
  ['5f0c1c2e-0d3a-4a58-8a57-0f6d4c7f3b11', `^( *${uuid} *(, *${uuid} *)*|)$`],
] as const

print('packages/cli/src/context/config.schema.json', configSchema())
print('docs/reference/settings.md', settingsPage())
print('deploy/helm/slipway/values.schema.json', chartSchema())
print('deploy/compose.yaml', composeFile())

function print(path: string, output: string): void {
  if (!process.argv.includes('--check')) writeFileSync(resolve(root, path), output)
  else if (read(path) !== output) {
    console.error(`${path} is out of date: run \`npx node scripts/print-settings.ts\` and review the diff`)
    process.exitCode = 1
  }
}

function read(path: string): string {
  return readFileSync(resolve(root, path), 'utf8')
}

function stringify(document: Json): string {
  return `${JSON.stringify(document, null, 2)}\n`
}

function configSchema(): string {
  const { dataDirectory } = commandSettings
  return stringify({
    $schema: draft7,
    title: 'config.toml of Slipway',
    ...objectSchema({
      model: objectSchema(
        Object.fromEntries(Object.entries(modelSettings).map(([name, row]) => [name, fileSchema(row)])),
      ),
      agent_server: fileSchemas({ dataDirectory, ...agentServer }),
      sandbox_server: fileSchemas(sandboxServer),
    }),
  })
}

function objectSchema(properties: Json): Json {
  return { type: 'object', properties, additionalProperties: false }
}

function fileSchemas(table: SettingTable): Json {
  const rows = settingRows(table).flatMap((row) => {
    const name = fileName(row)
    return name === undefined ? [] : [[name, fileSchema(row)]]
  })
  return objectSchema(Object.fromEntries(rows))
}

/** Variables of OpenTelemetry and of other servers stay in the environment. */
function fileName({ name }: Setting): string | undefined {
  return /^SLIPWAY_(.*)/.exec(name)?.[1]?.toLowerCase()
}

function fileSchema(row: Setting): Json {
  return {
    ...valueSchema(row),
    description: row.description.replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1').replaceAll('`', ''),
    ...(row.isSecret && { writeOnly: true }),
    'x-variable': row.name,
    ...(row.aliases && { 'x-aliases': row.aliases }),
  }
}

function valueSchema({ schema, isJson }: Pick<Setting, 'schema' | 'isJson'>): Json {
  if (schema === listSetting)
    return { type: 'array', items: { type: 'string', minLength: 1, pattern: '^[^,]*$' } }
  if (isJson) return { type: 'array', items: { type: 'object' } }
  const {
    type,
    minimum,
    maximum,
    default: value,
  } = z.toJSONSchema(beforeConversion(schema), {
    ...{ io: 'output', unrepresentable: 'any' },
  })
  const inner = withoutDefault(schema)
  if (inner instanceof z.ZodEnum) return { ...text, enum: inner.options, default: value }
  if (type === 'boolean' || type === 'integer' || type === 'number')
    return { type, minimum, maximum, default: value }
  return typeof value === 'string' && value !== '' ? { ...text, default: value } : text
}

/** What it is in the environment: milliseconds are seconds there. */
function beforeConversion(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodPipe ? (schema.in as z.ZodType) : schema
}

function withoutDefault(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodDefault || schema instanceof z.ZodOptional
    ? (schema.unwrap() as z.ZodType)
    : schema
}

function settingsPage(): string {
  const section = (title: string, rows: readonly Setting[]) => `## ${title}

| variable | in config.toml | meaning | values | default | since |
|---|---|---|---|---|---|
${rows.map(pageRow).join('\n')}
`
  const { dataDirectory, ...command } = commandSettings
  return `# Settings

Printed by \`npx node scripts/print-settings.ts\` from the code; do not edit.

Each setting stands in [config.toml](../configuration.md) or in the environment, which wins; an empty variable counts as unset.
\`slipway config set TABLE.NAME VALUE\` writes the file, and \`slipway config list\` shows what is set and where. The other names of a
setting are those of other servers of this interface; they count where its own variable is unset.

${[
  section('The model of agents: `[model]`', settingRows(modelSettings)),
  section('The agent server: `[agent_server]`', settingRows({ dataDirectory, ...agentServer })),
  section('The sandbox server: `[sandbox_server]`', settingRows(sandboxServer)),
  section('Commands', settingRows(command)),
].join('\n')}`
}

function pageRow(row: Setting): string {
  const { type, minimum, maximum, enum: values, default: value } = valueSchema(row)
  const range = minimum === undefined || maximum === undefined ? '' : `, ${minimum} to ${maximum}`
  const kind = Array.isArray(values) ? values.join(', ') : `${row.isSecret ? 'secret ' : ''}${type}${range}`
  const also =
    row.aliases === undefined ? '' : ` Also ${row.aliases.map((name) => `\`${name}\``).join(', ')}.`
  const inFile = Object.values<Setting>(modelSettings).includes(row)
    ? row.name.slice('LLM_'.length).toLowerCase().replace('model', 'name')
    : Object.values<Setting>(commandSettings).includes(row) && row !== commandSettings.dataDirectory
      ? undefined
      : fileName(row)
  const cells = [
    `\`${row.name}\``,
    inFile === undefined ? '' : `\`${inFile}\``,
    row.description.replaceAll('](', '](../') + also,
    kind,
    value === undefined ? '' : `\`${value}\``,
    row.since,
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** Helm gives charts `global`; every other name at every level is one of `values.yaml`. */
function chartSchema(): string {
  // They belong into a Secret; specs are a value of the chart, too.
  const rows = settingRows(sandboxServer).filter(({ isSecret, isJson }) => !isSecret || isJson)
  const { definitions, ...sandboxSpecs } = z.toJSONSchema(z.array(sandboxSpec).min(1), {
    ...{ io: 'input', target: 'draft-7' },
  })
  const known: Json = {
    ...chartShapes,
    settings: objectSchema(Object.fromEntries(rows.map(({ name, schema }) => [name, chartValue(schema)]))),
    sandboxSpecs,
    global: { type: 'object' },
  }
  const values: unknown = { ...parse(read('deploy/helm/slipway/values.yaml')), global: {} }
  return stringify({ $schema: draft7, ...chartShape('', values, known), definitions })
}

/** What a value may be, by its path or its default; an object has the members of the default only. */
function chartShape(path: string, value: unknown, known: Json): Json {
  const shape = known[path]
  if (isRecord(shape)) return shape
  if (isRecord(value)) {
    const members = Object.entries(value).map(([name, member]) => [
      name,
      chartShape(path === '' ? name : `${path}.${name}`, member, known),
    ])
    return objectSchema(Object.fromEntries(members))
  }
  if (typeof value === 'number') return { type: 'integer', minimum: 0 }
  if (typeof value === 'string' || typeof value === 'boolean') return { type: typeof value }
  throw new Error(`The chart has the value ${path}, and nothing says what it may be`)
}

/** What the server takes of a setting, found by trying; a number may be a text, and an empty one is unset. */
function chartValue(schema: z.ZodType): Json {
  const inner = withoutDefault(schema)
  if (inner instanceof z.ZodEnum) return { enum: [...inner.options, ''] }
  const takes = (value: string) => schema.safeParse(value).success
  if (takes('lots')) return { type: takes('30') ? ['string', 'number', 'boolean'] : 'string' }
  if (takes('true')) return { enum: [true, false, 1, 0, ...words.filter(takes), ''] }
  const [, pattern] = textKinds.find(([sample]) => takes(sample)) ?? []
  if (pattern !== undefined)
    return takes('30')
      ? { type: ['integer', 'string'], minimum: 1, maximum: 65_535, pattern }
      : { type: 'string', pattern }
  if (!takes('30') && takes('0.5'))
    return { type: ['number', 'string'], minimum: 0, maximum: 1, pattern: '^(0|1|0?\\.\\d+|)$' }
  if (!takes('30')) return { type: 'string' }
  const most = ['9'.repeat(15), '9'.repeat(9)].find(takes) // where the schema has no number
  const { minimum = takes('-1') ? -1 : 0, maximum = Number(most) } = valueSchema({ schema })
  const digits = takes('30.5') ? '\\d+(\\.\\d+)?' : '\\d+'
  return {
    type: [takes('30.5') ? 'number' : 'integer', 'string'],
    ...{ minimum, maximum },
    pattern: `^(${minimum === -1 ? '-1|' : ''}${digits}|)$`,
  }
}

/** Every setting that the file does not decide comes from `.env` and the environment of Compose. */
function composeFile(): string {
  const file = read('deploy/compose.yaml')
  const [, before = '', , after = ''] = /^([\s\S]*# Printed.*\n)((?: {4}\w+:\n)*)([\s\S]*)$/.exec(file) ?? []
  const names = settingRows(sandboxServer).map(({ name }) => name)
  const passed = names.filter((name) => !before.includes(` ${name}: `))
  return `${before}${passed.map((name) => `    ${name}:\n`).join('')}${after}`
}
