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
})

export interface Config {
  readonly keys: readonly Secret[]
  readonly allowedHosts: readonly string[]
  readonly allowedOrigins: readonly string[]
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  readonly maxSocketsPerConversation: number
  readonly stallMs: number
  readonly heartbeatMs: number
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
  }
}
