import { Secret } from '@slipway/shared/redaction'

/** A model and how to reach it; each member may be missing. */
export interface ModelConfig {
  /** `provider/name`. */
  readonly name: string | undefined
  readonly baseUrl: string | undefined
  readonly apiKey: Secret | undefined
}

export interface Config {
  /** Where the server is, unless `--url` says otherwise. */
  readonly url: string
  /** Sent as `X-Session-API-Key`; of a list, as a server takes it, the first. */
  readonly sessionApiKey: Secret | undefined
  /** Data directory of the agent server, unless `--data` says otherwise; its session key is there. */
  readonly dataDirectory: string
  /** Where the sandbox server is, unless `--url` says otherwise. */
  readonly sandboxUrl: string
  /** Sent to the sandbox server as `Authorization: Bearer`; of a list, as a server takes it, the first. */
  readonly apiKey: Secret | undefined
  /** The model that agents are run with, unless the flags say otherwise. */
  readonly model: ModelConfig
  /** Everything, for the server that `serve` starts. */
  readonly env: Record<string, string | undefined>
}

/** Reads the environment. Keys come from there or from files: other users can see a command line. */
export function readConfig(): Config {
  const { env } = process
  return {
    url: env.SLIPWAY_URL || 'http://127.0.0.1:8000',
    sessionApiKey: firstKey(env.SLIPWAY_SESSION_API_KEY),
    dataDirectory: env.SLIPWAY_DATA_DIRECTORY || '.slipway',
    sandboxUrl: env.SLIPWAY_SANDBOX_URL || 'http://127.0.0.1:3000',
    apiKey: firstKey(env.SLIPWAY_API_KEY),
    model: {
      name: env.LLM_MODEL || undefined,
      baseUrl: env.LLM_BASE_URL || undefined,
      apiKey: env.LLM_API_KEY ? new Secret(env.LLM_API_KEY) : undefined,
    },
    env,
  }
}

function firstKey(keys: string | undefined): Secret | undefined {
  const key = keys?.split(',')[0]?.trim()
  return key ? new Secret(key) : undefined
}
