import * as z from 'zod'
import { defineTool } from './tool.ts'

export const glob = defineTool('Glob', {
  description: 'Finds files whose path matches a pattern such as **/*.ts, the newest first.',
  traits: { readOnly: true, idempotent: true },
  action: { pattern: z.string(), path: z.string().nullish() },
  observation: {
    files: z.array(z.string()),
    pattern: z.string(),
    search_path: z.string(),
    truncated: z.boolean().default(false),
  },
})
