import { Problem } from '@slipway/protocol/client'
import { isRecord, parseJson } from '@slipway/shared/json'
import schema from './config.schema.json' with { type: 'json' }
import { nearestWord } from './nearest-word.ts'

/** The members of JSON Schema that describe a value of `config.toml`. */
interface ValueSchema {
  readonly type: string
  readonly description: string
  readonly 'x-variable': string
  readonly 'x-aliases'?: readonly string[]
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: unknown
  readonly items?: { readonly type: string }
  readonly writeOnly?: boolean
}

/** One setting of `config.toml`. */
export interface FileSetting {
  /** `table.name` */
  readonly key: string
  readonly table: string
  readonly name: string
  /** The variable of the environment that overrides it, and other names of that. */
  readonly variable: string
  readonly aliases: readonly string[]
  /** It is not shown. */
  readonly isSecret: boolean
  readonly schema: ValueSchema
}

/** All of them by key. */
export const fileSettings: ReadonlyMap<string, FileSetting> = new Map(
  Object.entries(schema.properties).flatMap(([table, { properties }]) =>
    Object.entries<ValueSchema>(properties).map(([name, value]) => {
      const key = `${table}.${name}`
      const variable = value['x-variable']
      const aliases = value['x-aliases'] ?? []
      const isSecret = value.writeOnly === true
      return [key, { key, table, name, variable, aliases, isSecret, schema: value }] as const
    }),
  ),
)

/** The tables of the file. */
export const fileTables: readonly string[] = Object.keys(schema.properties)

/** A Problem with the nearest name when there is no such setting. */
export function requireSetting(key: string): FileSetting {
  const setting = fileSettings.get(key)
  if (setting !== undefined) return setting
  const name = key.slice(key.lastIndexOf('.') + 1)
  const sameName = [...fileSettings.values()].find((other) => other.name === name)
  const nearest = sameName?.key ?? nearestWord(key, [...fileSettings.keys()]).word
  throw new Problem('bad_request', `${JSON.stringify(key)} is no setting. Is it ${nearest}?`)
}

/** What is wrong with a value, without the value; undefined when nothing is. */
export function checkValue({ schema }: FileSetting, value: unknown): string | undefined {
  const { type, minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = schema
  if (type === 'boolean') return typeof value === 'boolean' ? undefined : 'Should be true or false'
  if (type === 'integer' || type === 'number') {
    const isValid = typeof value === 'number' && (type === 'number' || Number.isInteger(value))
    const kind = type === 'number' ? 'number' : 'whole number'
    return isValid && value >= minimum && value <= maximum
      ? undefined
      : `Should be a ${kind} from ${minimum} to ${maximum}`
  }
  if (type === 'array') {
    const isValid =
      schema.items?.type === 'object'
        ? (item: unknown) => isRecord(item)
        : (item: unknown) => typeof item === 'string' && item.trim() !== '' && !item.includes(',')
    const kind = schema.items?.type === 'object' ? 'tables' : 'texts without commas'
    return Array.isArray(value) && value.every(isValid) ? undefined : `Should be an array of ${kind}`
  }
  if (typeof value !== 'string' || value === '') return 'Should be a text that is not empty'
  if (schema.enum === undefined || schema.enum.includes(value)) return undefined
  return `Should be one of: ${schema.enum.join(', ')}`
}

/** Reads a value of a command line; what is not of its type is refused by `checkValue`. */
export function parseValue({ schema }: FileSetting, text: string): unknown {
  if (schema.type === 'string') return text
  const value = parseJson(text)
  if (schema.type !== 'array' || Array.isArray(value) || schema.items?.type === 'object') return value
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

/** A value as its variable has it. */
export function variableText({ schema }: FileSetting, value: unknown): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value) && schema.items?.type === 'string') return value.join(',')
  return JSON.stringify(value)
}
