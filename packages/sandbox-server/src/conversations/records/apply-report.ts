import { executionStatus, parseInstant, patchConversationRequest } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { AppConversationRow } from '@slipway/storage/control-plane'
import { type ConversationMetadata, parseMetadata } from './conversation-info.ts'
import { maxMetrics, parseMetrics } from './usage-metrics.ts'

const maxTags = 100

type Changes = Partial<Pick<AppConversationRow, 'title' | 'status'>> & Pick<AppConversationRow, 'members'>

/**
 * The changes of a row from a report, which is not trusted: members of wrong types are ignored. Reports may
 * arrive in any order: of one that its `updated_at` shows to be older than the last one, only the usage
 * counts, which never falls. A time after `now` (microseconds) is taken for `now`, so that a clock that was
 * ahead does not hide what follows.
 */
export function applyReport(
  row: AppConversationRow,
  info: Readonly<Record<string, unknown>>,
  now: number,
): Changes {
  const current = parseMetadata(row)
  const metrics = maxMetrics(current.metrics, parseMetrics(info.metrics))
  const updatedAt = typeof info.updated_at === 'string' ? parseInstant(info.updated_at) : undefined
  const reportedAt = Math.min(updatedAt ?? now, now)
  if (reportedAt < (current.reportedAt ?? 0)) return { members: JSON.stringify({ ...current, metrics }) }
  const { title } = patchConversationRequest.safeParse({ title: info.title }).data ?? {}
  const { tags = {} } = patchConversationRequest.safeParse({ tags: info.tags }).data ?? {}
  const merged = { ...current.tags, ...tags }
  const agent = isRecord(info.agent) ? info.agent : {}
  const model = isRecord(agent.llm) ? agent.llm.model : undefined
  const members: ConversationMetadata = {
    ...current,
    reportedAt,
    metrics,
    ...(Object.keys(merged).length <= maxTags ? { tags: merged } : {}),
    ...(typeof model === 'string' ? { llm_model: firstChars(model, 200) } : {}),
    ...(agent.kind === 'ACPAgent' ? { agent_kind: 'acp' } : {}),
  }
  return {
    title: current.isTitleChosen === true ? row.title : (title ?? row.title),
    status: executionStatus.safeParse(info.execution_status).data ?? row.status,
    members: JSON.stringify(members),
  }
}
