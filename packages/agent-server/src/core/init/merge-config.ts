import { parseBasePath } from '@slipway/http'
import { type InitRequest, invalidInput } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { type Config, findSecretValues } from '../config/config.ts'
import { findWebhookSecrets } from '../config/webhooks.ts'

/** The config with init settings: lists and variables are added, other members replaced. */
export function mergeInitRequest(config: Config, request: InitRequest): Config {
  const sessionKeys = request.session_api_keys?.map((key) => new Secret(key)) ?? config.sessionKeys
  const secretKey = request.secret_key === undefined ? config.secretKey : new Secret(request.secret_key)
  const env = request.env ?? {}
  const webOrigins = request.web_url === undefined ? [] : [new URL(request.web_url).origin]
  const basePath = request.web_url === undefined ? config.basePath : readBasePath(request.web_url)
  return {
    ...config,
    sessionKeys,
    secretKey,
    allowedOrigins: [...config.allowedOrigins, ...(request.allow_cors_origins ?? []), ...webOrigins],
    basePath,
    webUrl: request.web_url ?? config.webUrl,
    dataDirectory: request.conversations_path,
    bashDirectory: request.bash_events_dir,
    worktreeRoot: request.conversation_worktree_root ?? config.worktreeRoot,
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

function readBasePath(url: string): string {
  try {
    return parseBasePath(new URL(url).pathname)
  } catch {
    throw invalidInput(['body', 'web_url'], 'The path of the address is not one like /slipway')
  }
}
