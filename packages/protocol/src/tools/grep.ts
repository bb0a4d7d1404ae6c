import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

export const grepAction = defineAction('GrepAction', {
  pattern: z.string(),
  path: z.string().nullish(),
  include: z.string().nullish(),
})

export const grepObservation = defineObservation('GrepObservation', {
  matches: z.array(z.string()).meta({ description: 'Paths of files.' }),
  pattern: z.string(),
  search_path: z.string(),
  include_pattern: z.string().nullish(),
  truncated: z.boolean().default(false),
})

export const grepTool = defineToolSchema('GrepTool', {})

export const grep = defineBuiltInTool(
  'GrepTool',
  { action_type: 'GrepAction', observation_type: 'GrepObservation' },
  { readOnly: true, idempotent: true },
  'Finds files in which a regular expression matches, in any case, the newest first.',
)
