import {
  type AppConversation,
  type ExecutionStatus,
  formatInstant,
  type SandboxStatus,
  sandboxStatus,
} from '@slipway/protocol'
import type { AppConversationRow, SandboxRow } from '@slipway/storage'
import type { Reached } from '../../sandboxes/sandboxes.ts'
import { hexOf } from './conversation-ids.ts'
import type { Metrics } from './usage-metrics.ts'

/** What is kept of a conversation besides what is searched for: `AppConversationRow.members`. */
export interface Members {
  readonly selected_repository?: string | null | undefined
  readonly selected_branch?: string | null | undefined
  readonly git_provider?: AppConversation['git_provider'] | undefined
  readonly trigger?: AppConversation['trigger'] | undefined
  readonly pr_number?: readonly number[] | undefined
  readonly llm_model?: string | null | undefined
  readonly agent_kind?: string | undefined
  readonly metrics?: Metrics | null | undefined
  readonly public?: boolean | null | undefined
  readonly tags?: Readonly<Record<string, string>> | undefined
  /** A person chose the title, so that no agent changes it. */
  readonly isTitleChosen?: boolean | undefined
  /** Where its agent works, as seen from inside of its sandbox. */
  readonly projectDir?: string | undefined
  /**
   * Positions of its agent server begin above this one of the log here: what came home before is from a sandbox that
   * is gone.
   */
  readonly offset?: number | undefined
}

export function membersOf(row: AppConversationRow): Members {
  return JSON.parse(row.members)
}

/** What stands in the place of a title until there is one. */
export function defaultTitle(id: string): string {
  return `Conversation ${hexOf(id).slice(0, 5)}`
}

/** A sandbox whose row is there for a while yet, because what is left of it is being removed, is gone for everybody. */
export function statusOf(sandbox: SandboxRow | undefined): SandboxStatus {
  if (sandbox === undefined || sandbox.wanted === 'gone') return 'MISSING'
  return sandboxStatus.safeParse(sandbox.status).data ?? 'MISSING'
}

/** A conversation as its owner sees it (wire 2.2). `executionStatus` is what its agent server says now. */
export function conversationInfo(
  row: AppConversationRow,
  seen: {
    readonly sandbox: SandboxRow | undefined
    readonly reached: Reached | undefined
    readonly executionStatus: ExecutionStatus | null
    readonly childIds: readonly string[]
  },
): AppConversation {
  const members = membersOf(row)
  const tags = { ...members.tags }
  const { reached } = seen
  return {
    id: hexOf(row.id),
    created_by_user_id: row.owner,
    sandbox_id: row.sandbox,
    selected_repository: members.selected_repository ?? null,
    selected_branch: members.selected_branch ?? null,
    git_provider: members.git_provider ?? null,
    title: row.title,
    trigger: members.trigger ?? null,
    pr_number: [...(members.pr_number ?? [])],
    llm_model: members.llm_model ?? null,
    agent_kind: members.agent_kind ?? 'openhands',
    metrics: members.metrics === null || members.metrics === undefined ? null : { ...members.metrics },
    parent_conversation_id: row.parent === null ? null : hexOf(row.parent),
    sub_conversation_ids: seen.childIds.map(hexOf),
    public: members.public ?? null,
    tags,
    created_at: formatInstant(row.created_at),
    updated_at: formatInstant(row.updated_at),
    sandbox_status: statusOf(seen.sandbox),
    execution_status: seen.executionStatus,
    conversation_url:
      reached === undefined ? null : `${reached.publicUrl}/api/conversations/${hexOf(row.id)}`,
    session_api_key: reached?.key.open() ?? null,
    acp_server: members.agent_kind === 'acp' ? (tags.acpserver ?? null) : null,
    launched_agent_profile: launchedProfile(tags),
  }
}

function launchedProfile(tags: Readonly<Record<string, string>>): Record<string, unknown> | null {
  const { agentprofileid: agent_profile_id, agentprofilerevision: revision } = tags
  if (agent_profile_id === undefined || revision === undefined || !/^\d{1,9}$/.test(revision)) return null
  return { agent_profile_id, revision: Number(revision) }
}
