import { constants } from 'node:fs'
import { access, open, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { Problem } from '@slipway/protocol/client'
import { readSettings } from '@slipway/protocol/settings'
import { errorCode, makeDirectory, writeFileAtomic } from '@slipway/shared/fs'
import { asRecord, isRecord } from '@slipway/shared/json'
import { configDirectory } from '@slipway/shared/process'
import { findSecretTexts } from '@slipway/shared/redaction'
import { checkValue, fileSettings, fileTables, requireSetting, variableText } from './file-settings.ts'
import { commandSettings } from './settings.ts'

type Env = Readonly<Record<string, string | undefined>>

/** `config.toml` as it is. */
export interface ConfigFile {
  readonly path: string
  readonly text: string
  /** The values of its settings, by key. */
  readonly values: ReadonlyMap<string, unknown>
  /** Why nothing of it is used. */
  readonly problem: Problem | undefined
}

/** `SLIPWAY_CONFIG`, else `config.toml` in the directory of the configuration. */
export function configPath(env: Env): string {
  return readSettings(commandSettings, env).configFile ?? join(configDirectory(env), 'config.toml')
}

/** The file of a command that reads none. */
export function noConfigFile(path: string): ConfigFile {
  return { path, text: '', values: new Map(), problem: undefined }
}

/** Reads the file; without one it is empty. What is wrong with it is its `problem`. */
export async function readConfigFile(path: string): Promise<ConfigFile> {
  let text = ''
  try {
    await using file = await open(path)
    const { mode, uid } = await file.stat()
    text = await file.readFile('utf8')
    const values = await parseConfig(text, path)
    const isPrivate = process.platform === 'win32' || (uid === process.getuid?.() && (mode & 0o077) === 0)
    if (!isPrivate && [...values].some(([key, value]) => isSecretValue(key, value)))
      throw new Problem(
        'bad_request',
        `${path} holds a secret and others may read it. Run: chmod 600 ${path}`,
      )
    return { path, text, values, problem: undefined }
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR' || (code === 'EACCES' && !(await canEnter(dirname(path)))))
      return noConfigFile(path)
    const problem =
      error instanceof Problem
        ? error
        : new Problem('bad_request', `${path} cannot be read: ${code ?? error}`)
    return { path, text, values: new Map(), problem }
  }
}

/** False where the home directory is that of another user, as that of a program which `root` has started. */
function canEnter(directory: string): Promise<boolean> {
  return access(directory, constants.X_OK).then(
    () => true,
    () => false,
  )
}

/** The values of a text by key; a Problem names the line or the key at fault and shows no value. */
export async function parseConfig(text: string, path: string): Promise<Map<string, unknown>> {
  try {
    return collectValues(await parseToml(text))
  } catch (error) {
    throw error instanceof Problem ? new Problem('bad_request', `${path}: ${error.message}`) : error
  }
}

/** The text with a setting set or removed; comments and the other lines stay. */
export async function editConfig(file: ConfigFile, key: string, value: unknown): Promise<string> {
  if (file.problem !== undefined) throw file.problem
  const { table, name } = requireSetting(key)
  const document = await parseToml(file.text)
  const { [name]: _, ...others } = { ...asRecord(document[table]) }
  const members = value === undefined ? others : { ...asRecord(document[table]), [name]: value }
  const expected = new Map(file.values)
  if (value === undefined) expected.delete(key)
  else expected.set(key, value)
  const { patch, stringify } = await import('@decimalturn/toml-patch')
  const isNew = value !== undefined && !file.values.has(key)
  const candidates = [
    () => (isNew ? insertLine(file.text, table, stringify({ [name]: value }).trimEnd()) : undefined),
    () => patch(file.text || firstLine, { ...document, [table]: members }),
  ]
  for (const edit of candidates) {
    const text = edit()
    const values = text === undefined ? undefined : await parseConfig(text, file.path).catch(() => undefined)
    if (values !== undefined && isDeepStrictEqual(plain(values), plain(expected))) return text ?? ''
  }
  // For example the key of a model without a name.
  collectValues({ ...document, [table]: members })
  throw new Problem('bad_request', `${file.path} is too unusual to be changed so. Use: slipway config edit`)
}

/**
 * The text with a line after the last one of a table: the library would put it behind the comment of the
 * next table. Undefined without a head of the table.
 */
function insertLine(text: string, table: string, line: string): string | undefined {
  const lines = text.split('\n')
  const head = lines.findIndex((one) => one.replace(/#.*/, '').trim() === `[${table}]`)
  if (head === -1) return undefined
  const next = lines.findIndex((one, index) => index > head && one.trimStart().startsWith('['))
  const section = lines.slice(0, next === -1 ? lines.length : next)
  const last = section.findLastIndex((one) => !/^\s*(#|$)/.test(one))
  const ending = lines[head]?.endsWith('\r') ? '\r' : ''
  return lines.toSpliced(last + 1, 0, line + ending).join('\n')
}

/** For comparisons: the parser's objects have no prototype. */
function plain(values: ReadonlyMap<string, unknown>): unknown {
  return JSON.parse(JSON.stringify(Object.fromEntries(values)))
}

const firstLine = '# Settings of Slipway; "slipway config --help" describes them.\n'

/** Replaces the file, mode 0600; of a symbolic link its target. */
export async function writeConfigFile(path: string, text: string): Promise<void> {
  const target = await realpath(path).catch(() => path)
  await makeDirectory(dirname(target), 0o700)
  await writeFileAtomic(target, text)
}

/** Whether the value of a setting is not shown. */
export function isSecretValue(key: string, value: unknown): boolean {
  const setting = fileSettings.get(key)
  return setting?.isSecret === true || findSecretTexts({ [key]: value }).some(({ isNamed }) => isNamed)
}

/** The environment with the settings of a table of the file, where no variable overrides them. */
export function withFileSettings(env: Env, { values }: ConfigFile, table: string): Env {
  const settings = [...values].flatMap(([key, value]) => {
    const setting = fileSettings.get(key)
    return setting?.table === table && overridingVariable(env, key) === undefined
      ? [[setting.variable, variableText(setting, value)] as const]
      : []
  })
  return { ...env, ...Object.fromEntries(settings) }
}

/** The variable that overrides a setting of the file; undefined when none is set. */
export function overridingVariable(env: Env, key: string): string | undefined {
  const { variable, aliases } = requireSetting(key)
  return [variable, ...aliases].find((name) => env[name])
}

function collectValues(document: Record<string, unknown>): Map<string, unknown> {
  const values = new Map<string, unknown>()
  for (const [table, members] of Object.entries(document)) {
    const isTable = isRecord(members)
    if (!isTable || !fileTables.includes(table)) {
      const [name] = isTable ? Object.keys(members) : []
      const { key } = requireSetting(name === undefined ? table : `${table}.${name}`)
      throw new Problem('bad_request', `${key} belongs into the table [${table}]`)
    }
    for (const [name, value] of Object.entries(members)) {
      const setting = requireSetting(`${table}.${name}`)
      const issue = checkValue(setting, value)
      if (issue !== undefined) throw new Problem('bad_request', `${setting.key}: ${issue}`)
      values.set(setting.key, value)
    }
  }
  if (!values.has('model.name') && (values.has('model.base_url') || values.has('model.api_key')))
    throw new Problem('bad_request', 'model.base_url and model.api_key need model.name')
  return values
}

/** The error of the parser quotes the line, which may hold a secret. */
async function parseToml(text: string): Promise<Record<string, unknown>> {
  const { parse } = await import('@decimalturn/toml-patch')
  try {
    return { ...asRecord(parse(text)) }
  } catch (error) {
    const { line, column } = isRecord(error) ? error : {}
    const place = typeof line === 'number' ? `line ${line}, column ${column}: ` : ''
    throw new Problem('bad_request', `${place}it is not TOML`)
  }
}
