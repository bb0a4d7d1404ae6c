import type { ConfirmationPolicy, SecurityAnalyzer, SendMessageRequest } from '@slipway/protocol'
import type { TransientUpdates } from '../events/transient-updates.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import type { ConversationState } from '../state/state.ts'
import type { UsageStats } from '../state/usage-stats.ts'

/** The conversation of a task, without a dependency on the agent loop. */
export interface ChildConversation {
  readonly id: string
  readonly state: ConversationState
  readonly stats: UsageStats
  readonly transientUpdates: TransientUpdates
  readonly policy: ConfirmationPolicy
  readonly analyzer: SecurityAnalyzer | null
  readonly isPlanning: boolean
  send(message: SendMessageRequest): Promise<void>
  resolveConfirmation(options: { readonly accept: boolean; readonly reason: string }): Promise<void>
  pause(): Promise<void>
  interrupt(): Promise<void>
  waitUntilIdle(): Promise<void>
  setPolicy(policy: ConfirmationPolicy): Promise<void>
  setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void>
  setPlanMode(isPlanning: boolean): Promise<void>
}

/** A task as its parent conversation stores it. */
export interface StoredTask {
  /** `task_00000001`, counted by the parent. */
  readonly id: string
  readonly subagent: string
}

/** The conversations of tasks, for their parent: ordinary ones, listed in its `sub_conversation_ids`. */
export interface ChildConversations {
  /** Durable. Problems: `conflict` when tasks are nested too deep, `not_found` without the parent. */
  create(
    parent: string,
    child: { readonly task: StoredTask; readonly title: string; readonly settings: ResolvedSettings },
  ): Promise<ChildConversation>
  /** The conversation of a task; undefined when it does not exist or was deleted. */
  find(
    parent: string,
    task: string,
  ): Promise<{ readonly task: StoredTask; readonly child: ChildConversation } | undefined>
  /** All existing tasks, in order. */
  list(parent: string): Promise<readonly StoredTask[]>
  /** The highest task number of this parent so far; 0 when there was none. */
  lastTaskNumber(parent: string): Promise<number>
}
