import { Secret } from '@slipway/protocol'

export interface Config {
  /** Where the server is, unless `--url` says otherwise. */
  readonly url: string
  /** Sent as `X-Session-API-Key`; of a list, as a server takes it, the first. */
  readonly sessionApiKey: Secret | undefined
  /** Everything, for the server that `serve` starts. */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** What the environment says. The key is read from there alone: a command line can be seen by others. */
export function readConfig(): Config {
  const { env } = process
  const key = env.SLIPWAY_SESSION_API_KEY?.split(',')[0]?.trim()
  return {
    url: env.SLIPWAY_URL || 'http://127.0.0.1:8000',
    sessionApiKey: key ? new Secret(key) : undefined,
    env,
  }
}
