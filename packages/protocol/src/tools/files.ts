import * as z from 'zod'
import { component } from '../core/schemas.ts'
import { defineTool } from './tool.ts'

export const edit = defineTool('Edit', {
  description:
    'Replaces a text in a file when it occurs exactly as often as expected. With an empty old text it creates the file.',
  traits: { destructive: true },
  action: {
    file_path: z.string().meta({ description: 'Absolute, or relative to the workspace.' }),
    old_string: z.string().meta({ description: 'The text to replace; empty to create the file.' }),
    new_string: z.string().meta({ description: 'The new text.' }),
    expected_replacements: z.int().min(0).default(1).meta({ description: 'How often the old text occurs.' }),
  },
  observation: {
    file_path: z.string().nullish(),
    is_new_file: z.boolean().default(false),
    replacements_made: z.int().default(0),
    old_content: z.string().nullish(),
    new_content: z.string().nullish(),
  },
})

const directoryEntry = component('DirectoryEntry', {
  name: z.string(),
  path: z.string(),
  is_directory: z.boolean(),
  size: z.int().meta({ description: 'Bytes.' }),
  modified_time: z.string(),
})

export const listDirectory = defineTool('ListDirectory', {
  description: 'Lists what is in a directory, one level deep or two, with size and time of change.',
  traits: { readOnly: true, idempotent: true },
  action: {
    dir_path: z.string().default('.').meta({ description: 'Absolute, or relative to the workspace.' }),
    recursive: z.boolean().default(false).meta({ description: 'Two levels instead of one.' }),
  },
  observation: {
    dir_path: z.string().nullish(),
    entries: z.array(directoryEntry).default([]),
    total_count: z.int().default(0),
    is_truncated: z.boolean().default(false),
  },
})

export const readFile = defineTool('ReadFile', {
  description: 'Reads a text file, or a part of it by lines.',
  traits: { readOnly: true, idempotent: true },
  action: {
    file_path: z.string().meta({ description: 'Absolute, or relative to the workspace.' }),
    offset: z.int().min(0).nullish().meta({ description: 'First line, counted from 0.' }),
    limit: z.int().min(1).nullish().meta({ description: 'Number of lines.' }),
  },
  observation: {
    file_path: z.string(),
    file_content: z.string().default(''),
    is_truncated: z.boolean().default(false),
    lines_shown: z.array(z.int()).nullish().meta({ description: 'First and last line.' }),
    total_lines: z.int().nullish(),
  },
})

export const writeFile = defineTool('WriteFile', {
  description:
    'Writes a whole file and creates the directories above it. What stood in the file before is replaced.',
  traits: { destructive: true },
  action: {
    file_path: z.string().meta({ description: 'Absolute, or relative to the workspace.' }),
    content: z.string().meta({ description: 'The whole text of the file.' }),
  },
  observation: {
    file_path: z.string().nullish(),
    is_new_file: z.boolean().default(false),
    old_content: z.string().nullish(),
    new_content: z.string().nullish(),
  },
})
