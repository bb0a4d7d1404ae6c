import { ownTool } from './own-tool.ts'
import type { OpenTools } from './tool.ts'

/** Lets a model write down a thought. */
export const openThink: OpenTools = () => [
  ownTool({
    tool: 'ThinkTool',
    action: 'ThinkAction',
    observation: 'ThinkObservation',
    resources: () => [],
    run: async () => ({ content: 'Your thought has been logged.' }),
    failed: () => ({}),
  }),
]
