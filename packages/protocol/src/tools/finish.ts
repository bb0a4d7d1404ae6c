import * as z from 'zod'
import { defineTool } from './tool.ts'

export const finish = defineTool('Finish', {
  description: 'Ends the work with a last message to the user.',
  traits: { readOnly: true, idempotent: true },
  action: { message: z.string() },
  observation: {},
})
