import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation } from './tool.ts'

/**
 * The choice of a model by a meta-profile. These kinds are outside the specification's closed lists and in no
 * union: only conversations created with `ClassifyAndSwitchLLMTool` have them.
 */
export const classifyAndSwitchLlmAction = defineAction('ClassifyAndSwitchLLMAction', {})
export type ClassifyAndSwitchLlmAction = z.output<typeof classifyAndSwitchLlmAction>

/**
 * `chosen_class`: the description of the class, or `model: NAME`; null when nothing fitted. `model`: the LLM
 * profile that was switched to; `active_model`: the model of the agent's next steps.
 */
export const classifyAndSwitchLlmObservation = defineObservation('ClassifyAndSwitchLLMObservation', {
  chosen_class: z.string().nullish(),
  model: z.string().nullish(),
  active_model: z.string().nullish(),
})
export type ClassifyAndSwitchLlmObservation = z.output<typeof classifyAndSwitchLlmObservation>

export const classifyAndSwitchLlmTool = defineBuiltInTool(
  'ClassifyAndSwitchLLMTool',
  { action_type: 'ClassifyAndSwitchLLMAction', observation_type: 'ClassifyAndSwitchLLMObservation' },
  { readOnly: true, openWorld: true },
  'Chooses the model that fits the task, and continues with it.',
)
