import { executionStatus, patchConversationRequest } from '@slipway/protocol'
import type { AppConversationRow } from '@slipway/storage'
import { type Members, membersOf } from '../conversations/records/conversation-info.ts'
import { atLeastAsMuch, metricsOf } from '../conversations/records/usage-metrics.ts'

const maxTags = 100

/**
 * What changes in a row by what its agent server says of the conversation: title (unless a person chose one), tags, status,
 * model, and what was used. Nothing in it is trusted to be of the right kind.
 */
export function told(
  row: AppConversationRow,
  info: Readonly<Record<string, unknown>>,
): Pick<AppConversationRow, 'title' | 'status' | 'members'> {
  const before = membersOf(row)
  const { title } = patchConversationRequest.safeParse({ title: info.title }).data ?? {}
  const { tags = {} } = patchConversationRequest.safeParse({ tags: info.tags }).data ?? {}
  const merged = { ...before.tags, ...tags }
  const agent = mapOf(info.agent)
  const model = mapOf(agent.llm).model
  const members: Members = {
    ...before,
    metrics: atLeastAsMuch(before.metrics, metricsOf(info.metrics)),
    ...(Object.keys(merged).length <= maxTags ? { tags: merged } : {}),
    ...(typeof model === 'string' ? { llm_model: model.slice(0, 200) } : {}),
    ...(agent.kind === 'ACPAgent' ? { agent_kind: 'acp' } : {}),
  }
  return {
    title: before.isTitleChosen === true ? row.title : (title ?? row.title),
    status: executionStatus.safeParse(info.execution_status).data ?? row.status,
    members: JSON.stringify(members),
  }
}

function mapOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
}
