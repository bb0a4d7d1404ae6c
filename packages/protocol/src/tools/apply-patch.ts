import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation } from './tool.ts'

/**
 * A patch of several files, for models that were trained on this format. These kinds are outside the
 * specification's closed lists and in no union: only conversations created with `apply_patch` have them.
 */
export const applyPatchAction = defineAction('ApplyPatchAction', {
  patch: z.string().meta({ description: 'The patch.' }),
})
export type ApplyPatchAction = z.output<typeof applyPatchAction>

/** `message`: what was changed, a line for each file, or why nothing was. */
export const applyPatchObservation = defineObservation('ApplyPatchObservation', { message: z.string() })
export type ApplyPatchObservation = z.output<typeof applyPatchObservation>

export const applyPatchTool = defineBuiltInTool(
  'ApplyPatchTool',
  { action_type: 'ApplyPatchAction', observation_type: 'ApplyPatchObservation' },
  { destructive: true },
  'Adds, changes, moves and deletes files by one patch, all of it or nothing.',
)
