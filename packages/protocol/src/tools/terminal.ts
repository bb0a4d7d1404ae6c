import * as z from 'zod'
import { component } from '../core/schemas.ts'
import { defineTool } from './tool.ts'

/** Metadata that the shell's prompt reports after a command. */
const commandMetadata = component('CommandMetadata', {
  exit_code: z.int().default(-1),
  pid: z.int().default(-1),
  username: z.string().nullish(),
  hostname: z.string().nullish(),
  working_dir: z.string().nullish(),
  py_interpreter_path: z.string().nullish(),
  prefix: z.string().default(''),
  suffix: z.string().default(''),
})

export const terminal = defineTool('Terminal', {
  description:
    'Runs a command in a shell that stays open for the whole conversation, so its directory and variables are kept. Sends input to a running command with is_input, and starts afresh with reset.',
  traits: { destructive: true, openWorld: true },
  action: {
    command: z.string().meta({ description: 'Empty: wait.' }),
    is_input: z.boolean().default(false).meta({ description: 'Type into the running program.' }),
    timeout: z.number().min(0).nullish().meta({ description: 'Seconds.' }),
    reset: z
      .boolean()
      .default(false)
      .meta({ description: 'End the shell with all it runs, and open a new one.' }),
  },
  /** `command` is there even when it is null: clients refuse an observation without it. */
  observation: {
    command: z.string().nullable(),
    exit_code: z.int().nullish(),
    timeout: z.boolean().default(false),
    metadata: commandMetadata.optional(),
    full_output_save_dir: z.string().nullish(),
  },
})
