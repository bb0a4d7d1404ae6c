import { defineTool } from '../core/define-tool.ts'
import type { ToolFactory } from '../core/tool.ts'

/** Ends a run with a message to the user, repeated in the observation. The agent loop ends the run. */
export const openFinish: ToolFactory = () => [
  defineTool({
    directory: import.meta.dirname,
    tool: 'FinishTool',
    action: 'FinishAction',
    observation: 'FinishObservation',
    resources: () => [],
    run: async ({ message }) => ({ content: message }),
    failureMembers: () => ({}),
  }),
]
