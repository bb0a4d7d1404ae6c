import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation } from './tool.ts'

/**
 * A task for another agent (wire 4.4). These kinds are outside the specification's closed lists and in no
 * union: only conversations created with `task_tool_set` have them. `resume` is the id of a task to continue.
 * `max_turns` bounds the steps of a new task; later contracts dropped it, so models do not see it and it is
 * written only when present.
 */
export const taskAction = defineAction('TaskAction', {
  description: z.string().nullish().meta({ description: 'The task in a few words.' }),
  prompt: z.string().meta({ description: 'The whole task: the agent knows nothing else.' }),
  subagent_type: z.string().default('general-purpose').meta({ description: 'Name of the agent.' }),
  resume: z.string().nullish().meta({ description: 'Id of an earlier task to continue.' }),
  max_turns: z.int().min(1).nullish(),
})
export type TaskAction = z.output<typeof taskAction>

/** `status`: completed or error. `task_id` is empty when there was no task to begin with. */
export const taskObservation = defineObservation('TaskObservation', {
  task_id: z.string(),
  subagent: z.string(),
  status: z.string(),
})
export type TaskObservation = z.output<typeof taskObservation>

export const taskTool = defineBuiltInTool(
  'TaskTool',
  { action_type: 'TaskAction', observation_type: 'TaskObservation' },
  { destructive: true, openWorld: true },
  'Gives a task to its own agent and waits for what comes of it.',
)
