import type { InitRequest } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { type Config, findSecretValues } from '../config/config.ts'
import { findWebhookSecrets } from '../config/webhooks.ts'

/** The config with init settings: lists and variables are added, other members replaced. */
export function mergeInitRequest(config: Config, request: InitRequest): Config {
  const sessionKeys = request.session_api_keys?.map((key) => new Secret(key)) ?? config.sessionKeys
  const secretKey = request.secret_key === undefined ? config.secretKey : new Secret(request.secret_key)
  const env = request.env ?? {}
  const webOrigins = request.web_url === undefined ? [] : [new URL(request.web_url).origin]
  return {
    ...config,
    sessionKeys,
    secretKey,
    allowedOrigins: [...config.allowedOrigins, ...(request.allow_cors_origins ?? []), ...webOrigins],
    maxConcurrentRuns: request.max_concurrent_runs ?? config.maxConcurrentRuns,
    toolEnvironment: { ...config.toolEnvironment, ...env },
    webhooks: [...config.webhooks, ...(request.webhooks ?? [])],
    secrets: [
      ...config.secrets,
      ...sessionKeys,
      ...(secretKey === undefined ? [] : [secretKey]),
      ...findSecretValues(env),
      ...(request.webhooks ?? []).flatMap(findWebhookSecrets),
    ],
  }
}
