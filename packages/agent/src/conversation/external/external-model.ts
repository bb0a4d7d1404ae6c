import { type AcpAgent, acpUsageId, isAcpAgent, llm, Problem } from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'
import { stateUpdate } from '../events/event-drafts.ts'
import type { ConversationContext } from '../runtime/conversation-context.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'

/** An external agent with this model, or that of its members, which its usage is named after. */
export function withAcpModel(agent: AcpAgent, model: string | undefined = agent.acp_model): AcpAgent {
  const placeholder = llm.parse({ model: model ?? acpUsageId, usage_id: acpUsageId })
  return { ...agent, acp_model: model, llm: placeholder }
}

/** A Problem `bad_request` for a conversation of an external agent, which asks models by itself. */
export function assertOwnAgent({ agent }: ResolvedSettings, request: string): void {
  if (!isAcpAgent(agent)) return
  throw new Problem('bad_request', `${request} is not supported for ACP conversations.`)
}

/**
 * The external agent goes on with another model, at once in an open session, otherwise from the next one on.
 * Problems: `bad_request` for another kind of agent and for a model that it does not offer, `timeout`.
 */
export async function switchAcpModel({ settings }: ConversationContext, model: string): Promise<void> {
  const { agent } = settings.current
  if (!isAcpAgent(agent))
    throw new Problem('bad_request', 'switch_acp_model is only supported for ACP conversations.')
  if (model.trim() === '') throw new Problem('bad_request', 'model must be a non-empty string')
  const switched = withAcpModel(agent, model)
  await settings.change(
    (now) => ({ ...now, agent: switched, agent_state: { ...now.agent_state, acp_current_model_id: model } }),
    () => [stateUpdate('agent', redact(switched, redactedText))],
  )
}
