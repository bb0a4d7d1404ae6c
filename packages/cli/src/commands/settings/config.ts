import { rm } from 'node:fs/promises'
import { text as readText } from 'node:stream/consumers'
import { checkAgentServerSettings } from '@slipway/agent-server/maintenance'
import { Problem } from '@slipway/protocol/client'
import { checkSandboxServerSettings } from '@slipway/sandbox-server/settings'
import { redactedText } from '@slipway/shared/redaction'
import schema from '../../context/config.schema.json' with { type: 'json' }
import type { Config } from '../../context/config.ts'
import {
  type ConfigFile,
  editConfig,
  isSecretValue,
  overridingVariable,
  parseConfig,
  withFileSettings,
  writeConfigFile,
} from '../../context/config-file.ts'
import { editFile } from '../../context/edit-file.ts'
import {
  checkValue,
  type FileSetting,
  fileSettings,
  parseValue,
  requireSetting,
  variableText,
} from '../../context/file-settings.ts'
import { isInteractive } from '../../conversation/confirmation-prompt.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

interface ConfigContext {
  readonly config: Config
  readonly isJson: boolean
  readonly signal: AbortSignal
}

interface EffectiveValue {
  readonly key: string
  /** Of a secret: stars. */
  readonly value: unknown
  /** A variable, the path of the file, or `default`. */
  readonly source: string
}

/** Lists what is set in the environment or in the file. */
export async function listConfigCommand({ config, isJson }: ConfigContext): Promise<void> {
  const values = [...fileSettings.values()].flatMap((setting) => {
    const value = effectiveValue(setting, config)
    return value === undefined || value.source === 'default' ? [] : [value]
  })
  if (isJson) return await print(values.map((value) => `${JSON.stringify(value)}\n`).join(''))
  if (values.length === 0)
    return printNote('Nothing is set. Set a setting with: slipway config set KEY VALUE')
  const rows = values.map(({ key, value, source }) => [key, sanitizeLine(source), displayText(key, value)])
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0)) + 2
  await print(table(rows, [width(0), width(1)], ['KEY', 'FROM', 'VALUE']))
}

/** Prints the value that counts. Returns the exit code: 1 when nothing is set and there is no default. */
export async function getConfigCommand({ config, isJson }: ConfigContext, key: string): Promise<number> {
  const value = effectiveValue(requireSetting(key), config)
  if (value !== undefined) await printResult(isJson, value, displayText(key, value.value))
  else if (isJson) await print(`${JSON.stringify({ key, value: null, source: null })}\n`)
  return value === undefined ? 1 : 0
}

/** Sets a setting. A secret comes from standard input or the terminal: other users see a command line. */
export async function setConfigCommand(
  { config, isJson, signal }: ConfigContext,
  key: string,
  given: string | undefined,
): Promise<void> {
  const setting = requireSetting(key)
  if (setting.isSecret && given !== undefined && given !== '-') {
    const example = `slipway config set ${key} - < FILE`
    throw new Problem(
      'bad_request',
      `${key} is a secret, and other users can see a command line. Use: ${example}`,
    )
  }
  const text =
    given === '-' ? (await readText(process.stdin)).trim() : (given ?? (await askValue(setting, signal)))
  const value = parseValue(setting, text)
  const issue = checkValue(setting, value)
  if (issue !== undefined) throw new Problem('bad_request', `${key}: ${issue}`)
  await replace(config, await editConfig(config.file, key, value))
  const variable = overridingVariable(config.env, key)
  if (variable !== undefined) printNote(`${variable} in the environment overrides it.`)
  const { path } = config.file
  const shown = isSecretValue(key, value) ? redactedText : value
  await printResult(
    isJson,
    { key, status: 'set', value: shown, path },
    `${key} = ${displayText(key, shown)} in ${sanitizeLine(path)}`,
  )
}

/** Removes a setting from the file. */
export async function unsetConfigCommand({ config, isJson }: ConfigContext, key: string): Promise<void> {
  requireSetting(key)
  const isSet = config.file.values.has(key)
  if (isSet) await replace(config, await editConfig(config.file, key, undefined))
  await printResult(
    isJson,
    { key, status: isSet ? 'removed' : 'not_set' },
    isSet ? 'removed' : 'It is not set.',
  )
}

/** Edits a copy, which replaces the file when it is valid; an invalid copy is kept and offered again. */
export async function editConfigCommand({ config, isJson, signal }: ConfigContext): Promise<void> {
  const { path, text } = config.file
  const editor = config.env.VISUAL || config.env.EDITOR || 'vi'
  const copy = path.replace(/(\.toml)?$/, '.edit.toml')
  const edited = await editFile(copy, text, { editor, env: config.env, signal })
  await replace(config, edited).catch((error: unknown) => {
    if (!(error instanceof Problem)) throw error
    const next = `The file is as it was, and the copy is kept in ${copy}: slipway config edit opens it again.`
    throw new Problem('bad_request', `${error.message}\n${next}`)
  })
  await rm(copy, { force: true })
  const isChanged = edited !== text
  await printResult(isJson, { path, changed: isChanged }, isChanged ? 'saved' : 'unchanged')
}

/** Prints where the file is, or would be. */
export async function configPathCommand({ config, isJson }: ConfigContext): Promise<void> {
  const { path } = config.file
  await printResult(isJson, { path }, path)
}

/** Prints the JSON Schema. */
export async function configSchemaCommand(): Promise<void> {
  await print(`${JSON.stringify(schema, undefined, 2)}\n`)
}

/** Writes a text that both servers would accept. */
async function replace({ env, file }: Config, text: string): Promise<void> {
  const values = await parseConfig(text, file.path)
  const refusal = findRefusal(env, { ...file, values })
  if (refusal !== undefined) throw new Problem('bad_request', `${file.path}: ${refusal}`)
  if (text !== file.text) await writeConfigFile(file.path, text)
}

/** What a server says about the first value of the file that it refuses. */
function findRefusal(env: Config['env'], file: ConfigFile): string | undefined {
  const checks = { agent_server: checkAgentServerSettings, sandbox_server: checkSandboxServerSettings }
  for (const [table, check] of Object.entries(checks)) {
    const message = check(withFileSettings(env, file, table)) ?? ''
    const [variable = ''] = /^[A-Z_]+/.exec(message) ?? []
    const key = [...file.values.keys()].find(
      (key) => key.startsWith(`${table}.`) && fileSettings.get(key)?.variable === variable,
    )
    if (key !== undefined && overridingVariable(env, key) === undefined)
      return `${key}${message.slice(variable.length)}`
  }
  return undefined
}

function effectiveValue(setting: FileSetting, { env, file }: Config): EffectiveValue | undefined {
  const { key, schema } = setting
  const variable = overridingVariable(env, key)
  const found =
    variable !== undefined
      ? { value: env[variable], source: variable }
      : file.values.has(key)
        ? { value: file.values.get(key), source: file.path }
        : schema.default !== undefined
          ? { value: schema.default, source: 'default' }
          : undefined
  if (found === undefined) return undefined
  return { key, ...found, value: isSecretValue(key, found.value) ? redactedText : found.value }
}

function displayText(key: string, value: unknown): string {
  return sanitizeLine(variableText(requireSetting(key), value))
}

async function askValue({ key, isSecret }: FileSetting, signal: AbortSignal): Promise<string> {
  if (!isInteractive()) throw new Problem('bad_request', `Name the value of ${key}, or - for standard input.`)
  const { isCancel, password, text } = await import('@clack/prompts')
  const options = { message: key, output: process.stderr, signal }
  const answer = await (isSecret ? password(options) : text(options))
  if (isCancel(answer)) throw new Problem('bad_request', 'Nothing was changed.')
  return answer ?? ''
}
