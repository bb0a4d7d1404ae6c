import type { ConfirmationPolicy, SecurityAnalyzer, SendMessageRequest } from '@slipway/protocol'
import type { TransientUpdates } from '../../conversation/events/transient-updates.ts'
import type { ResolvedSettings } from '../../conversation/state/resolved-settings.ts'
import type { ConversationState } from '../../conversation/state/state.ts'
import type { UsageStats } from '../../conversation/state/usage-stats.ts'

/** A conversation that does a task: what is needed of it, so that nothing here depends on the loop. */
export interface ChildConversation {
  readonly id: string
  readonly state: ConversationState
  readonly stats: UsageStats
  readonly transientUpdates: TransientUpdates
  readonly policy: ConfirmationPolicy
  readonly analyzer: SecurityAnalyzer | null
  send(message: SendMessageRequest): Promise<void>
  resolveConfirmation(options: { readonly accept: boolean; readonly reason: string }): Promise<void>
  pause(): Promise<void>
  interrupt(): Promise<void>
  waitUntilIdle(): Promise<void>
  setPolicy(policy: ConfirmationPolicy): Promise<void>
  setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void>
}

/** A task that was given, as it is kept with its conversation. */
export interface StoredTask {
  /** `task_00000001`, of its parent's own count. */
  readonly id: string
  /** Name of the agent. */
  readonly subagent: string
}

/**
 * The conversations that do the tasks of another one, its parent; implemented by who keeps conversations. They are
 * conversations like others: with a log of their own, found by their ids and among the parent's `sub_conversation_ids`.
 */
export interface ChildConversations {
  /** Makes one, durably. A Problem `conflict` when tasks of tasks go too deep, `not_found` when the parent is gone. */
  create(
    parent: string,
    child: { readonly task: StoredTask; readonly title: string; readonly settings: ResolvedSettings },
  ): Promise<ChildConversation>
  /** That of a task; undefined when there is none, also when somebody has deleted it. */
  find(
    parent: string,
    task: string,
  ): Promise<{ readonly task: StoredTask; readonly child: ChildConversation } | undefined>
  /** All tasks that are there, in order. */
  list(parent: string): Promise<readonly StoredTask[]>
  /** The highest number that a task of this parent has had, as far as anything is left of it; 0 when there was none. */
  lastTaskNumber(parent: string): Promise<number>
}
