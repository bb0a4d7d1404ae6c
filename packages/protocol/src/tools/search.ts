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

export const grep = defineTool('Grep', {
  description: 'Finds files in which a regular expression matches, in any case, the newest first.',
  traits: { readOnly: true, idempotent: true },
  action: {
    pattern: z.string(),
    path: z.string().nullish(),
    include: z.string().nullish(),
  },
  observation: {
    matches: z.array(z.string()).meta({ description: 'Paths of files.' }),
    pattern: z.string(),
    search_path: z.string(),
    include_pattern: z.string().nullish(),
    truncated: z.boolean().default(false),
  },
})
