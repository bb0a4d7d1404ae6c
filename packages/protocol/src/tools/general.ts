import * as z from 'zod'
import { defineTool } from './tool.ts'

export const finish = defineTool('Finish', {
  description: 'Ends the work with a last message to the user.',
  traits: { readOnly: true, idempotent: true },
  action: { message: z.string().meta({ description: 'The answer to the user.' }) },
  observation: {},
})

export const think = defineTool('Think', {
  description: 'Writes down a thought. Nothing changes by it.',
  traits: { readOnly: true, idempotent: true, untitled: true },
  action: { thought: z.string().meta({ description: 'The thought.' }) },
  observation: {},
})
