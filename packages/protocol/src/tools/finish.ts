import * as z from 'zod'
import { action, observation, ownTool, tool } from './tool.ts'

export const finishAction = action('FinishAction', { message: z.string() })
export const finishObservation = observation('FinishObservation', {})
export const finishTool = tool('FinishTool', {})

export const finish = ownTool(
  'FinishTool',
  { action_type: 'FinishAction', observation_type: 'FinishObservation' },
  { readOnly: true, idempotent: true },
  'Ends the work with a last message to the user.',
)
