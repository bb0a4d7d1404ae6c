import {
  listSetting,
  type MarketplaceRegistration,
  nonEmptyVariables,
  numberSetting,
  parseSettings,
  parseTelemetry,
  type Telemetry,
  telemetrySettings,
  type WebhookSpec,
  type WireVersion,
  wireVersion as wires,
} from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import * as z from 'zod'
import { findSourceSecrets, parseMarketplaces, parseSkillsSource } from './marketplaces.ts'
import { findWebhookSecrets, readWebhooks } from './webhooks.ts'

/** Every setting of the agent server that comes from the environment. */
const environmentSchema = z.object({
  SLIPWAY_SESSION_API_KEY: z.string().optional().meta({
    description:
      'Session key that callers send as X-Session-API-Key. Several are separated by commas. Without one the server binds to loopback only.',
  }),
  SLIPWAY_DEFERRED_INIT: z.stringbool().default(false).meta({
    description:
      'Wait for the keys and other settings, which POST /api/init brings; nothing else is answered before.',
  }),
  SLIPWAY_INIT_API_KEY: z.string().optional().meta({
    description: 'Key that is sent as X-Init-API-Key with these settings; SLIPWAY_SECRET_KEY unless given.',
  }),
  SLIPWAY_BASH_RETENTION_SECONDS: numberSetting(0, 2_000_000_000, 0).meta({
    description:
      'Seconds for which commands of /api/bash are kept after their end; 0 keeps them as long as there is room.',
  }),
  SLIPWAY_ALLOWED_HOSTS: listSetting.meta({
    description: 'Host names that requests may name besides loopback, separated by commas.',
  }),
  SLIPWAY_ALLOWED_ORIGINS: listSetting.meta({
    description: 'Origins of web pages that may call the server besides loopback ones, separated by commas.',
  }),
  SLIPWAY_LOG_LEVEL: z
    .enum(['debug', 'info', 'warn', 'error'])
    .default('info')
    .meta({ description: 'Least level that is logged to standard error.' }),
  SLIPWAY_MAX_SOCKETS_PER_CONVERSATION: numberSetting(1, 100_000, 2_000).meta({
    description: 'Open WebSockets of one conversation; one more is closed with 1013.',
  }),
  SLIPWAY_STALL_SECONDS: numberSetting(1, 3_600, 30).meta({
    description: 'Seconds that a WebSocket reader may stand still before it is closed with 1013.',
  }),
  SLIPWAY_HEARTBEAT_SECONDS: numberSetting(1, 300, 10).meta({
    description: 'Seconds of silence before a server-sent event stream carries a comment.',
  }),
  SLIPWAY_SECRET_KEY: z.string().min(16).optional().meta({
    description:
      'Text from which the key for stored secrets is made, 16 characters or more. Without one a random key is kept in the data directory.',
  }),
  OH_SECRET_KEY: z.string().min(16).optional().meta({
    description: 'The same by the name that other servers of this interface know.',
  }),
  SLIPWAY_CONFIRMATION_DEADLINE_SECONDS: numberSetting(0, 2_000_000, 0).meta({
    description: 'Seconds after which actions that nobody confirmed are rejected; 0 waits for ever.',
  }),
  SLIPWAY_MAX_CONCURRENT_RUNS: numberSetting(1, 100_000, 100).meta({
    description: 'Conversations that run at the same time; one more waits for its turn.',
  }),
  SLIPWAY_CONVERSATION_IDLE_SECONDS: numberSetting(1, 2_000_000, 1_200).meta({
    description: 'Seconds after which a conversation that does nothing is taken out of memory.',
  }),
  SLIPWAY_TOOL_ENVIRONMENT: listSetting.meta({
    description:
      'Names of environment variables that tools get besides the usual ones, separated by commas. Settings of the server are refused.',
  }),
  SLIPWAY_MAX_PROFILES: numberSetting(1, 10_000, 50).meta({
    description: 'Profiles of models that may be kept; one more is refused.',
  }),
  SLIPWAY_WEBHOOKS: z.string().optional().meta({
    description:
      'Receivers of events: a JSON array of {"base_url", "headers"?, "event_buffer_size"?, "flush_delay"?, "retry_delay"?}; addresses are http, https or http+unix.',
  }),
  SLIPWAY_SKILLS_SOURCE: z.string().optional().meta({
    description:
      'Collection of skills that is there for everybody: a git URL, github:owner/repo or an absolute directory. Without one there is none.',
  }),
  SLIPWAY_MARKETPLACES: z.string().optional().meta({
    description:
      'Marketplaces of plugins and skills: a JSON array of {"name", "source", "ref"?, "repo_path"?, "auto_load"?}; auto_load is true, false or a list of names, and what it names is in every conversation.',
  }),
  SLIPWAY_CONFINE_FILES: z.stringbool().default(true).meta({
    description: 'Keep the files that callers and tools name inside the workspace.',
  }),
  SLIPWAY_WIRE: wires.default('seed').meta({
    description:
      'Events of new conversations: seed has the members and kinds that every client reads, current the newer ones too. The header X-Slipway-Wire goes before it.',
  }),
  SLIPWAY_WEB: z.string().min(1).optional().meta({
    description: 'Directory of an unpacked web client, which is shown at the address of the server.',
  }),
  ...telemetrySettings,
})

/** Variables of the environment that tools always get, besides `LC_*`. */
const defaultToolVariables = new Set([
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'TZ',
  'TERM',
  'TMPDIR',
])
const secretNamePattern = /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL/i
const serverVariablePattern =
  /^(SLIPWAY_|OH_SESSION_API_KEYS|OH_SECRET_KEY$|SESSION_API_KEY$|OTEL_EXPORTER_OTLP_(TRACES_)?HEADERS$)/i

/** Every setting as documentation shows it: what it means, and its value when it is not set. */
export function listSettings(): { name: string; description: string; defaultValue: string }[] {
  return Object.entries(environmentSchema.shape).map(([name, schema]) => {
    const value = schema.safeParse(undefined).data
    const defaultValue = value === undefined || name === 'SLIPWAY_WEBHOOKS' ? '' : String(value)
    return { name, description: schema.meta()?.description ?? '', defaultValue }
  })
}

export interface Config {
  readonly sessionKeys: readonly Secret[]
  readonly allowedHosts: readonly string[]
  readonly allowedOrigins: readonly string[]
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  readonly maxSocketsPerConversation: number
  readonly stallMs: number
  readonly heartbeatMs: number
  readonly secretKey: Secret | undefined
  /** Undefined: confirmations wait for ever. */
  readonly confirmationDeadlineMs: number | undefined
  readonly maxConcurrentRuns: number
  readonly conversationIdleMs: number
  /** The variables that processes of tools get, and no others. No setting of the server is among them. */
  readonly toolEnvironment: Readonly<Record<string, string>>
  readonly maxProfiles: number
  readonly webhooks: readonly WebhookSpec[]
  readonly confineFiles: boolean
  /** Undefined: there are no public skills. */
  readonly skillsSource: string | undefined
  readonly marketplaces: readonly MarketplaceRegistration[]
  /** Of the events of new conversations. */
  readonly wire: WireVersion
  readonly telemetry: Telemetry
  /** Directory of a web client. */
  readonly webDirectory: string | undefined
  /** Values of variables with secret names; a tool could find them, so its output is redacted. */
  readonly secretValues: readonly Secret[]
  /** All that no tool may show: the keys and `secretValues`. */
  readonly secrets: readonly Secret[]
  /** The server waits for `POST /api/init`. */
  readonly isDeferred: boolean
  readonly initKey: Secret | undefined
  /** Undefined: commands are not removed for their age. */
  readonly bashRetentionMs: number | undefined
}

/** Reads the environment; throws an Error that names the variable at fault and never shows its value. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const variables = nonEmptyVariables(env)
  const keys = readSessionKeys(variables)
  const values = parseSettings(environmentSchema, variables)
  const deadlineSeconds = values.SLIPWAY_CONFIRMATION_DEADLINE_SECONDS
  const secretKey = toSecret(values.SLIPWAY_SECRET_KEY ?? values.OH_SECRET_KEY)
  const initKey = toSecret(values.SLIPWAY_INIT_API_KEY) ?? secretKey
  const retentionSeconds = values.SLIPWAY_BASH_RETENTION_SECONDS
  const webhooks = readWebhooks(env)
  const telemetry = parseTelemetry(values)
  const traceHeaders = Object.values(telemetry.traces?.headers ?? {})
  const skillsSource = parseSkillsSource(values.SLIPWAY_SKILLS_SOURCE)
  const marketplaces = parseMarketplaces(values.SLIPWAY_MARKETPLACES)
  const sourceSecrets = findSourceSecrets({ skillsSource, marketplaces })
  const namedSecrets = [
    ...findSecretValues(env),
    ...webhooks.flatMap(findWebhookSecrets),
    ...traceHeaders,
    ...sourceSecrets,
  ]
  return {
    sessionKeys: keys,
    allowedHosts: values.SLIPWAY_ALLOWED_HOSTS,
    allowedOrigins: values.SLIPWAY_ALLOWED_ORIGINS,
    logLevel: values.SLIPWAY_LOG_LEVEL,
    maxSocketsPerConversation: values.SLIPWAY_MAX_SOCKETS_PER_CONVERSATION,
    stallMs: values.SLIPWAY_STALL_SECONDS * 1000,
    heartbeatMs: values.SLIPWAY_HEARTBEAT_SECONDS * 1000,
    secretKey,
    confirmationDeadlineMs: deadlineSeconds === 0 ? undefined : deadlineSeconds * 1000,
    maxConcurrentRuns: values.SLIPWAY_MAX_CONCURRENT_RUNS,
    conversationIdleMs: values.SLIPWAY_CONVERSATION_IDLE_SECONDS * 1000,
    toolEnvironment: buildToolEnvironment(env, values.SLIPWAY_TOOL_ENVIRONMENT),
    maxProfiles: values.SLIPWAY_MAX_PROFILES,
    webhooks,
    confineFiles: values.SLIPWAY_CONFINE_FILES,
    skillsSource,
    marketplaces,
    wire: values.SLIPWAY_WIRE,
    webDirectory: values.SLIPWAY_WEB,
    telemetry,
    secretValues: namedSecrets,
    secrets: [...keys, secretKey, initKey, ...namedSecrets].filter((secret) => secret !== undefined),
    isDeferred: values.SLIPWAY_DEFERRED_INIT,
    initKey,
    bashRetentionMs: retentionSeconds === 0 ? undefined : retentionSeconds * 1000,
  }
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

/** Of short values, and of switches in variables such as `USE_TOKEN`, every text would be full. */
const minSecretLength = 8

/** Values of variables whose names say that they are secrets. */
export function findSecretValues(env: Readonly<Record<string, string | undefined>>): Secret[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && value.length >= minSecretLength && secretNamePattern.test(name)
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
  const isDefault = (name: string) =>
    (defaultToolVariables.has(name) || name.startsWith('LC_')) && !secretNamePattern.test(name)
  const entries = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (isDefault(name) || names.includes(name)) ? [[name, value] as const] : [],
  )
  return Object.fromEntries(entries)
}
