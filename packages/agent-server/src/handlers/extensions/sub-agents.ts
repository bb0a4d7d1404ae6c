import type { Handlers } from '@slipway/http'
import type { subAgentRoutes } from '@slipway/protocol'
import type { SubAgentList } from '../../extensions/sub-agent-list.ts'
import { resolveProjectDirectory } from '../../workspaces/project-directory.ts'

/** The agents of a project, of a user and of this server. */
export function subAgentHandlers({
  agents: subAgentList,
}: {
  readonly agents: SubAgentList
}): Handlers<typeof subAgentRoutes> {
  return {
    async listSubAgents({ body }) {
      const { load_project, load_user, load_builtin, project_dir } = body
      const project = load_project ? resolveProjectDirectory(project_dir) : undefined
      const found = await subAgentList.list({ project, isUser: load_user, isBuiltin: load_builtin })
      return { json: { agents: found } }
    },
  }
}
