import type { Handlers } from '@slipway/http'
import type { LogFunction, subAgentRoutes } from '@slipway/protocol'
import { listSubAgents } from '../../extensions/sub-agent-list.ts'
import { resolveProjectDirectory } from '../../workspaces/project-directory.ts'

export function subAgentHandlers(options: {
  readonly homeDirectory: string | undefined
  readonly log: LogFunction
}): Handlers<typeof subAgentRoutes> {
  return {
    async listSubAgents({ body: { load_project, load_user, load_builtin, project_dir } }) {
      const query = {
        project: load_project ? resolveProjectDirectory(project_dir) : undefined,
        homeDirectory: load_user ? options.homeDirectory : undefined,
        isBuiltin: load_builtin,
      }
      return { json: { agents: await listSubAgents(query, options.log) } }
    },
  }
}
