import type { TaskAction } from '@slipway/protocol'

/** What came of a task. */
export interface TaskResult {
  /** Empty when there was no task to begin with. */
  readonly task_id: string
  readonly subagent: string
  readonly status: 'completed' | 'error'
  /** What the agent said last, or why the task is not done. */
  readonly text: string
}

/** Where the task tool of a conversation gives its tasks. */
export interface TaskExecutor {
  /** Finds out which agents there are. */
  load(): Promise<void>
  /** Does a task, and resolves when it is over. Rejects when aborted, after the agent has stopped. */
  run(action: TaskAction, signal: AbortSignal): Promise<TaskResult>
}
