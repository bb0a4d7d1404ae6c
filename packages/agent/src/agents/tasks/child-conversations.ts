import type { ConfirmationPolicy, SecurityAnalyzer, SendMessageRequest } from '@slipway/protocol'
import type { Hints } from '../../conversation/events/transient-updates.ts'
import type { Settings } from '../../conversation/state/resolved-settings.ts'
import type { State } from '../../conversation/state/state.ts'
import type { Stats } from '../../conversation/state/usage-stats.ts'

/** A conversation that does a task: what is needed of it, so that nothing here depends on the loop. */
export interface Child {
  readonly id: string
  readonly state: State
  readonly stats: Stats
  readonly hints: Hints
  readonly policy: ConfirmationPolicy
  readonly analyzer: SecurityAnalyzer | null
  send(message: SendMessageRequest): Promise<void>
  respond(options: { readonly accept: boolean; readonly reason: string }): Promise<void>
  pause(): Promise<void>
  interrupt(): Promise<void>
  settled(): Promise<void>
  setPolicy(policy: ConfirmationPolicy): Promise<void>
  setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void>
}

/** A task that was given, as it is kept with its conversation. */
export interface KeptTask {
  /** `task_00000001`, of its parent's own count. */
  readonly id: string
  /** Name of the agent. */
  readonly subagent: string
}

/**
 * The conversations that do the tasks of another one, its parent; implemented by who keeps conversations. They are
 * conversations like others: with a log of their own, found by their ids and among the parent's `sub_conversation_ids`.
 */
export interface Children {
  /** Makes one, durably. A Problem `conflict` when tasks of tasks go too deep, `not_found` when the parent is gone. */
  create(
    parent: string,
    child: { readonly task: KeptTask; readonly title: string; readonly settings: Settings },
  ): Promise<Child>
  /** That of a task; undefined when there is none, also when somebody has deleted it. */
  find(parent: string, task: string): Promise<{ readonly task: KeptTask; readonly child: Child } | undefined>
  /** All tasks that are there, in order. */
  list(parent: string): Promise<readonly KeptTask[]>
  /** The highest number that a task of this parent has had, as far as anything is left of it; 0 when there was none. */
  last(parent: string): Promise<number>
}
