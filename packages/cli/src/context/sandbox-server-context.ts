import type { SandboxServerClient } from '@slipway/client'

/** What every command that talks to a sandbox server is given. */
export interface SandboxServerContext {
  readonly client: SandboxServerClient
  /** Print JSON, one value a line, and nothing else on standard output. */
  readonly isJson: boolean
  /** Aborts at Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal
}
