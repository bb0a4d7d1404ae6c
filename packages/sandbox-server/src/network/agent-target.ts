import type { Client } from '@slipway/client'
import type { Secret } from '@slipway/shared/redaction'

/** How the agent server of a sandbox is called. */
export interface AgentTarget {
  readonly client: Pick<Client, 'call'>
  readonly url: string
  readonly key: Secret
}
