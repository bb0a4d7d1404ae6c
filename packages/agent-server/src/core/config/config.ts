import { parseBasePath } from '@slipway/http'
import {
  type CommandRule,
  commandRules,
  commandSandboxMode,
  listSetting,
  metricsExportSettings,
  nonEmptyVariables,
  numberSetting,
  parseSettings,
  parseTelemetry,
  repositoryTrust,
  telemetrySettings,
  validationIssues,
  wireVersion as wires,
} from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { privateDirectories } from '@slipway/shared/process'
import { minSecretLength, Secret } from '@slipway/shared/redaction'
import * as z from 'zod'
import { parseLaunchedProfile, readKeyRefresh } from './managed-runtime.ts'
import { findSourceSecrets, parseMarketplaces, parseSkillsSource } from './marketplaces.ts'
import { findWebhookSecrets, readWebhooks } from './webhooks.ts'

const databaseUrl = z
  .url({ protocol: /^postgres(ql)?$/, hostname: /.*/, error: 'Should be a URL postgres://...' })
  .optional()

/** The settings of the agent server in the environment; `docs/operations.md` describes each. */
export const environmentSchema = z.object({
  SLIPWAY_SESSION_API_KEY: z.string().optional(),
  SLIPWAY_NO_KEY: z.stringbool().default(false),
  SLIPWAY_DEFERRED_INIT: z.stringbool().default(false),
  SLIPWAY_INIT_API_KEY: z.string().optional(),
  SLIPWAY_BASH_RETENTION_SECONDS: numberSetting(0, 2_000_000_000, 0),
  SLIPWAY_ALLOWED_HOSTS: listSetting,
  SLIPWAY_ALLOWED_ORIGINS: listSetting,
  SLIPWAY_ALLOWED_ORIGIN_PATTERN: z.string().optional(),
  SLIPWAY_WEB_URL: z.url({ protocol: /^https?$/, error: 'Should be a URL https://...' }).optional(),
  SLIPWAY_APP_BACKEND_URL: z.string().optional(),
  SLIPWAY_APP_BACKEND_SESSION_SECONDS: numberSetting(1, 86_400, 300),
  SLIPWAY_TRUST_FORWARDED_HEADERS: z.stringbool().default(false),
  SLIPWAY_WORKTREE_ROOT: z.string().regex(/^\//, 'Should be an absolute path').optional(),
  SLIPWAY_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  SLIPWAY_MAX_SOCKETS_PER_CONVERSATION: numberSetting(1, 100_000, 2_000),
  SLIPWAY_STALL_SECONDS: numberSetting(1, 3_600, 30),
  SLIPWAY_HEARTBEAT_SECONDS: numberSetting(1, 300, 5),
  SLIPWAY_DRAIN_SECONDS: numberSetting(0, 600, 5),
  SLIPWAY_SECRET_KEY: z.string().min(16).optional(),
  OH_SECRET_KEY: z.string().min(16).optional(),
  SLIPWAY_CONFIRMATION_DEADLINE_SECONDS: numberSetting(0, 2_000_000, 0),
  SLIPWAY_MAX_CONCURRENT_RUNS: numberSetting(1, 100_000, 100),
  SLIPWAY_QUEUE_RUNS: z.stringbool().default(false),
  SLIPWAY_MAX_RUN_RECOVERIES: numberSetting(0, 100, 3),
  SLIPWAY_CONVERSATION_IDLE_SECONDS: numberSetting(1, 2_000_000, 1_200),
  SLIPWAY_MAX_STORED_MB: numberSetting(0, 1_073_741_824, 0),
  SLIPWAY_MAX_CONVERSATION_MB: numberSetting(0, 1_073_741_824, 0),
  SLIPWAY_RETENTION_DAYS: numberSetting(0, 100_000, 0),
  SLIPWAY_TOOL_ENVIRONMENT: listSetting,
  SLIPWAY_TOOL_USER: z.string().optional(),
  SLIPWAY_MAX_PROFILES: numberSetting(1, 10_000, 50),
  SLIPWAY_WEBHOOKS: z.string().optional(),
  SLIPWAY_SKILLS_SOURCE: z.string().optional(),
  SLIPWAY_MARKETPLACES: z.string().optional(),
  SLIPWAY_CONFINE_FILES: z.stringbool().default(true),
  SLIPWAY_COMMAND_RULES: z.string().optional(),
  SLIPWAY_COMMAND_SANDBOX: commandSandboxMode.optional(),
  SLIPWAY_COMMAND_NETWORK: z.stringbool().default(false),
  SLIPWAY_CHECKPOINTS: z.stringbool().default(false),
  SLIPWAY_LANGUAGE_SERVERS: z.stringbool().default(false),
  SLIPWAY_BROWSER: z.stringbool().default(true),
  SLIPWAY_EDITOR: z.stringbool().default(false),
  SLIPWAY_EDITOR_COMMAND: z.string().optional(),
  SLIPWAY_EDITOR_HOST: z.string().default('127.0.0.1'),
  SLIPWAY_EDITOR_PORT: numberSetting(0, 65_535, 8_001),
  SLIPWAY_EDITOR_BASE_PATH: z.string().optional(),
  SLIPWAY_SUBSCRIPTION_CLIENT_ID: z.string().optional(),
  SLIPWAY_SUBSCRIPTION_ISSUER: z.url({ protocol: /^https?$/ }).default('https://auth.openai.com'),
  SLIPWAY_SUBSCRIPTION_MODELS_URL: z
    .url({ protocol: /^https?$/ })
    .default('https://chatgpt.com/backend-api/codex'),
  SLIPWAY_LLM_API_KEY_REFRESH_URL: z
    .url({ protocol: /^https?$/, error: 'Should be a URL https://...' })
    .optional(),
  SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS: listSetting,
  SLIPWAY_LLM_API_KEY_REFRESH_HEADERS: z.string().optional(),
  SLIPWAY_RUNTIME_LAUNCHED_PROFILE: z.string().optional(),
  SLIPWAY_GATEWAY_TIMEOUT_SECONDS: numberSetting(1, 86_400, 120),
  SLIPWAY_GITHUB_API_URL: z.url({ protocol: /^https?$/ }).default('https://api.github.com'),
  SLIPWAY_REPOSITORY_TRUST: repositoryTrust.default('skip'),
  SLIPWAY_WIRE: wires.default('seed'),
  SLIPWAY_COMPAT: z.stringbool().default(true),
  SLIPWAY_DATABASE_URL: databaseUrl,
  SLIPWAY_DATABASE_DIRECT_URL: databaseUrl,
  SLIPWAY_SHARED_DATABASE: z.stringbool().default(false),
  SLIPWAY_LEASE_SECONDS: numberSetting(2, 600, 10),
  SLIPWAY_PEER_URL: z.url({ protocol: /^http(s|\+unix)?$/, error: 'Should be a URL http://...' }).optional(),
  SLIPWAY_WEB: z.string().min(1).optional(),
  SLIPWAY_STATIC: z.string().min(1).optional(),
  SLIPWAY_CONSOLE: z.stringbool().default(true),
  ...telemetrySettings,
  ...metricsExportSettings,
})

/** Variables of the environment that tools always get. */
const defaultToolVariable = /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|TZ|TERM|TMPDIR)$|^LC_/
const secretNamePattern = /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL/i
/** Addresses, which are shown; secrets in them are found apart. */
const addressNamePattern = /_LLM_API_KEY_REFRESH_(BASE_)?URLS?$/
const serverVariablePattern =
  /^(SLIPWAY_|OH_SESSION_API_KEYS|OH_SECRET_KEY$|SESSION_API_KEY$|OH_LLM_API_KEY_REFRESH_(URL|HEADERS)$|OTEL_EXPORTER_OTLP_(TRACES_|METRICS_)?HEADERS$)/i

/** Settings without effect where `SLIPWAY_COMPAT` is off. */
export const compatSettings: readonly SettingName[] = [
  'SLIPWAY_APP_BACKEND_SESSION_SECONDS',
  'SLIPWAY_APP_BACKEND_URL',
  'SLIPWAY_TRUST_FORWARDED_HEADERS',
  'SLIPWAY_EDITOR',
  'SLIPWAY_EDITOR_BASE_PATH',
  'SLIPWAY_EDITOR_COMMAND',
  'SLIPWAY_EDITOR_HOST',
  'SLIPWAY_EDITOR_PORT',
  'SLIPWAY_LLM_API_KEY_REFRESH_URL',
  'SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS',
  'SLIPWAY_LLM_API_KEY_REFRESH_HEADERS',
  'SLIPWAY_RUNTIME_LAUNCHED_PROFILE',
]

/** The name of a setting. */
export type SettingName = keyof typeof environmentSchema.shape

export type Config = Readonly<ReturnType<typeof readConfig>>

/** Reads the environment; throws an Error that names the variable at fault and never shows its value. */
export function readConfig(env: Readonly<Record<string, string | undefined>>) {
  const variables = withAliases(nonEmptyVariables(env))
  const sessionKeys: readonly Secret[] = readSessionKeys(variables)
  const values = parseSettings(environmentSchema, variables)
  const secretKey = toSecret(values.SLIPWAY_SECRET_KEY ?? values.OH_SECRET_KEY)
  const initKey = toSecret(values.SLIPWAY_INIT_API_KEY) ?? secretKey
  const webhooks = readWebhooks(env)
  const keyRefresh = readKeyRefresh(values, env)
  const databaseUrls = [values.SLIPWAY_DATABASE_URL, values.SLIPWAY_DATABASE_DIRECT_URL].map(toSecret)
  const isShared = values.SLIPWAY_SHARED_DATABASE
  if (isShared && (databaseUrls[0] === undefined || secretKey === undefined))
    throw new Error(
      'SLIPWAY_SHARED_DATABASE needs SLIPWAY_DATABASE_URL, and the same SLIPWAY_SECRET_KEY on all servers',
    )
  const telemetry = parseTelemetry(values)
  const skillsSource = parseSkillsSource(values.SLIPWAY_SKILLS_SOURCE)
  const marketplaces = parseMarketplaces(values.SLIPWAY_MARKETPLACES)
  const secretValues: readonly Secret[] = [
    ...findSecretValues(env),
    ...webhooks.flatMap(findWebhookSecrets),
    ...Object.values(telemetry.receiver.headers),
    ...findSourceSecrets({ skillsSource, marketplaces }),
    ...databaseUrls.flatMap(findUrlSecrets),
    ...(keyRefresh?.secrets ?? []),
  ]
  return {
    sessionKeys,
    /** Without configured keys the server requires none, and makes none. */
    isKeyless: values.SLIPWAY_NO_KEY,
    allowedHosts: values.SLIPWAY_ALLOWED_HOSTS,
    allowedOrigins: readAllowedOrigins(values, variables),
    /** The address at which a proxy shows this server, without a slash at the end. */
    webUrl: values.SLIPWAY_WEB_URL?.replace(/\/+$/, ''),
    /** The path below which a proxy shows this server; empty without one. */
    basePath: readBasePath(values.SLIPWAY_WEB_URL),
    /** The origin of applications and how long a page of one may use its program. */
    applicationIngress: {
      url: values.SLIPWAY_APP_BACKEND_URL,
      trustsForwardedHeaders: values.SLIPWAY_TRUST_FORWARDED_HEADERS,
    },
    applicationSessionMs: values.SLIPWAY_APP_BACKEND_SESSION_SECONDS * 1000,
    /** Where worktrees of conversations are made, instead of the data directory. */
    worktreeRoot: values.SLIPWAY_WORKTREE_ROOT,
    /** What init settings deliver instead of the data directory of the start. */
    dataDirectory: undefined as string | undefined,
    bashDirectory: undefined as string | undefined,
    logLevel: values.SLIPWAY_LOG_LEVEL,
    maxSocketsPerConversation: values.SLIPWAY_MAX_SOCKETS_PER_CONVERSATION,
    stallMs: values.SLIPWAY_STALL_SECONDS * 1000,
    heartbeatMs: values.SLIPWAY_HEARTBEAT_SECONDS * 1000,
    drainMs: values.SLIPWAY_DRAIN_SECONDS * 1000,
    secretKey,
    /** Undefined: confirmations wait without a limit. */
    confirmationDeadlineMs: positiveMs(values.SLIPWAY_CONFIRMATION_DEADLINE_SECONDS),
    maxConcurrentRuns: values.SLIPWAY_MAX_CONCURRENT_RUNS,
    /** Runs above that limit wait for their turn; otherwise their requests are refused. */
    queuesRuns: values.SLIPWAY_QUEUE_RUNS,
    /** How often a run is continued whose server died. */
    maxRunRecoveries: values.SLIPWAY_MAX_RUN_RECOVERIES,
    conversationIdleMs: values.SLIPWAY_CONVERSATION_IDLE_SECONDS * 1000,
    storageLimits: {
      totalBytes: mibOrUnlimited(values.SLIPWAY_MAX_STORED_MB),
      conversationBytes: mibOrUnlimited(values.SLIPWAY_MAX_CONVERSATION_MB),
    },
    /** Undefined: conversations are not deleted because of their age. */
    retentionMs: positiveMs(values.SLIPWAY_RETENTION_DAYS * secondsPerDay),
    /** All variables of tool processes; no setting of the server is among them. */
    toolEnvironment: buildToolEnvironment(env, values.SLIPWAY_TOOL_ENVIRONMENT),
    /** Name or id of the user whose rights tools have. */
    toolUser: values.SLIPWAY_TOOL_USER,
    maxProfiles: values.SLIPWAY_MAX_PROFILES,
    webhooks,
    hasCheckpoints: values.SLIPWAY_CHECKPOINTS,
    hasLanguageServers: values.SLIPWAY_LANGUAGE_SERVERS,
    /** The sign-in to a subscription; without a client id there is none. */
    subscription: {
      clientId: values.SLIPWAY_SUBSCRIPTION_CLIENT_ID,
      issuer: values.SLIPWAY_SUBSCRIPTION_ISSUER.replace(/\/+$/, ''),
      modelsUrl: values.SLIPWAY_SUBSCRIPTION_MODELS_URL.replace(/\/+$/, ''),
    },
    /** Where a rejected key of a model is fetched again; undefined: nowhere. */
    keyRefresh,
    /** The profile of conversations that name none. */
    launchedProfile: parseLaunchedProfile(values.SLIPWAY_RUNTIME_LAUNCHED_PROFILE),
    gatewayTimeoutMs: values.SLIPWAY_GATEWAY_TIMEOUT_SECONDS * 1000,
    githubApiUrl: values.SLIPWAY_GITHUB_API_URL.replace(/\/+$/, ''),
    /** Where a browser is looked for. */
    browser: {
      isOff: !values.SLIPWAY_BROWSER,
      path: env.PATH,
      playwrightDirectory: env.PLAYWRIGHT_BROWSERS_PATH || `${env.HOME ?? ''}/.cache/ms-playwright`,
    },
    /** The editor in the browser; undefined: there is none. */
    editor: values.SLIPWAY_EDITOR
      ? {
          command: values.SLIPWAY_EDITOR_COMMAND,
          path: env.PATH,
          host: values.SLIPWAY_EDITOR_HOST,
          port: values.SLIPWAY_EDITOR_PORT,
          basePath: readPath(values.SLIPWAY_EDITOR_BASE_PATH, 'SLIPWAY_EDITOR_BASE_PATH'),
        }
      : undefined,
    confineFiles: values.SLIPWAY_CONFINE_FILES,
    skillsSource,
    marketplaces,
    commandRules: parseCommandRules(values.SLIPWAY_COMMAND_RULES),
    /** Of conversations that name none. */
    commandSandbox: {
      mode: values.SLIPWAY_COMMAND_SANDBOX ?? 'off',
      network: values.SLIPWAY_COMMAND_NETWORK,
    },
    /** Programs of tools do not see the data directory and `privateDirectories`, where that is possible. */
    hidesKeys: values.SLIPWAY_COMMAND_SANDBOX !== 'off',
    /** Folders of this user with keys, besides the data directory. */
    privateDirectories: privateDirectories(env),
    repositoryTrust: values.SLIPWAY_REPOSITORY_TRUST,
    /** Serve also what only clients of the reference ask for. */
    hasCompat: values.SLIPWAY_COMPAT,
    /** Wire version of the events of new conversations. */
    wire: values.SLIPWAY_WIRE,
    webDirectory: values.SLIPWAY_WEB,
    /** Its files are served below `/static`. */
    staticDirectory: values.SLIPWAY_STATIC,
    /** The console is served at `/`, where there is one. */
    hasConsole: values.SLIPWAY_CONSOLE,
    /** Where conversations are stored instead of the data directory. */
    databaseUrl: databaseUrls[0],
    /** The way to the database past a pooler. */
    databaseDirectUrl: databaseUrls[1],
    /** How servers that share the database do so; undefined when this one owns it. */
    sharing: isShared
      ? { leaseMs: values.SLIPWAY_LEASE_SECONDS * 1000, peerUrl: values.SLIPWAY_PEER_URL }
      : undefined,
    telemetry,
    /** Values of variables with secret names; a tool could find them, so its output is redacted. */
    secretValues,
    /** All values that tools must not show: the keys and `secretValues`. */
    secrets: [...sessionKeys, secretKey, initKey, ...secretValues].filter((secret) => secret !== undefined),
    /** The server waits for `POST /api/init`. */
    isDeferred: values.SLIPWAY_DEFERRED_INIT,
    initKey,
    /** Undefined: commands are not removed because of their age. */
    bashRetentionMs: positiveMs(values.SLIPWAY_BASH_RETENTION_SECONDS),
  }
}

/** A JSON array of rules. */
function parseCommandRules(text: string | undefined): readonly CommandRule[] {
  if (text === undefined) return []
  const value = parseJson(text)
  const result = commandRules.safeParse(value)
  if (result.success) return result.data
  const [issue] = validationIssues(result.error, [], value)
  throw new Error(`SLIPWAY_COMMAND_RULES: ${issue?.loc.join('.')}: ${issue?.msg}`)
}

/** Names that other servers of this interface give to our settings; ours count more. */
export const aliases = {
  OH_DEFERRED_INIT: 'SLIPWAY_DEFERRED_INIT',
  OH_MAX_CONCURRENT_RUNS: 'SLIPWAY_MAX_CONCURRENT_RUNS',
  OH_ALLOW_CORS_ORIGIN_REGEX: 'SLIPWAY_ALLOWED_ORIGIN_PATTERN',
  OH_STATIC_FILES_PATH: 'SLIPWAY_STATIC',
  OH_WEB_URL: 'SLIPWAY_WEB_URL',
  OH_APP_BACKEND_PUBLIC_URL: 'SLIPWAY_APP_BACKEND_URL',
  OH_TRUST_FORWARDED_HEADERS: 'SLIPWAY_TRUST_FORWARDED_HEADERS',
  OH_ENABLE_BROWSER: 'SLIPWAY_BROWSER',
  OH_ENABLE_VSCODE: 'SLIPWAY_EDITOR',
  OH_VSCODE_PORT: 'SLIPWAY_EDITOR_PORT',
  OH_VSCODE_BASE_PATH: 'SLIPWAY_EDITOR_BASE_PATH',
  OH_CONVERSATION_WORKTREE_ROOT: 'SLIPWAY_WORKTREE_ROOT',
  OH_CONVERSATION_IDLE_TTL_SECONDS: 'SLIPWAY_CONVERSATION_IDLE_SECONDS',
  OH_BASH_EVENTS_RETENTION_SECONDS: 'SLIPWAY_BASH_RETENTION_SECONDS',
  OH_LLM_API_KEY_REFRESH_URL: 'SLIPWAY_LLM_API_KEY_REFRESH_URL',
  OH_LLM_API_KEY_REFRESH_BASE_URLS: 'SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS',
  OH_LLM_API_KEY_REFRESH_HEADERS: 'SLIPWAY_LLM_API_KEY_REFRESH_HEADERS',
  OH_RUNTIME_LAUNCHED_PROFILE: 'SLIPWAY_RUNTIME_LAUNCHED_PROFILE',
} as const

function withAliases(variables: Readonly<Record<string, string>>): Record<string, string> {
  const renamed = Object.entries(aliases).flatMap(([alias, name]) => {
    const value = variables[alias]
    return value === undefined ? [] : [[name, value] as const]
  })
  const origins = readNumberedVariables(variables, 'OH_ALLOW_CORS_ORIGINS')
  return {
    ...Object.fromEntries(renamed),
    ...(origins === undefined ? {} : { SLIPWAY_ALLOWED_ORIGINS: origins.join(',') }),
    ...variables,
  }
}

/** Names and patterns of origins; `DOCKER_HOST_ADDR` names the machine that containers see. */
function readAllowedOrigins(
  values: z.output<typeof environmentSchema>,
  { DOCKER_HOST_ADDR }: Readonly<Record<string, string>>,
): readonly (string | RegExp)[] {
  const { SLIPWAY_ALLOWED_ORIGINS: names, SLIPWAY_ALLOWED_ORIGIN_PATTERN: pattern } = values
  const host = DOCKER_HOST_ADDR?.trim().toLowerCase()
  const { SLIPWAY_WEB_URL: webUrl } = values
  return [
    ...names,
    ...(webUrl === undefined ? [] : [new URL(webUrl).origin]),
    ...(pattern === undefined ? [] : [readPattern(pattern)]),
    ...(host === undefined || !/^[\w.-]+$/.test(host)
      ? []
      : [new RegExp(`http://${host.replaceAll('.', '\\.')}(:\\d+)?`)]),
  ]
}

function readPattern(text: string): RegExp {
  try {
    return new RegExp(text)
  } catch {
    throw new Error('SLIPWAY_ALLOWED_ORIGIN_PATTERN: it is not a regular expression')
  }
}

function readBasePath(url: string | undefined): string {
  return readPath(url === undefined ? undefined : new URL(url).pathname, 'SLIPWAY_WEB_URL')
}

function readPath(path: string | undefined, variable: string): string {
  try {
    return path === undefined ? '' : parseBasePath(path)
  } catch {
    throw new Error(`${variable}: its path is not one like /slipway`)
  }
}

const secondsPerDay = 86_400

function mibOrUnlimited(mib: number): number {
  return mib === 0 ? Number.POSITIVE_INFINITY : mib * 1024 ** 2
}

function positiveMs(seconds: number): number | undefined {
  return seconds === 0 ? undefined : seconds * 1000
}

function toSecret(text: string | undefined): Secret | undefined {
  return text === undefined ? undefined : new Secret(text)
}

/** The session keys, also by the names that other servers of this interface read them from. */
function readSessionKeys(env: Readonly<Record<string, string | undefined>>): Secret[] {
  const configured = env.SLIPWAY_SESSION_API_KEY?.split(',').map((key) => key.trim())
  const texts = configured ?? readNumberedVariables(env, 'OH_SESSION_API_KEYS') ?? [env.SESSION_API_KEY ?? '']
  return texts.filter((key) => key !== '').map((key) => new Secret(key))
}

/** `NAME_0`, `NAME_1`, ... up to the first that is missing; undefined when there is none. */
function readNumberedVariables(
  env: Readonly<Record<string, string | undefined>>,
  name: string,
): string[] | undefined {
  const texts: string[] = []
  for (let text = env[`${name}_0`]; text !== undefined; text = env[`${name}_${texts.length}`])
    texts.push(text)
  return texts.length === 0 ? undefined : texts
}

/** The URL of a database, and its password. */
function findUrlSecrets(url: Secret | undefined): Secret[] {
  if (url === undefined) return []
  const { password } = new URL(url.reveal())
  return [url, ...(password === '' ? [] : [new Secret(decodeURIComponent(password))])]
}

/** Values of variables whose names say that they are secrets. */
export function findSecretValues(env: Readonly<Record<string, string | undefined>>): Secret[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined &&
    value.length >= minSecretLength &&
    secretNamePattern.test(name) &&
    !addressNamePattern.test(name)
      ? [new Secret(value)]
      : [],
  )
}

function buildToolEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): Record<string, string> {
  const forbidden = names.find((name) => serverVariablePattern.test(name))
  if (forbidden !== undefined)
    throw new Error(`SLIPWAY_TOOL_ENVIRONMENT: ${forbidden} is a setting of the server`)
  const isDefault = (name: string) => defaultToolVariable.test(name) && !secretNamePattern.test(name)
  const entries = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (isDefault(name) || names.includes(name)) ? [[name, value] as const] : [],
  )
  return Object.fromEntries(entries)
}
