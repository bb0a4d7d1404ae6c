import { defineTool } from './define-tool.ts'
import type { ToolFactory } from './tool.ts'

/** Ends a run with a message to the user, repeated in the observation. The agent loop ends the run. */
export const openFinish: ToolFactory = () =>
  defineTool({
    kind: 'Finish',
    run: async ({ message }) => ({ content: message }),
    failureMembers: () => ({}),
  })

/** Records a thought of the model. */
export const openThink: ToolFactory = () =>
  defineTool({
    kind: 'Think',
    run: async () => ({ content: 'Your thought has been logged.' }),
    failureMembers: () => ({}),
  })
