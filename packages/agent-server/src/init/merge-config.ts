import { type InitRequest, Secret } from '@slipway/protocol'
import { type Config, secretValues } from '../config/config.ts'
import { secretsOf } from '../config/webhooks.ts'

/** The settings with what was given later: lists and variables are added, the rest goes before what was there. */
export function withInit(config: Config, request: InitRequest): Config {
  const keys = request.session_api_keys?.map((key) => new Secret(key)) ?? config.keys
  const secretKey = request.secret_key === undefined ? config.secretKey : new Secret(request.secret_key)
  const env = request.env ?? {}
  const page = request.web_url === undefined ? [] : [new URL(request.web_url).origin]
  return {
    ...config,
    keys,
    secretKey,
    allowedOrigins: [...config.allowedOrigins, ...(request.allow_cors_origins ?? []), ...page],
    maxConcurrentRuns: request.max_concurrent_runs ?? config.maxConcurrentRuns,
    toolEnvironment: { ...config.toolEnvironment, ...env },
    webhooks: [...config.webhooks, ...(request.webhooks ?? [])],
    secrets: [
      ...config.secrets,
      ...keys,
      ...(secretKey === undefined ? [] : [secretKey]),
      ...secretValues(env),
      ...(request.webhooks ?? []).flatMap(secretsOf),
    ],
  }
}
