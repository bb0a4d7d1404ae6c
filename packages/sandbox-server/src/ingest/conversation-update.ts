import { executionStatus, patchConversationRequest } from '@slipway/protocol'
import type { AppConversationRow } from '@slipway/storage'
import { type ConversationMetadata, parseMetadata } from '../conversations/records/conversation-info.ts'
import { maxMetrics, parseMetrics } from '../conversations/records/usage-metrics.ts'

const maxTags = 100

/**
 * What changes in a row by what its agent server says of the conversation: title (unless a person chose one), tags, status,
 * model, and what was used. Nothing in it is trusted to be of the right kind.
 */
export function applyConversationInfo(
  row: AppConversationRow,
  info: Readonly<Record<string, unknown>>,
): Pick<AppConversationRow, 'title' | 'status' | 'members'> {
  const current = parseMetadata(row)
  const { title } = patchConversationRequest.safeParse({ title: info.title }).data ?? {}
  const { tags = {} } = patchConversationRequest.safeParse({ tags: info.tags }).data ?? {}
  const merged = { ...current.tags, ...tags }
  const agent = toRecord(info.agent)
  const model = toRecord(agent.llm).model
  const members: ConversationMetadata = {
    ...current,
    metrics: maxMetrics(current.metrics, parseMetrics(info.metrics)),
    ...(Object.keys(merged).length <= maxTags ? { tags: merged } : {}),
    ...(typeof model === 'string' ? { llm_model: model.slice(0, 200) } : {}),
    ...(agent.kind === 'ACPAgent' ? { agent_kind: 'acp' } : {}),
  }
  return {
    title: current.isTitleChosen === true ? row.title : (title ?? row.title),
    status: executionStatus.safeParse(info.execution_status).data ?? row.status,
    members: JSON.stringify(members),
  }
}

function toRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
}
