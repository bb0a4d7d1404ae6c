import type { AcpState, Agent, StartConversationRequest } from '@slipway/protocol'

/** How the requests of a door run the conversation. */
export interface DoorSettings {
  /** A call of a client tool ends the run: its result comes with a later message. */
  readonly waits_for_client?: boolean | undefined
  /** The run ends with a call of one of these client tools and with nothing else. */
  readonly required_tools?: readonly string[] | undefined
  /** A reply that reaches the output limit of the model is not continued, and ends the run. */
  readonly cuts_replies?: boolean | undefined
  /** Members of the model that the request replaces, as they were before; null: absent. */
  readonly replaced?: Readonly<Record<string, unknown>> | undefined
  /** What the conversation has apart from requests. */
  readonly own?: Partial<Pick<StartConversationRequest, 'client_tools' | 'response_schema'>> | undefined
  /** The profile of the model, where a request has changed it. */
  readonly profile?: string | undefined
  /** The prompt of the log is that of earlier settings. */
  readonly is_untold?: boolean | undefined
}

/** What a conversation was started with, its agent resolved, secrets in clear. */
export type ResolvedSettings = Omit<
  StartConversationRequest,
  'agent' | 'agent_settings' | 'agent_profile_id' | 'repository_consent' | 'title'
> & {
  readonly agent: Agent
  /** The session of an external agent. */
  readonly agent_state?: AcpState | undefined
  readonly door?: DoorSettings | undefined
}
