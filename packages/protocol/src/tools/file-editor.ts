import * as z from 'zod'
import { defineTool } from './tool.ts'

const command = z.enum(['view', 'create', 'str_replace', 'insert', 'undo_edit'])

/** The members that the file editor and the plan editor have in common. */
const editMembers = {
  command: command.meta({ description: 'What to do.' }),
  path: z.string().meta({ description: 'Absolute path.' }),
  file_text: z.string().nullish().meta({ description: 'create: the whole text.' }),
  old_str: z.string().nullish().meta({ description: 'str_replace: the text to find.' }),
  new_str: z.string().nullish().meta({ description: 'str_replace, insert: the new text.' }),
  insert_line: z.int().min(0).nullish().meta({ description: 'insert: after this line; 0 is the top.' }),
  view_range: z
    .array(z.int())
    .nullish()
    .meta({ description: 'view: first and last line or page, as [11, 20]; -1 is the end.' }),
}

const editResultMembers = {
  command,
  path: z.string().nullish(),
  prev_exist: z.boolean().default(true),
  old_content: z.string().nullish(),
  new_content: z.string().nullish(),
}

export const fileEditor = defineTool('FileEditor', {
  description:
    'Views, creates and edits files by absolute path. An edit replaces one exact match or inserts after a line, and the last edits of a file can be undone.',
  traits: { destructive: true },
  action: editMembers,
  observation: editResultMembers,
})

export const planningFileEditor = defineTool('PlanningFileEditor', {
  description: 'Views any file, and edits the plan of this conversation. Other files stay as they are.',
  traits: {},
  action: editMembers,
  observation: editResultMembers,
})
