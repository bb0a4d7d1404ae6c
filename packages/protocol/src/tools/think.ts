import * as z from 'zod'
import { action, observation, ownTool, tool } from './tool.ts'

export const thinkAction = action('ThinkAction', { thought: z.string() })
export const thinkObservation = observation('ThinkObservation', {})
export const thinkTool = tool('ThinkTool', {})

export const think = ownTool(
  'ThinkTool',
  { action_type: 'ThinkAction', observation_type: 'ThinkObservation' },
  { readOnly: true, idempotent: true, untitled: true },
  'Writes down a thought. Nothing changes by it.',
)
