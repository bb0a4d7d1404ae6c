import type { MetaProfile } from '@slipway/protocol'

/** What the routing tool needs of its conversation. A refusal is a ToolError. */
export interface ModelRouter {
  /** The saved meta-profile of a name. */
  findMetaProfile(name: string): Promise<MetaProfile | undefined>
  /** The newest messages of the user and the agent as text. */
  recentMessages(): string
  /** Asks the model of an LLM profile, whose use is counted. */
  ask(
    profile: string,
    request: { readonly system: string; readonly prompt: string },
    signal: AbortSignal,
  ): Promise<string>
  /** Continues the conversation with the model of an LLM profile, whose name is returned. */
  switchTo(profile: string): Promise<string>
  /** The model at the moment. */
  readonly activeModel: string
}
