import type { TaskAction } from '@slipway/protocol'

/** The result of a task. */
export interface TaskResult {
  /** Empty when no task was started. */
  readonly task_id: string
  readonly subagent: string
  readonly status: 'completed' | 'error'
  /** The agent's last message, or why the task failed. */
  readonly text: string
}

/** Runs the tasks of a conversation's task tool. */
export interface TaskExecutor {
  /** Loads the available agents. */
  load(): Promise<void>
  /** Runs a task to its end. Rejects when aborted, after the agent has stopped. */
  run(action: TaskAction, signal: AbortSignal): Promise<TaskResult>
}
