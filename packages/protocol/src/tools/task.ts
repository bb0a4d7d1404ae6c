import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation } from './tool.ts'

/**
 * Work for an agent of its own (wire 4.4). These kinds lie outside of the specification's closed lists: they stand only in
 * the conversations of creators who ask for `task_tool_set`, and in no union.
 *
 * `resume`: the id of a task that is to be gone on with. `max_turns` bounds the steps of a new task; it was taken out of later
 * contracts, so models are not told of it, and it is not written unless it was given.
 */
export const taskAction = defineAction('TaskAction', {
  description: z.string().nullish(),
  prompt: z.string(),
  subagent_type: z.string().default('general-purpose'),
  resume: z.string().nullish(),
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
  'Gives a task to an agent of its own and waits for what comes of it.',
)
