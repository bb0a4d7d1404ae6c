import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

export const terminalAction = defineAction('TerminalAction', {
  command: z.string(),
  is_input: z.boolean().default(false),
  timeout: z.number().min(0).nullish().meta({ description: 'Seconds.' }),
  reset: z.boolean().default(false),
})

/** What the shell's prompt told after the command. */
const commandMetadata = z
  .object({
    exit_code: z.int().default(-1),
    pid: z.int().default(-1),
    username: z.string().nullish(),
    hostname: z.string().nullish(),
    working_dir: z.string().nullish(),
    py_interpreter_path: z.string().nullish(),
    prefix: z.string().default(''),
    suffix: z.string().default(''),
  })
  .meta({ id: 'CommandMetadata' })

/** `command` is there even when it is null: clients refuse an observation without it. */
export const terminalObservation = defineObservation('TerminalObservation', {
  command: z.string().nullable(),
  exit_code: z.int().nullish(),
  timeout: z.boolean().default(false),
  metadata: commandMetadata.optional(),
  full_output_save_dir: z.string().nullish(),
})

export const terminalTool = defineToolSchema('TerminalTool', {})

export const terminal = defineBuiltInTool(
  'TerminalTool',
  { action_type: 'TerminalAction', observation_type: 'TerminalObservation' },
  { destructive: true, openWorld: true },
  'Runs a command in a shell that stays open for the whole conversation, so its directory and variables are kept. Sends input to a running command with is_input, and starts afresh with reset.',
)
