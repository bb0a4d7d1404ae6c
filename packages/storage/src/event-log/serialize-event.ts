import { formatInstant, type Instant } from '@slipway/protocol'
import type { EventDraft } from './event-log.ts'

/**
 * The stored text of an event that we create: id, timestamp, source, the draft's members in their order, kind last.
 * Members that are null or undefined are left out at every level that the specification models, except where the
 * specification requires the member (CriticResult.message, TerminalObservation.command) and inside free-form JSON.
 */
export function serializeEvent(draft: EventDraft, id: string, instant: Instant): Buffer {
  const { id: _, timestamp: __, source, kind, ...members } = draft
  const head = { id, timestamp: formatInstant(instant), source }
  const text = JSON.stringify({ ...head, ...members, kind })
  // Most events have no null: then there is nothing to leave out but what JSON leaves out anyway.
  if (!text.includes('null')) return Buffer.from(text)
  const nonNullMembers = Object.entries(members).flatMap(([name, value]) =>
    serializeMember(name, value, { kind, isCritic: false }),
  )
  return Buffer.from(JSON.stringify({ ...head, ...Object.fromEntries(nonNullMembers), kind }))
}

interface ParentObject {
  readonly kind: unknown
  /** It is a CriticResult, which has no kind. */
  readonly isCritic: boolean
}

/** The member as it is written: none when it is left out. */
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
  if (name === 'hook_input') return kind === 'HookExecutionEvent'
  return name === 'storage_state'
}
