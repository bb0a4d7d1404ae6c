import {
  type AppConversation,
  type ExecutionStatus,
  formatInstant,
  type SandboxStatus,
  sandboxStatus,
} from '@slipway/protocol'
import type { AppConversationRow, SandboxRow } from '@slipway/storage/control-plane'
import type { SandboxConnection } from '../../sandboxes/sandboxes.ts'
import { toHexId } from './conversation-ids.ts'
import type { UsageMetrics } from './usage-metrics.ts'

/** The members of a conversation that no query filters by: `AppConversationRow.members`. */
export interface ConversationMetadata {
  readonly selected_repository?: string | null | undefined
  readonly selected_branch?: string | null | undefined
  readonly git_provider?: AppConversation['git_provider'] | undefined
  readonly trigger?: AppConversation['trigger'] | undefined
  readonly pr_number?: readonly number[] | undefined
  readonly llm_model?: string | null | undefined
  /** `updated_at` of the newest report, in microseconds. */
  readonly reportedAt?: number | undefined
  readonly agent_kind?: string | undefined
  readonly metrics?: UsageMetrics | null | undefined
  readonly public?: boolean | null | undefined
  readonly tags?: Readonly<Record<string, string>> | undefined
  /** A user chose the title: agents do not change it. */
  readonly isTitleChosen?: boolean | undefined
  /** Directory of the project, as seen from inside the sandbox. */
  readonly projectDir?: string | undefined
  /** Position here of its agent server's position 0: earlier events are from a former sandbox. */
  readonly offset?: number | undefined
  /** The task of a start that continued its log and has not sent its message yet. */
  readonly unsentMessage?: string | undefined
}

export function parseMetadata(row: AppConversationRow): ConversationMetadata {
  return JSON.parse(row.members)
}

/** The title before there is another one. */
export function defaultTitle(id: string): string {
  return `Conversation ${toHexId(id).slice(0, 5)}`
}

/** MISSING also while a sandbox is being removed or archived. */
export function visibleSandboxStatus(sandbox: SandboxRow | undefined): SandboxStatus {
  if (sandbox === undefined || sandbox.wanted === 'gone' || sandbox.wanted === 'archived') return 'MISSING'
  return sandboxStatus.safeParse(sandbox.status).data ?? 'MISSING'
}

/** A conversation as its owner sees it (wire 2.2). `executionStatus` comes from its agent server. */
export function toAppConversation(
  row: AppConversationRow,
  context: {
    readonly sandbox: SandboxRow | undefined
    readonly connection: SandboxConnection | undefined
    readonly executionStatus: ExecutionStatus | null
    readonly childIds: readonly string[]
  },
): AppConversation {
  const metadata = parseMetadata(row)
  const { connection } = context
  const tags = { ...metadata.tags }
  return {
    id: toHexId(row.id),
    created_by_user_id: row.owner,
    sandbox_id: row.sandbox,
    selected_repository: metadata.selected_repository ?? null,
    selected_branch: metadata.selected_branch ?? null,
    git_provider: metadata.git_provider ?? null,
    title: row.title,
    trigger: metadata.trigger ?? null,
    pr_number: [...(metadata.pr_number ?? [])],
    llm_model: metadata.llm_model ?? null,
    agent_kind: metadata.agent_kind ?? 'openhands',
    metrics: metadata.metrics ? { ...metadata.metrics } : null,
    parent_conversation_id: row.parent === null ? null : toHexId(row.parent),
    sub_conversation_ids: context.childIds.map(toHexId),
    public: metadata.public ?? null,
    tags,
    created_at: formatInstant(row.created_at),
    updated_at: formatInstant(row.updated_at),
    sandbox_status: visibleSandboxStatus(context.sandbox),
    execution_status: context.executionStatus,
    conversation_url:
      connection === undefined ? null : `${connection.publicUrl}/api/conversations/${toHexId(row.id)}`,
    session_api_key: connection?.key.reveal() ?? null,
    acp_server: metadata.agent_kind === 'acp' ? (tags.acpserver ?? null) : null,
    launched_agent_profile: launchedAgentProfile(tags),
  }
}

function launchedAgentProfile(tags: Readonly<Record<string, string>>): Record<string, unknown> | null {
  const { agentprofileid: agent_profile_id, agentprofilerevision: revision } = tags
  if (agent_profile_id === undefined || revision === undefined || !/^\d{1,9}$/.test(revision)) return null
  return { agent_profile_id, revision: Number(revision) }
}
