import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { listSetting } from '@slipway/protocol'
import * as z from 'zod'
import * as agentServer from '../packages/agent-server/src/core/config/config.ts'
import * as sandboxServer from '../packages/sandbox-server/src/config/config.ts'

/** Writes the JSON Schema of `config.toml` from the settings of both servers; `--check` compares. */
const file = resolve(import.meta.dirname, '../packages/cli/src/context/config.schema.json')

type Json = Readonly<Record<string, unknown>>

/** Settings whose variables hold JSON. */
const jsonSettings = [
  'SLIPWAY_WEBHOOKS',
  'SLIPWAY_MARKETPLACES',
  'SLIPWAY_COMMAND_RULES',
  'SLIPWAY_SANDBOX_SPECS',
]
const secretPattern =
  /KEY$|DATABASE\w*URL$|WEBHOOKS$|MARKETPLACES$|SKILLS_SOURCE$|REFRESH_URL$|REFRESH_HEADERS$|SANDBOX_SPECS$/
/** Settings that other variables replace, besides the renamed ones. */
const otherAliases: Readonly<Record<string, readonly string[]>> = {
  SLIPWAY_SESSION_API_KEY: ['OH_SESSION_API_KEYS_0', 'SESSION_API_KEY'],
  SLIPWAY_SECRET_KEY: ['OH_SECRET_KEY'],
  SLIPWAY_ALLOWED_ORIGINS: ['OH_ALLOW_CORS_ORIGINS_0'],
  SLIPWAY_WEBHOOKS: ['OH_WEBHOOKS', 'OH_WEBHOOKS_0_BASE_URL'],
}

/**
 * What each setting means: the tables of the pages, whose rows the tests of both packages compare with the
 * settings.
 */
function readDescriptions(page: string): ReadonlyMap<string, string> {
  const content = readFileSync(resolve(import.meta.dirname, '../docs', page), 'utf8')
  const rows = content.matchAll(/^\| `(SLIPWAY_\w+)` \| (.*?) \| [^|]*\|$/gm)
  const plain = (text: string) => text.replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1').replaceAll('`', '')
  return new Map([...rows].map(([, name = '', text = '']) => [name, plain(text)]))
}

const text = { type: 'string', minLength: 1 }
const model = {
  name: {
    ...text,
    description: 'provider/name of the model that agents are run with.',
    'x-variable': 'LLM_MODEL',
  },
  base_url: { ...text, description: 'Address of its API.', 'x-variable': 'LLM_BASE_URL' },
  api_key: { ...text, description: 'Its API key.', writeOnly: true, 'x-variable': 'LLM_API_KEY' },
}
const dataDirectory = {
  ...text,
  description: 'Data directory of the agent server.',
  'x-variable': 'SLIPWAY_DATA_DIRECTORY',
}

const document = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  title: 'config.toml of Slipway',
  ...objectSchema({
    model: objectSchema(model),
    agent_server: objectSchema({
      data_directory: dataDirectory,
      ...serverSettings(agentServer.environmentSchema, agentServer.aliases, 'operations.md'),
    }),
    sandbox_server: objectSchema(
      serverSettings(sandboxServer.environmentSchema, sandboxServer.aliases, 'sandboxes.md'),
    ),
  }),
}

const output = `${JSON.stringify(document, null, 2)}\n`
if (!process.argv.includes('--check')) writeFileSync(file, output)
else if (readFileSync(file, 'utf8') !== output) {
  console.error(
    'config.schema.json is out of date: run `npx node scripts/print-config-schema.ts` and review the diff',
  )
  process.exitCode = 1
}

function objectSchema(properties: Json): Json {
  return { type: 'object', properties, additionalProperties: false }
}

function serverSettings(schema: z.ZodObject, aliases: Readonly<Record<string, string>>, page: string): Json {
  const descriptions = readDescriptions(page)
  const settings = Object.entries(schema.shape).filter(([name]) => name.startsWith('SLIPWAY_'))
  return Object.fromEntries(
    settings.map(([variable, setting]) => {
      const renamed = Object.entries(aliases).flatMap(([alias, name]) => (name === variable ? [alias] : []))
      const names = [...renamed, ...(otherAliases[variable] ?? [])]
      return [
        variable.slice('SLIPWAY_'.length).toLowerCase(),
        {
          ...valueSchema(variable, setting as z.ZodType),
          description: descriptions.get(variable) ?? `The setting ${variable}.`,
          ...(secretPattern.test(variable) && variable !== 'SLIPWAY_NO_KEY' ? { writeOnly: true } : {}),
          'x-variable': variable,
          ...(names.length === 0 ? {} : { 'x-aliases': names }),
        },
      ]
    }),
  )
}

function valueSchema(variable: string, setting: z.ZodType): Json {
  const isKeyList = variable === 'SLIPWAY_API_KEY'
  if (setting === listSetting && !isKeyList)
    return { type: 'array', items: { type: 'string', minLength: 1, pattern: '^[^,]*$' } }
  if (jsonSettings.includes(variable)) return { type: 'array', items: { type: 'object' } }
  const {
    type,
    enum: values,
    minimum,
    maximum,
    default: defaultValue,
  } = z.toJSONSchema(setting, {
    ...{ io: 'output', unrepresentable: 'any' },
  })
  if (type !== 'boolean' && type !== 'integer' && type !== 'number')
    return { ...text, ...(values && { enum: values }), ...(values && { default: defaultValue }) }
  return { type, minimum, maximum, default: defaultValue }
}
