import * as z from 'zod'
import { boundedText, strictComponent } from '../../core/schemas.ts'

/** What becomes of commands that fit a pattern, whatever their risk and the confirmation policy. */
export const commandRule = strictComponent('CommandRule', {
  pattern: boundedText(1, 500).meta({
    description:
      'Program and arguments of one simple command; * stands for any text, and " *" at the end also for none.',
  }),
  decision: z.enum(['allow', 'ask', 'deny']),
})
export type CommandRule = z.output<typeof commandRule>

export const commandRules = z.array(commandRule).max(500)
