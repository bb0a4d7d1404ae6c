import type { Handlers } from '@slipway/http'
import type { LogFunction, SubAgentInfo, subAgentRoutes } from '@slipway/protocol'
import { resolveProjectDirectory } from '../../core/conversations/project-directory.ts'
import { listSubAgents } from './sub-agent-list.ts'

export function subAgentHandlers(options: {
  readonly homeDirectory: string | undefined
  /** False: agents that need a browser are left out. */
  readonly hasBrowser: boolean
  readonly log: LogFunction
}): Handlers<typeof subAgentRoutes> {
  return {
    async listSubAgents({ body: { load_project, load_user, load_builtin, project_dir } }) {
      const query = {
        project: load_project ? resolveProjectDirectory(project_dir) : undefined,
        homeDirectory: load_user ? options.homeDirectory : undefined,
        isBuiltin: load_builtin,
      }
      const agents = await listSubAgents(query, options.log)
      const isUsable = ({ tools }: SubAgentInfo) => options.hasBrowser || !tools.some(isBrowserTool)
      return { json: { agents: agents.filter(isUsable) } }
    },
  }
}

function isBrowserTool(name: string): boolean {
  return /^browser_/i.test(name)
}
