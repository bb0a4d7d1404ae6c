import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

export const thinkAction = defineAction('ThinkAction', { thought: z.string() })
export const thinkObservation = defineObservation('ThinkObservation', {})
export const thinkTool = defineToolSchema('ThinkTool', {})

export const think = defineBuiltInTool(
  'ThinkTool',
  { action_type: 'ThinkAction', observation_type: 'ThinkObservation' },
  { readOnly: true, idempotent: true, untitled: true },
  'Writes down a thought. Nothing changes by it.',
)
