import * as z from 'zod'
import { component } from '../core/schemas.ts'
import { defineTool } from './tool.ts'

const taskItem = component('TaskItem', {
  title: z.string(),
  notes: z.string().default(''),
  status: z.enum(['todo', 'in_progress', 'done']).default('todo'),
})

const command = z.enum(['view', 'plan'])
const taskList = z.array(taskItem).default([])

export const taskTracker = defineTool('TaskTracker', {
  description: 'Keeps the list of tasks of this conversation: plan replaces it, view shows it.',
  traits: { idempotent: true, untitled: true },
  action: {
    command: command.default('view'),
    task_list: taskList,
  },
  observation: {
    command,
    task_list: taskList,
  },
})
