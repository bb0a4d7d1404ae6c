import type { Schema } from '../../core/validation-issues.ts'
import { type Llm, llm } from '../llm/llm.ts'
import {
  type AgentSettings,
  acpAgentSettings,
  agentSettings,
  type ConversationSettings,
  conversationSettings,
} from './settings.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** Whether settings describe an agent that is another program. */
export function isAcpSettings({ agent_kind }: JsonObject): boolean {
  return agent_kind === 'acp'
}

/** The schema of settings of their kind. */
export function agentSettingsSchemaOf(stored: JsonObject): Schema<object> {
  return isAcpSettings(stored) ? acpAgentSettings : agentSettings
}

/** The agent settings as answered, secrets in clear: every member is present, null without a value. */
export function toAgentSettingsJson(stored: JsonObject): Record<string, unknown> {
  if (isAcpSettings(stored)) return jsonCopy(acpAgentSettings.parse(stored))
  const {
    llm: model,
    agent_context: context,
    verification,
    ...rest
  }: AgentSettings = agentSettings.parse(stored)
  const { critic_api_key = null } = verification
  return jsonCopy({
    ...rest,
    agent_context: { ...nullSuffixes, ...jsonCopy(context) },
    llm: toLlmJson(model),
    verification: { ...verification, critic_api_key },
  })
}

/** A model as answered, secrets in clear: every member is present, null without a value. */
export function toLlmJson(model: Llm): Record<string, unknown> {
  return { ...unsetLlm, ...jsonCopy(model) }
}

const nullSuffixes = { system_message_suffix: null, user_message_suffix: null }
/** Published clients take null for every member but this one. */
const unsetLlm = {
  ...Object.fromEntries(Object.keys(llm.shape).map((name) => [name, null])),
  native_tool_calling: true,
}

/** The conversation settings as answered. */
export function toConversationSettingsJson(stored: JsonObject): Record<string, unknown> {
  const parsed: ConversationSettings = conversationSettings.parse(stored)
  return jsonCopy(parsed)
}

/** A copy without undefined members, at any depth. */
function jsonCopy(value: object): Record<string, unknown> {
  return JSON.parse(JSON.stringify(value))
}
