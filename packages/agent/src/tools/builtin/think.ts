import { defineTool } from '../core/define-tool.ts'
import type { ToolFactory } from '../core/tool.ts'

/** Records a thought of the model. */
export const openThink: ToolFactory = () => [
  defineTool({
    directory: import.meta.dirname,
    tool: 'ThinkTool',
    action: 'ThinkAction',
    observation: 'ThinkObservation',
    resources: () => [],
    run: async () => ({ content: 'Your thought has been logged.' }),
    failureMembers: () => ({}),
  }),
]
