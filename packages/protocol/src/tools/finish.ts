import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

export const finishAction = defineAction('FinishAction', { message: z.string() })
export const finishObservation = defineObservation('FinishObservation', {})
export const finishTool = defineToolSchema('FinishTool', {})

export const finish = defineBuiltInTool(
  'FinishTool',
  { action_type: 'FinishAction', observation_type: 'FinishObservation' },
  { readOnly: true, idempotent: true },
  'Ends the work with a last message to the user.',
)
