import type { Client, SandboxServerClient } from '@slipway/client'

/** What every command is given. */
export interface CommandContext<C = Client> {
  readonly client: C
  /** Print JSON, one value a line, and nothing else on standard output. */
  readonly isJson: boolean
  /** Aborts at Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal
}

/** Of a command that talks to a sandbox server. */
export type SandboxServerContext = CommandContext<SandboxServerClient>
