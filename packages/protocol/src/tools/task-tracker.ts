import * as z from 'zod'
import { component } from '../core/schemas.ts'
import { defineTool } from './tool.ts'

const taskItem = component('TaskItem', {
  title: z.string().meta({ description: 'What is to be done.' }),
  notes: z.string().default('').meta({ description: 'Details.' }),
  status: z.enum(['todo', 'in_progress', 'done']).default('todo').meta({ description: 'Its state.' }),
})

const command = z.enum(['view', 'plan'])
const taskList = z.array(taskItem).default([])

export const taskTracker = defineTool('TaskTracker', {
  description: 'Keeps the list of tasks of this conversation: plan replaces it, view shows it.',
  traits: { idempotent: true, untitled: true },
  action: {
    command: command.default('view').meta({ description: 'view shows the list, plan replaces it.' }),
    task_list: taskList.meta({ description: 'For plan: all tasks.' }),
  },
  observation: {
    command,
    task_list: taskList,
  },
})
