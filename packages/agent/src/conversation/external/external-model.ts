import { type AcpAgent, acpUsageId, isAcpAgent, llm, Problem } from '@slipway/protocol'
import type { ResolvedSettings } from '../state/resolved-settings.ts'

/** An external agent with this model, or that of its members, which its usage is named after. */
export function withAcpModel(agent: AcpAgent, model: string | undefined = agent.acp_model): AcpAgent {
  const { stream } = agent.llm
  const placeholder = llm.parse({ model: model ?? acpUsageId, usage_id: acpUsageId, stream })
  return { ...agent, acp_model: model, llm: placeholder }
}

/** A Problem `bad_request` for a conversation of an external agent, which asks models on its own. */
export function assertOwnAgent({ agent }: ResolvedSettings, request: string): void {
  if (!isAcpAgent(agent)) return
  throw new Problem('bad_request', `${request} is not supported for ACP conversations.`)
}
