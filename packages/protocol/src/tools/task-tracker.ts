import * as z from 'zod'
import { action, observation, ownTool, tool } from './tool.ts'

const taskItem = z
  .object({
    title: z.string(),
    notes: z.string().default(''),
    status: z.enum(['todo', 'in_progress', 'done']).default('todo'),
  })
  .meta({ id: 'TaskItem' })

const command = z.enum(['view', 'plan'])
const taskList = z.array(taskItem).default([])

export const taskTrackerAction = action('TaskTrackerAction', {
  command: command.default('view'),
  task_list: taskList,
})
export const taskTrackerObservation = observation('TaskTrackerObservation', { command, task_list: taskList })
export const taskTrackerTool = tool('TaskTrackerTool', {})

export const taskTracker = ownTool(
  'TaskTrackerTool',
  { action_type: 'TaskTrackerAction', observation_type: 'TaskTrackerObservation' },
  { idempotent: true, untitled: true },
  'Keeps the list of tasks of this conversation: plan replaces it, view shows it.',
)
