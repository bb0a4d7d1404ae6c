import type { AcpState, Agent, StartConversationRequest } from '@slipway/protocol'

/** What a conversation was started with, its agent resolved, secrets in clear. */
export type ResolvedSettings = Omit<
  StartConversationRequest,
  'agent' | 'agent_settings' | 'agent_profile_id' | 'repository_consent' | 'title'
> & {
  readonly agent: Agent
  /** The session of an external agent. */
  readonly agent_state?: AcpState | undefined
}
