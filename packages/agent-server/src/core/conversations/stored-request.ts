import type { ResolvedSettings } from '@slipway/agent'
import { acpState, type LaunchedProfile, startConversationRequest, type WireVersion } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { ConversationRecord } from '@slipway/storage'

/** Where a conversation and its agent come from. */
export interface ConversationOrigin {
  readonly forked_from_conversation_id?: string | undefined
  readonly forked_from_event_id?: string | undefined
  /** The task that it runs for another conversation, and its depth of nesting. */
  readonly task?: { readonly id: string; readonly subagent: string; readonly depth: number } | undefined
  /** Wire version of its events; `seed` unless passed. */
  readonly wire?: WireVersion | undefined
  /** The profile of the agent, at its revision then. */
  readonly launched_agent_profile?: LaunchedProfile | undefined
}

/**
 * The create request as stored in clear, with names and descriptions of secrets only. Lists parse it for each
 * conversation, so it has only the members that they show.
 */
export type StoredRequest = Partial<
  Omit<ResolvedSettings, 'secrets' | 'initial_message' | 'agent_definitions'>
> &
  ConversationOrigin & {
    readonly secret_sources?: Readonly<Record<string, Record<string, unknown>>>
    readonly has_initial_message?: boolean
  }

/** The request that began a conversation; empty for an imported one and for none. */
export function readStoredRequest(record: Pick<ConversationRecord, 'request'> | undefined): StoredRequest {
  return JSON.parse(record?.request ?? '{}')
}

/** Whether the conversation has plugins besides the server's. */
export function hasPlugins(record: ConversationRecord): boolean {
  const { plugins = [] } = readStoredRequest(record)
  return plugins.length > 0
}

/** The names of the secrets that the profile of the agent allows; undefined when it allows all. */
export function readSecretNames(record: ConversationRecord): readonly string[] | undefined {
  const { launched_agent_profile: profile } = readStoredRequest(record)
  return profile?.secret_refs ?? undefined
}

/** Parses stored settings of any version. */
export function parseSettings(text: string): ResolvedSettings {
  return toSettings(JSON.parse(text))
}

/** Parses settings stored in clear; redacted members are left out. */
export function parseStoredRequest(text: string): ResolvedSettings {
  return toSettings(withoutNulls(JSON.parse(text)))
}

function toSettings(value: unknown): ResolvedSettings {
  const request = withoutEmptyMessage(value)
  const { agent, agent_settings: _, agent_profile_id: __, ...rest } = startConversationRequest.parse(request)
  if (agent === undefined) throw new Error('stored settings have no agent')
  const agent_state = acpState.safeParse(Object(value).agent_state).data
  // Written by this server alone.
  const door = isRecord(value) && isRecord(value.door) ? { door: value.door } : {}
  return { ...rest, agent, ...(agent_state && { agent_state }), ...door }
}

/** Earlier versions accepted a first message without content, which a request must not have. */
function withoutEmptyMessage(value: unknown): unknown {
  if (!isRecord(value) || !isRecord(value.initial_message)) return value
  const { content, extended_content } = value.initial_message
  const isEmpty = [content, extended_content].every((parts) => !Array.isArray(parts) || parts.length === 0)
  return isEmpty ? { ...value, initial_message: undefined } : value
}

/** Without the members that are null, at any depth. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)]))
}

/** The wire version of the events of a conversation. */
export function readWireVersion(record: Pick<ConversationRecord, 'request'>): WireVersion {
  return readStoredRequest(record).wire ?? 'seed'
}
