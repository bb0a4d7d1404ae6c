import type { TaskAction, TaskObservation } from '@slipway/protocol'

/** The result of a task; `task_id` is empty when none was started. */
export interface TaskResult extends Pick<TaskObservation, 'task_id' | 'subagent' | 'status'> {
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
