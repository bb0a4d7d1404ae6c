import { goalState } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { Secrets } from '../../secrets/secrets.ts'

/** Members of an event that name things: to put something else there would be another event, or none. */
const ownNames: ReadonlySet<string> = new Set([
  'id',
  'kind',
  'source',
  'key',
  'tool_name',
  'tool_call_id',
  'action_id',
  'llm_response_id',
  'forgotten_event_ids',
  'security_risk',
  'rejection_source',
  'parent_id',
  'message_id',
  'classification',
  'hook_event_type',
])
/** Members of records in an event that do so, and those that a provider takes back only as they came. */
const innerNames: ReadonlySet<string> = new Set([
  'id',
  'kind',
  'type',
  'role',
  'name',
  'origin',
  'tool_call_id',
  'responses_item_id',
  'signature',
  'encrypted_content',
])
/** Members with JSON of others in them: there a name says nothing. */
const freeForm: ReadonlySet<string> = new Set(['data', 'metadata', 'storage_state', 'hook_input'])
/** State updates whose value holds no text of anybody's. */
const plainKeys: unknown[] = [
  'execution_status',
  'last_user_message_id',
  'confirmation_policy',
  'security_analyzer',
  'leaf_event_id',
]

/**
 * An event in which no text holds a secret. What events are told apart and found by (kinds, ids, names of tools, a status)
 * stays as it is, also when a secret is a word as common as `user`, or the four digits of an id.
 */
export function maskEvent(draft: EventDraft, secrets: Secrets): EventDraft {
  if (!secrets.hasValues) return draft
  const entries = Object.entries(draft).map(([name, value]) => [
    name,
    masked(name, value, { draft, secrets }),
  ])
  return Object.fromEntries(entries) as EventDraft // the members are the same
}

interface Mask {
  readonly draft: EventDraft
  readonly secrets: Secrets
}

function masked(name: string, value: unknown, { draft, secrets }: Mask): unknown {
  if (ownNames.has(name)) return value
  if (name === 'tools' && Array.isArray(value)) return value.map((tool) => definition(tool, secrets))
  if (name !== 'value') return copy(value, name, secrets)
  if (plainKeys.includes(draft.key)) return value
  if (draft.key === 'goal') return goal(value, secrets)
  if (draft.key !== 'blocked_messages') return secrets.maskJson(value)
  const reasons = Object.entries(value ?? {})
  return Object.fromEntries(reasons.map(([id, reason]) => [id, secrets.maskJson(reason)]))
}

function goal(value: unknown, secrets: Secrets): unknown {
  const { data } = goalState.safeParse(value)
  if (data === undefined) return secrets.maskJson(value)
  const { objective, verdict } = data
  return {
    ...data,
    objective: secrets.mask(objective),
    verdict: verdict && { ...verdict, missing: secrets.mask(verdict.missing) },
  }
}

function definition(tool: object, secrets: Secrets): unknown {
  const { kind, action_type, observation_type, ...rest }: Readonly<Record<string, unknown>> = { ...tool }
  return { ...secrets.maskJson(rest), action_type, observation_type, kind }
}

function copy(value: unknown, name: string, secrets: Secrets): unknown {
  if (typeof value === 'string') return secrets.mask(value)
  if (Array.isArray(value)) return value.map((item) => copy(item, name, secrets))
  if (typeof value !== 'object' || value === null) return value
  if (freeForm.has(name)) return secrets.maskJson(value)
  const isSealed = Reflect.get(value, 'type') === 'redacted_thinking'
  const entries = Object.entries(value).map(([inner, item]) => {
    const isName = typeof item === 'string' && (innerNames.has(inner) || (isSealed && inner === 'data'))
    return [inner, isName ? item : copy(item, inner, secrets)]
  })
  return Object.fromEntries(entries)
}
