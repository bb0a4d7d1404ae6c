import type { Client, SandboxServerClient } from '@slipway/client'

/** The context of every command. */
export interface CommandContext<C = Client> {
  readonly client: C
  /** Print JSON, one value a line, and nothing else on standard output. */
  readonly isJson: boolean
  /** Aborts at Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal
}

/** The context of a command of the sandbox server. */
export type SandboxServerContext = CommandContext<SandboxServerClient>
