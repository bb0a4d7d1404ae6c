import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

const taskItem = z
  .object({
    title: z.string(),
    notes: z.string().default(''),
    status: z.enum(['todo', 'in_progress', 'done']).default('todo'),
  })
  .meta({ id: 'TaskItem' })

const command = z.enum(['view', 'plan'])
const taskList = z.array(taskItem).default([])

export const taskTrackerAction = defineAction('TaskTrackerAction', {
  command: command.default('view'),
  task_list: taskList,
})
export const taskTrackerObservation = defineObservation('TaskTrackerObservation', {
  command,
  task_list: taskList,
})
export const taskTrackerTool = defineToolSchema('TaskTrackerTool', {})

export const taskTracker = defineBuiltInTool(
  'TaskTrackerTool',
  { action_type: 'TaskTrackerAction', observation_type: 'TaskTrackerObservation' },
  { idempotent: true, untitled: true },
  'Keeps the list of tasks of this conversation: plan replaces it, view shows it.',
)
