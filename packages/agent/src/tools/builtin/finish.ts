import { defineTool } from '../core/define-tool.ts'
import type { ToolFactory } from '../core/tool.ts'

/** Ends a run with a message to the user; the observation repeats it. That the run ends is the work of the loop. */
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
