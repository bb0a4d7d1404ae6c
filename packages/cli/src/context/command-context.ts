import type { Client } from '@slipway/client'

/** What every command is given. */
export interface CommandContext {
  readonly client: Client
  /** Print JSON, one value a line, and nothing else on standard output. */
  readonly isJson: boolean
  /** Aborts at Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal
}
