import { Secret } from '@slipway/protocol'
import * as z from 'zod'

const list = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  )

const wholeNumber = (min: number, max: number, otherwise: number) =>
  z.coerce.number().int().min(min).max(max).default(otherwise)

/** Every setting of the agent server that comes from the environment; nobody else reads it. */
const environment = z.object({
  SLIPWAY_SESSION_API_KEY: z.string().optional().meta({
    description:
      'Session key that callers send as X-Session-API-Key. Several are separated by commas. Without one the server binds to loopback only.',
  }),
  SLIPWAY_ALLOWED_HOSTS: list.meta({
    description: 'Host names that requests may name besides loopback, separated by commas.',
  }),
  SLIPWAY_ALLOWED_ORIGINS: list.meta({
    description: 'Origins of web pages that may call the server besides loopback ones, separated by commas.',
  }),
  SLIPWAY_LOG_LEVEL: z
    .enum(['debug', 'info', 'warn', 'error'])
    .default('info')
    .meta({ description: 'Least level that is logged to standard error.' }),
  SLIPWAY_MAX_SOCKETS_PER_CONVERSATION: wholeNumber(1, 100_000, 2_000).meta({
    description: 'Open WebSockets of one conversation; one more is closed with 1013.',
  }),
  SLIPWAY_STALL_SECONDS: wholeNumber(1, 3_600, 30).meta({
    description: 'Seconds that a WebSocket reader may stand still before it is closed with 1013.',
  }),
  SLIPWAY_HEARTBEAT_SECONDS: wholeNumber(1, 300, 10).meta({
    description: 'Seconds of silence before a server-sent event stream carries a comment.',
  }),
  SLIPWAY_SECRET_KEY: z.string().min(16).optional().meta({
    description:
      'Text from which the key for stored secrets is made, 16 characters or more. Without one a random key is kept in the data directory.',
  }),
  SLIPWAY_CONFIRMATION_DEADLINE_SECONDS: wholeNumber(0, 2_000_000, 0).meta({
    description: 'Seconds after which actions that nobody confirmed are rejected; 0 waits for ever.',
  }),
  SLIPWAY_MAX_CONCURRENT_RUNS: wholeNumber(1, 100_000, 100).meta({
    description: 'Conversations that run at the same time; one more waits for its turn.',
  }),
  SLIPWAY_CONVERSATION_IDLE_SECONDS: wholeNumber(1, 2_000_000, 1_200).meta({
    description: 'Seconds after which a conversation that does nothing is taken out of memory.',
  }),
  SLIPWAY_TOOL_ENVIRONMENT: list.meta({
    description:
      'Names of environment variables that tools get besides the usual ones, separated by commas. Settings of the server are refused.',
  }),
  SLIPWAY_CONFINE_FILES: z.stringbool().default(true).meta({
    description: 'Keep the files that callers and tools name inside the workspace.',
  }),
})

/** What tools get of the environment without being asked for; `LC_*` besides. */
const usualVariables = new Set(['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'TZ', 'TERM', 'TMPDIR'])
const secretVariable = /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL/i
const ownVariable = /^SLIPWAY_/i

export interface Config {
  readonly keys: readonly Secret[]
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
  readonly confineFiles: boolean
  /** Values of the environment that are secrets by their names; a tool could find them, so they are hidden in all it says. */
  readonly secretValues: readonly Secret[]
}

/** Reads the environment; throws an Error that names the variable at fault and never shows its value. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const set = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  )
  const result = environment.safeParse(set)
  if (!result.success) {
    const issue = result.error.issues[0]
    throw new Error(`${issue?.path.join('.')}: ${issue?.message}`)
  }
  const values = result.data
  const deadline = values.SLIPWAY_CONFIRMATION_DEADLINE_SECONDS
  const secretKey = values.SLIPWAY_SECRET_KEY
  return {
    keys: (values.SLIPWAY_SESSION_API_KEY ?? '')
      .split(',')
      .map((key) => key.trim())
      .filter((key) => key !== '')
      .map((key) => new Secret(key)),
    allowedHosts: values.SLIPWAY_ALLOWED_HOSTS,
    allowedOrigins: values.SLIPWAY_ALLOWED_ORIGINS,
    logLevel: values.SLIPWAY_LOG_LEVEL,
    maxSocketsPerConversation: values.SLIPWAY_MAX_SOCKETS_PER_CONVERSATION,
    stallMs: values.SLIPWAY_STALL_SECONDS * 1000,
    heartbeatMs: values.SLIPWAY_HEARTBEAT_SECONDS * 1000,
    secretKey: secretKey === undefined ? undefined : new Secret(secretKey),
    confirmationDeadlineMs: deadline === 0 ? undefined : deadline * 1000,
    maxConcurrentRuns: values.SLIPWAY_MAX_CONCURRENT_RUNS,
    conversationIdleMs: values.SLIPWAY_CONVERSATION_IDLE_SECONDS * 1000,
    toolEnvironment: toolEnvironment(env, values.SLIPWAY_TOOL_ENVIRONMENT),
    confineFiles: values.SLIPWAY_CONFINE_FILES,
    secretValues: secretValues(env),
  }
}

/** Of short values, and of switches in variables such as `USE_TOKEN`, every text would be full. */
const minSecretLength = 8

function secretValues(env: Readonly<Record<string, string | undefined>>): Secret[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && value.length >= minSecretLength && secretVariable.test(name)
      ? [new Secret(value)]
      : [],
  )
}

function toolEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): Record<string, string> {
  const own = names.find((name) => ownVariable.test(name))
  if (own !== undefined) throw new Error(`SLIPWAY_TOOL_ENVIRONMENT: ${own} is a setting of the server`)
  const isUsual = (name: string) =>
    (usualVariables.has(name) || name.startsWith('LC_')) && !secretVariable.test(name)
  const chosen = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (isUsual(name) || names.includes(name)) ? [[name, value] as const] : [],
  )
  return Object.fromEntries(chosen)
}
