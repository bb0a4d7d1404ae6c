import * as z from 'zod'
import { defineTool } from './tool.ts'

export const glob = defineTool('Glob', {
  description: 'Finds files whose path matches a pattern such as **/*.ts, the newest first.',
  traits: { readOnly: true, idempotent: true },
  action: {
    pattern: z.string().meta({ description: 'Pattern of paths, such as src/**/*.ts.' }),
    path: z.string().nullish().meta({ description: 'Directory to search. Default: the workspace.' }),
  },
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
    pattern: z.string().meta({ description: 'Case-insensitive regular expression.' }),
    path: z.string().nullish().meta({ description: 'File or directory. Default: the workspace.' }),
    include: z.string().nullish().meta({ description: 'Only files whose path matches, such as *.ts.' }),
  },
  observation: {
    matches: z.array(z.string()).meta({ description: 'Paths of files.' }),
    pattern: z.string(),
    search_path: z.string(),
    include_pattern: z.string().nullish(),
    truncated: z.boolean().default(false),
  },
})
