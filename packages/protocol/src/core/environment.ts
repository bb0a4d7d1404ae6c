import { Secret } from '@slipway/shared/redaction'
import { errorText } from '@slipway/shared/text'
import * as z from 'zod'

/**
 * A setting is one row: what its server reads, and what `config.toml`, the command, the reference, the chart
 * and the compose file say about it. The scripts `print-*` print those from the rows, and nothing else reads
 * a variable of a setting: `scripts/check-imports.ts` holds that.
 */
export interface Setting<Schema extends z.ZodType = z.ZodType> {
  /** Its variable of the environment. */
  readonly name: string
  /** The first version that has it. */
  readonly since: string
  /** Reads its text: type, limits and default. */
  readonly schema: Schema
  /** Sentences of Markdown; links lead from `docs`. */
  readonly description: string
  /** Its value is not shown. */
  readonly isSecret?: boolean
  /** Its text is a JSON array, in `config.toml` an array. */
  readonly isJson?: boolean
  /** Variables that count, in this order, where its own is unset. */
  readonly aliases?: readonly string[]
  /** Without effect where only clients of the reference ask for it and `SLIPWAY_COMPAT` is off. */
  readonly isCompat?: boolean
}

/** Rows by the members of what they are read into. */
export interface SettingTable {
  readonly [member: string]: Setting | SettingTable
}

export type SettingValues<Table> = {
  readonly [Member in keyof Table]: Table[Member] extends Setting<infer Schema>
    ? z.output<Schema>
    : SettingValues<Table[Member]>
}

type Environment = Readonly<Record<string, string | undefined>>

export function setting<Schema extends z.ZodType>(
  name: string,
  since: string,
  schema: Schema,
  description: string,
  more: Pick<Setting, 'isSecret' | 'isJson' | 'aliases' | 'isCompat'> = {},
): Setting<Schema> {
  return { name, since, schema, description, ...more }
}

/** The rows of a table and of those in it, in their order. */
export function settingRows(table: SettingTable): Setting[] {
  return Object.values(table).flatMap((each) => (isRow(each) ? [each] : settingRows(each)))
}

/**
 * The values of a table by their members; an empty variable is one that is not set. Throws an Error that
 * names the invalid variable and never shows its value.
 */
export function readSettings<Table extends SettingTable>(
  table: Table,
  env: Environment,
): SettingValues<Table> {
  const values = Object.entries(table).map(([member, each]) => [
    member,
    isRow(each) ? readSetting(each, env) : readSettings(each, env),
  ])
  return Object.fromEntries(values)
}

/** Why a configuration cannot be read from these variables; undefined when it can. Never shows a value. */
export function findSettingsFault(read: (env: Environment) => unknown, env: Environment): string | undefined {
  try {
    read(env)
    return undefined
  } catch (error) {
    return errorText(error)
  }
}

function readSetting({ name, aliases = [], schema }: Setting, env: Environment): unknown {
  const variable = [name, ...aliases].find((each) => env[each]) ?? name
  const { success, data, error } = schema.safeParse(env[variable] || undefined)
  if (success) return data
  throw new Error(`${variable === name ? name : `${name} (${variable})`}: ${error.issues[0]?.message}`)
}

function isRow(each: Setting | SettingTable): each is Setting {
  return typeof each.name === 'string'
}

export const textSetting = z.string().optional()

/** A setting of several values, separated by commas; blanks around them and empty ones do not count. */
export const listSetting = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  )

export const urlSetting = z.url({ protocol: /^https?$/ })

export const secretSetting = z.string().transform(toSecret).optional()

export const databaseSetting = z
  .url({ protocol: /^postgres(ql)?$/, hostname: /.*/, error: 'Should be a URL postgres://...' })
  .transform(toSecret)
  .optional()

export function flagSetting(defaultValue: boolean) {
  return z.stringbool().default(defaultValue)
}

/** A setting that is a whole number from `min` to `max`. */
export function numberSetting(min: number, max: number, defaultValue: number) {
  const error = `Should be a whole number from ${min} to ${max}`
  return z.coerce
    .number({ error })
    .int({ error })
    .min(min, { error })
    .max(max, { error })
    .default(defaultValue)
}

/** Seconds, read as milliseconds. */
export function secondsSetting(min: number, max: number, defaultValue: number) {
  return numberSetting(min, max, defaultValue).transform((seconds) => seconds * 1000)
}

/** A number of units that is a limit unless it is 0, the default. */
export function limitSetting(max: number, unit: number) {
  return numberSetting(0, max, 0).transform((count) => (count === 0 ? undefined : count * unit))
}

export function toSecret(text: string): Secret {
  return new Secret(text)
}

export function withoutSlash(url: string): string {
  return url.replace(/\/+$/, '')
}

// biome-ignore format: one line a setting
/** Settings of both servers. */
export const serverSettings = {
  logLevel: setting('SLIPWAY_LOG_LEVEL', '0.1.0', z.enum(['debug', 'info', 'warn', 'error']).default('info'), 'Least level that is logged to standard error.'),
  drainMs: setting('SLIPWAY_DRAIN_SECONDS', '0.2.0', secondsSetting(0, 600, 5), 'Seconds that the port stays open after SIGTERM while `/ready` is 503, when a balancer has asked `/ready` within the last minute.'),
  secretKey: setting('SLIPWAY_SECRET_KEY', '0.1.0', z.string().min(16).transform(toSecret).optional(), 'Text from which the key for stored secrets is made, 16 characters or more. Without one a random key is kept in the data directory.', { isSecret: true }),
}
