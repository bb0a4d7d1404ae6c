import { executionStatus, patchConversationRequest } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { AppConversationRow } from '@slipway/storage/control-plane'
import { type ConversationMetadata, parseMetadata } from '../conversations/records/conversation-info.ts'
import { maxMetrics, parseMetrics } from '../conversations/records/usage-metrics.ts'

const maxTags = 100

/** The changes of a row from a report, which is not trusted: members of wrong types are ignored. */
export function applyConversationInfo(
  row: AppConversationRow,
  info: Readonly<Record<string, unknown>>,
): Pick<AppConversationRow, 'title' | 'status' | 'members'> {
  const current = parseMetadata(row)
  const { title } = patchConversationRequest.safeParse({ title: info.title }).data ?? {}
  const { tags = {} } = patchConversationRequest.safeParse({ tags: info.tags }).data ?? {}
  const merged = { ...current.tags, ...tags }
  const agent = isRecord(info.agent) ? info.agent : {}
  const model = isRecord(agent.llm) ? agent.llm.model : undefined
  // A report from before a switch that comes after it.
  const isLate = current.switched_from !== undefined && model === current.switched_from
  const members: ConversationMetadata = {
    ...current,
    metrics: maxMetrics(current.metrics, parseMetrics(info.metrics)),
    ...(Object.keys(merged).length <= maxTags ? { tags: merged } : {}),
    ...(typeof model === 'string' && !isLate
      ? { llm_model: model.slice(0, 200), switched_from: undefined }
      : {}),
    ...(agent.kind === 'ACPAgent' ? { agent_kind: 'acp' } : {}),
  }
  return {
    title: current.isTitleChosen === true ? row.title : (title ?? row.title),
    status: executionStatus.safeParse(info.execution_status).data ?? row.status,
    members: JSON.stringify(members),
  }
}
