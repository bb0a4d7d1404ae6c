import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

export const globAction = defineAction('GlobAction', { pattern: z.string(), path: z.string().nullish() })

export const globObservation = defineObservation('GlobObservation', {
  files: z.array(z.string()),
  pattern: z.string(),
  search_path: z.string(),
  truncated: z.boolean().default(false),
})

export const globTool = defineToolSchema('GlobTool', {})

export const glob = defineBuiltInTool(
  'GlobTool',
  { action_type: 'GlobAction', observation_type: 'GlobObservation' },
  { readOnly: true, idempotent: true },
  'Finds files whose path matches a pattern such as **/*.ts, the newest first.',
)
