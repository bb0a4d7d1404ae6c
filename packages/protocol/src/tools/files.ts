import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

export const editAction = defineAction('EditAction', {
  file_path: z.string(),
  old_string: z.string(),
  new_string: z.string(),
  expected_replacements: z.int().min(0).default(1),
})

export const editObservation = defineObservation('EditObservation', {
  file_path: z.string().nullish(),
  is_new_file: z.boolean().default(false),
  replacements_made: z.int().default(0),
  old_content: z.string().nullish(),
  new_content: z.string().nullish(),
})

export const editTool = defineToolSchema('EditTool', {})

export const edit = defineBuiltInTool(
  'EditTool',
  { action_type: 'EditAction', observation_type: 'EditObservation' },
  { destructive: true },
  'Replaces a text in a file when it occurs exactly as often as expected. With an empty old text it creates the file.',
)

export const listDirectoryAction = defineAction('ListDirectoryAction', {
  dir_path: z.string().default('.'),
  recursive: z.boolean().default(false),
})

const directoryEntry = z
  .object({
    name: z.string(),
    path: z.string(),
    is_directory: z.boolean(),
    size: z.int().meta({ description: 'Bytes.' }),
    modified_time: z.string(),
  })
  .meta({ id: 'DirectoryEntry' })

export const listDirectoryObservation = defineObservation('ListDirectoryObservation', {
  dir_path: z.string().nullish(),
  entries: z.array(directoryEntry).default([]),
  total_count: z.int().default(0),
  is_truncated: z.boolean().default(false),
})

export const listDirectoryTool = defineToolSchema('ListDirectoryTool', {})

export const listDirectory = defineBuiltInTool(
  'ListDirectoryTool',
  { action_type: 'ListDirectoryAction', observation_type: 'ListDirectoryObservation' },
  { readOnly: true, idempotent: true },
  'Lists what is in a directory, one level deep or two, with size and time of change.',
)

export const readFileAction = defineAction('ReadFileAction', {
  file_path: z.string(),
  offset: z.int().min(0).nullish().meta({ description: 'First line, counted from 0.' }),
  limit: z.int().min(1).nullish().meta({ description: 'Number of lines.' }),
})

export const readFileObservation = defineObservation('ReadFileObservation', {
  file_path: z.string(),
  file_content: z.string().default(''),
  is_truncated: z.boolean().default(false),
  lines_shown: z.array(z.int()).nullish().meta({ description: 'First and last line.' }),
  total_lines: z.int().nullish(),
})

export const readFileTool = defineToolSchema('ReadFileTool', {})

export const readFile = defineBuiltInTool(
  'ReadFileTool',
  { action_type: 'ReadFileAction', observation_type: 'ReadFileObservation' },
  { readOnly: true, idempotent: true },
  'Reads a text file, or a part of it by lines.',
)

export const writeFileAction = defineAction('WriteFileAction', { file_path: z.string(), content: z.string() })

export const writeFileObservation = defineObservation('WriteFileObservation', {
  file_path: z.string().nullish(),
  is_new_file: z.boolean().default(false),
  old_content: z.string().nullish(),
  new_content: z.string().nullish(),
})

export const writeFileTool = defineToolSchema('WriteFileTool', {})

export const writeFile = defineBuiltInTool(
  'WriteFileTool',
  { action_type: 'WriteFileAction', observation_type: 'WriteFileObservation' },
  { destructive: true },
  'Writes a whole file and creates the directories above it. What stood in the file before is replaced.',
)
