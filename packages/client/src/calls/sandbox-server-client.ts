import type { sandboxServerRoutes } from '@slipway/protocol'
import { sandboxServerPaths } from '@slipway/protocol/client'
import type { Secret } from '@slipway/shared/redaction'
import { RouteCaller } from './route-caller.ts'

export interface SandboxServerClientOptions {
  /** Base address, `http://127.0.0.1:3000`, with an optional path prefix. */
  readonly url: string
  /** Sent as `Authorization: Bearer`. */
  readonly apiKey?: Secret | string | undefined
  readonly fetch?: typeof globalThis.fetch
}

/** Typed calls of a sandbox server. */
export class SandboxServerClient extends RouteCaller<typeof sandboxServerRoutes> {
  constructor({ apiKey, ...options }: SandboxServerClientOptions) {
    const key = { key: apiKey, keyHeader: 'authorization', keyScheme: 'Bearer ' }
    super(sandboxServerPaths, { ...options, ...key, startedBy: 'slipway sandbox-server' })
  }
}
