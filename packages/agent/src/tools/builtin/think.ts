import { ownTool } from '../core/define-tool.ts'
import type { OpenTools } from '../core/tool.ts'

/** Lets a model write down a thought. */
export const openThink: OpenTools = () => [
  ownTool({
    directory: import.meta.dirname,
    tool: 'ThinkTool',
    action: 'ThinkAction',
    observation: 'ThinkObservation',
    resources: () => [],
    run: async () => ({ content: 'Your thought has been logged.' }),
    failed: () => ({}),
  }),
]
