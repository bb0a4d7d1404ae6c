import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation } from './tool.ts'

/**
 * A skill that the model asks for. These kinds are outside the specification's closed lists and in
 * no union: conversations of the wire `current` whose agent has skills have them, and those created
 * with `invoke_skill`.
 */
export const invokeSkillAction = defineAction('InvokeSkillAction', {
  name: z.string().min(1).max(1000).meta({ description: 'As in the list of skills.' }),
})
export type InvokeSkillAction = z.output<typeof invokeSkillAction>

export const invokeSkillObservation = defineObservation('InvokeSkillObservation', {
  skill_name: z.string(),
})
export type InvokeSkillObservation = z.output<typeof invokeSkillObservation>

export const invokeSkillTool = defineBuiltInTool(
  'InvokeSkillTool',
  { action_type: 'InvokeSkillAction', observation_type: 'InvokeSkillObservation' },
  { readOnly: true, idempotent: true },
  'Gets the instructions of a skill.',
)
