import { goalState } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { Secrets } from '../../secrets/secrets.ts'

/** Members of an event that identify something. Redacting them would change the event's meaning. */
const identifierMembers = [
  /^(id|kind|source|key|tool_name|tool_call_id|action_id|llm_response_id|forgotten_event_ids)$/,
  /^(security_risk|rejection_source|parent_id|message_id|classification|hook_event_type)$/,
]
/** The same for nested records, and members that a provider accepts only unchanged. */
const nestedIdentifierMembers =
  /^(id|kind|type|role|name|origin|tool_call_id|responses_item_id|signature|encrypted_content)$/
/** Members with JSON of others, in which a name means nothing. */
const freeFormMembers: ReadonlySet<string> = new Set([
  ...['data', 'metadata', 'storage_state', 'hook_input', 'raw_input', 'raw_output'],
])
/** State updates whose value has no text of a user. */
const plainStateKeys =
  /^(execution_status|last_user_message_id|confirmation_policy|security_analyzer|leaf_event_id)$/

/** Removes secrets from the texts of an event; identifiers stay, even if a secret is a word like `user`. */
export function redactEvent(draft: EventDraft, secrets: Secrets): EventDraft {
  if (!secrets.hasValues) return draft
  const entries = Object.entries(draft).map(([name, value]) => [
    name,
    redactMember(name, value, { draft, secrets }),
  ])
  return Object.fromEntries(entries) as EventDraft // the members are the same
}

interface RedactionContext {
  readonly draft: EventDraft
  readonly secrets: Secrets
}

function redactMember(name: string, value: unknown, { draft, secrets }: RedactionContext): unknown {
  if (identifierMembers.some((names) => names.test(name))) return value
  if (name === 'tools' && Array.isArray(value))
    return value.map((tool) => redactToolDefinition(tool, secrets))
  if (name !== 'value') return redactValue(value, name, secrets)
  if (plainStateKeys.test(String(draft.key))) return value
  if (draft.key === 'goal') return redactGoal(value, secrets)
  if (draft.key !== 'blocked_messages') return secrets.redactJson(value)
  const reasons = Object.entries(value ?? {})
  return Object.fromEntries(reasons.map(([id, reason]) => [id, secrets.redactJson(reason)]))
}

function redactGoal(value: unknown, secrets: Secrets): unknown {
  const { data } = goalState.safeParse(value)
  if (data === undefined) return secrets.redactJson(value)
  const { objective, verdict } = data
  return {
    ...data,
    objective: secrets.redact(objective),
    verdict: verdict && { ...verdict, missing: secrets.redact(verdict.missing) },
  }
}

function redactToolDefinition(tool: object, secrets: Secrets): unknown {
  const { kind, action_type, observation_type, ...rest }: Readonly<Record<string, unknown>> = { ...tool }
  return { ...secrets.redactJson(rest), action_type, observation_type, kind }
}

function redactValue(value: unknown, name: string, secrets: Secrets): unknown {
  if (typeof value === 'string') return secrets.redact(value)
  if (Array.isArray(value)) return value.map((item) => redactValue(item, name, secrets))
  if (typeof value !== 'object' || value === null) return value
  if (freeFormMembers.has(name)) return secrets.redactJson(value)
  const isSealed = Reflect.get(value, 'type') === 'redacted_thinking'
  const entries = Object.entries(value).map(([inner, item]) => {
    const isName =
      typeof item === 'string' && (nestedIdentifierMembers.test(inner) || (isSealed && inner === 'data'))
    return [inner, isName ? item : redactValue(item, inner, secrets)]
  })
  return Object.fromEntries(entries)
}
