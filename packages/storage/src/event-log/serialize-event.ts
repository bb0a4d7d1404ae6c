import { formatInstant, type Instant } from '@slipway/protocol/instant'
import type { EventDraft } from './event-log.ts'

/**
 * The stored text of a draft: id, timestamp, source, the draft's members in their order, kind last. Omits
 * members that are null or undefined at every level that the specification models, except where it requires
 * them (CriticResult.message, TerminalObservation.command) and inside free-form JSON.
 */
export function serializeEvent(draft: EventDraft, id: string, instant: Instant): Buffer {
  const { id: _, timestamp: __, source, kind, ...members } = draft
  const head = { id, timestamp: formatInstant(instant), source }
  const text = JSON.stringify({ ...head, ...members, kind })
  // Most events have no null, and JSON omits undefined members itself.
  if (!text.includes('null')) return Buffer.from(text)
  const nonNullMembers = Object.entries(members).flatMap(([name, value]) =>
    serializeMember(name, value, { kind, isCritic: false }),
  )
  return Buffer.from(JSON.stringify({ ...head, ...Object.fromEntries(nonNullMembers), kind }))
}

interface ParentObject {
  readonly kind: unknown
  /** A CriticResult, which has no kind. */
  readonly isCritic: boolean
}

/** The entry of a member; none when it is omitted. */
function serializeMember(name: string, value: unknown, parent: ParentObject): [string, unknown][] {
  if (value === undefined) return []
  if (value === null) return isNullRequired(name, parent) ? [[name, null]] : []
  return [[name, isFreeForm(name, parent) ? value : withoutNulls(value, name)]]
}

function withoutNulls(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, name))
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value
  const parent: ParentObject = { kind: Reflect.get(value, 'kind'), isCritic: name === 'critic_result' }
  return Object.fromEntries(
    Object.entries(value).flatMap(([inner, item]) => serializeMember(inner, item, parent)),
  )
}

function isNullRequired(name: string, parent: ParentObject): boolean {
  return parent.isCritic ? name === 'message' : name === 'command' && parent.kind === 'TerminalObservation'
}

function isFreeForm(name: string, { kind, isCritic }: ParentObject): boolean {
  if (isCritic) return name === 'metadata'
  if (name === 'value') return kind === 'ConversationStateUpdateEvent'
  if (name === 'data') return kind === 'MCPToolAction'
  if (kind === 'ACPToolCallEvent') return /^(raw_input|raw_output|content)$/.test(name)
  if (name === 'hook_input') return kind === 'HookExecutionEvent'
  return name === 'storage_state'
}
