import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component, jsonObject, nullAsUndefined, trueByDefault } from '../../core/schemas.ts'
import { agentLevel } from './agent-definition.ts'

/** Where to look for agents. `project_dir` may be relative and need not exist. */
export const listSubAgentsRequest = component('SubAgentsRequest', {
  load_user: trueByDefault,
  load_project: trueByDefault,
  load_builtin: trueByDefault,
  project_dir: nullAsUndefined(z.string()).meta({ description: 'Path of the project.' }),
})

/**
 * An agent as clients list it; environment and headers of its servers are redacted. `mcp_servers` repeats
 * `mcp_config`.
 */
export const subAgentInfo = component('SubAgentInfo', {
  name: z.string(),
  description: z.string(),
  model: z.string(),
  color: z.string().nullable(),
  tools: z.array(z.string()),
  skills: z.array(z.string()),
  system_prompt: z.string(),
  source: z.string().nullable(),
  level: agentLevel.nullable(),
  is_builtin: z.boolean(),
  when_to_use_examples: z.array(z.string()),
  hooks: jsonObject.nullable(),
  permission_mode: z.string().nullable(),
  max_iteration_per_run: z.int().nullable(),
  max_budget_per_run: z.number().nullable(),
  mcp_config: jsonObject.nullable(),
  mcp_servers: jsonObject.nullable().meta({ deprecated: true }),
  profile_store_dir: z.string().nullable(),
  condenser: jsonObject.nullable(),
  metadata: jsonObject,
})
export type SubAgentInfo = z.infer<typeof subAgentInfo>

export const subAgentRoutes = defineRoutes('sub-agents', {
  listSubAgents: route.post('/api/sub-agents', {
    summary: 'List the agents that tasks can be given to',
    description:
      'Of one name that of the project is listed, then that of the user, then the one that comes with the server. Files that cannot be read as agents are passed over.',
    body: listSubAgentsRequest,
    responses: ok('The agents.', component('SubAgentsResponse', { agents: z.array(subAgentInfo) })),
  }),
})
