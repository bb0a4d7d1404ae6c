import * as z from 'zod'
import { action, observation, ownTool, tool } from './tool.ts'

export const globAction = action('GlobAction', { pattern: z.string(), path: z.string().nullish() })

export const globObservation = observation('GlobObservation', {
  files: z.array(z.string()),
  pattern: z.string(),
  search_path: z.string(),
  truncated: z.boolean().default(false),
})

export const globTool = tool('GlobTool', {})

export const glob = ownTool(
  'GlobTool',
  { action_type: 'GlobAction', observation_type: 'GlobObservation' },
  { readOnly: true, idempotent: true },
  'Finds files whose path matches a pattern such as **/*.ts, the newest first.',
)
