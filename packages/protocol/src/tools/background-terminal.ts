import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation } from './tool.ts'

/**
 * Commands in their own terminals, several at a time. These kinds are outside the specification's closed
 * lists and in no union: only conversations created with `background_terminal` have them. `command`: what
 * `start` runs, or what `input` types.
 */
export const backgroundTerminalAction = defineAction('BackgroundTerminalAction', {
  operation: z.enum(['start', 'output', 'input', 'kill', 'list']).meta({ description: 'What to do.' }),
  command: z.string().nullish().meta({ description: 'What start runs, or input types.' }),
  id: z.string().nullish().meta({ description: 'The terminal. With start: one whose command has ended.' }),
  cursor: z.int().min(0).nullish().meta({ description: 'Where output begins; default: after the last one.' }),
  timeout: z.number().min(0).max(600).nullish().meta({ description: 'Seconds to wait at most.' }),
})
export type BackgroundTerminalAction = z.output<typeof backgroundTerminalAction>

/** `cursor`: the position after the output, in characters. `exit_code`: null while the command runs. */
export const backgroundTerminalObservation = defineObservation('BackgroundTerminalObservation', {
  id: z.string().nullish(),
  status: z.enum(['running', 'waiting_for_input', 'ended']).nullish(),
  exit_code: z.int().nullish(),
  cursor: z.int().nullish(),
})
export type BackgroundTerminalObservation = z.output<typeof backgroundTerminalObservation>

export const backgroundTerminalTool = defineBuiltInTool(
  'BackgroundTerminalTool',
  { action_type: 'BackgroundTerminalAction', observation_type: 'BackgroundTerminalObservation' },
  { destructive: true, openWorld: true },
  'Runs commands in their own terminals, several at a time, and gives their output by cursor.',
)
