import { createTelemetry, readSettings, type SettingValues } from '@slipway/protocol'
import { privateDirectories } from '@slipway/shared/process'
import { minSecretLength, Secret } from '@slipway/shared/redaction'
import { readKeyRefresh } from './managed-runtime.ts'
import { findSourceSecrets } from './marketplaces.ts'
import { parsePath, settings } from './settings.ts'
import { findWebhookSecrets, readWebhooks } from './webhooks.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Variables of the environment that tools always get. */
const defaultToolVariable = /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|TZ|TERM|TMPDIR)$|^LC_/
const secretNamePattern = /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL/i
/** Addresses, which are shown; secrets in them are found apart. */
const addressNamePattern = /_LLM_API_KEY_REFRESH_(BASE_)?URLS?$/
const serverVariablePattern =
  /^(SLIPWAY_|OH_SESSION_API_KEYS|OH_SECRET_KEY$|SESSION_API_KEY$|OH_LLM_API_KEY_REFRESH_(URL|HEADERS)$|OTEL_EXPORTER_OTLP_(TRACES_|METRICS_)?HEADERS$)/i

export type Config = Readonly<ReturnType<typeof readConfig>>

/**
 * Reads the environment: the members of `settings`, and what follows from several of them. Throws an Error
 * that names the variable at fault and never shows its value.
 */
export function readConfig(env: Environment) {
  const origins =
    env.SLIPWAY_ALLOWED_ORIGINS || readNumberedVariables(env, 'OH_ALLOW_CORS_ORIGINS')?.join(',')
  const values = readSettings(settings, { ...env, SLIPWAY_ALLOWED_ORIGINS: origins })
  const { webUrl, secretKey, databaseUrl, databaseDirectUrl, sharing, editor, commandSandbox } = values
  if (sharing.isOn && (databaseUrl === undefined || secretKey === undefined))
    throw new Error(
      'SLIPWAY_SHARED_DATABASE needs SLIPWAY_DATABASE_URL, and the same SLIPWAY_SECRET_KEY on all servers',
    )
  const sessionKeys: readonly Secret[] = readSessionKeys(env)
  const initKey = values.initKey ?? secretKey
  const webhooks = readWebhooks(env)
  const keyRefresh = readKeyRefresh(values.keyRefresh, env)
  const telemetry = createTelemetry(values.telemetry)
  const secretValues: readonly Secret[] = [
    ...findSecretValues(env),
    ...webhooks.flatMap(findWebhookSecrets),
    ...Object.values(telemetry.receiver.headers),
    ...findSourceSecrets({ skillsSource: values.skillsSource, marketplaces: values.marketplaces }),
    ...[databaseUrl, databaseDirectUrl].flatMap(findUrlSecrets),
    ...(keyRefresh?.secrets ?? []),
  ]
  return {
    ...values,
    sessionKeys,
    initKey,
    allowedOrigins: allOrigins(values),
    /** The path below which a proxy shows this server; empty without one. */
    basePath: webUrl === undefined ? '' : parsePath(new URL(webUrl).pathname, 'SLIPWAY_WEB_URL'),
    /** What init settings deliver instead of the data directory of the start. */
    dataDirectory: undefined as string | undefined,
    bashDirectory: undefined as string | undefined,
    /** All variables of tool processes; no setting of the server is among them. */
    toolEnvironment: buildToolEnvironment(env, values.toolEnvironment),
    webhooks,
    /** Where a rejected key of a model is fetched again; undefined: nowhere. */
    keyRefresh,
    /** Where a browser is looked for. */
    browser: {
      isOff: !values.hasBrowser,
      path: env.PATH,
      playwrightDirectory: env.PLAYWRIGHT_BROWSERS_PATH || `${env.HOME ?? ''}/.cache/ms-playwright`,
    },
    /** The editor in the browser; undefined: there is none. */
    editor: editor.isOn ? { ...editor, path: env.PATH } : undefined,
    /** Of conversations that name none. */
    commandSandbox: { ...commandSandbox, mode: commandSandbox.mode ?? 'off' },
    /** Programs of tools do not see the data directory and `privateDirectories`, where that is possible. */
    hidesKeys: commandSandbox.mode !== 'off',
    /** Folders of this user with keys, besides the data directory. */
    privateDirectories: privateDirectories(env),
    /** How servers that share the database do so; undefined when this one owns it. */
    sharing: sharing.isOn ? sharing : undefined,
    telemetry,
    /** Values of variables with secret names; a tool could find them, so its output is redacted. */
    secretValues,
    /** All values that tools must not show: the keys and `secretValues`. */
    secrets: [...sessionKeys, secretKey, initKey, ...secretValues].filter((secret) => secret !== undefined),
  }
}

/** Names and patterns of origins; `DOCKER_HOST_ADDR` names the machine that containers see. */
function allOrigins(
  values: Pick<
    SettingValues<typeof settings>,
    'allowedOrigins' | 'allowedOriginPattern' | 'dockerHost' | 'webUrl'
  >,
): readonly (string | RegExp)[] {
  const { allowedOrigins, allowedOriginPattern: pattern, webUrl } = values
  const host = values.dockerHost?.trim().toLowerCase()
  return [
    ...allowedOrigins,
    ...(webUrl === undefined ? [] : [new URL(webUrl).origin]),
    ...(pattern === undefined ? [] : [pattern]),
    ...(host === undefined || !/^[\w.-]+$/.test(host)
      ? []
      : [new RegExp(`http://${host.replaceAll('.', '\\.')}(:\\d+)?`)]),
  ]
}

/** The session keys, also by the names that other servers of this interface read them from. */
function readSessionKeys(env: Environment): Secret[] {
  const configured = env.SLIPWAY_SESSION_API_KEY
  const texts = configured
    ? configured.split(',').map((key) => key.trim())
    : (readNumberedVariables(env, 'OH_SESSION_API_KEYS') ?? [env.SESSION_API_KEY ?? ''])
  return texts.filter((key) => key !== '').map((key) => new Secret(key))
}

/** `NAME_0`, `NAME_1`, ... up to the first that is missing; undefined when there is none. */
function readNumberedVariables(env: Environment, name: string): string[] | undefined {
  const texts: string[] = []
  for (let text = env[`${name}_0`]; text; text = env[`${name}_${texts.length}`]) texts.push(text)
  return texts.length === 0 ? undefined : texts
}

/** The URL of a database, and its password. */
function findUrlSecrets(url: Secret | undefined): Secret[] {
  if (url === undefined) return []
  const { password } = new URL(url.reveal())
  return [url, ...(password === '' ? [] : [new Secret(decodeURIComponent(password))])]
}

/** Values of variables whose names say that they are secrets. */
export function findSecretValues(env: Environment): Secret[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined &&
    value.length >= minSecretLength &&
    secretNamePattern.test(name) &&
    !addressNamePattern.test(name)
      ? [new Secret(value)]
      : [],
  )
}

function buildToolEnvironment(env: Environment, names: readonly string[]): Record<string, string> {
  const forbidden = names.find((name) => serverVariablePattern.test(name))
  if (forbidden !== undefined)
    throw new Error(`SLIPWAY_TOOL_ENVIRONMENT: ${forbidden} is a setting of the server`)
  const isDefault = (name: string) => defaultToolVariable.test(name) && !secretNamePattern.test(name)
  const entries = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (isDefault(name) || names.includes(name)) ? [[name, value] as const] : [],
  )
  return Object.fromEntries(entries)
}
