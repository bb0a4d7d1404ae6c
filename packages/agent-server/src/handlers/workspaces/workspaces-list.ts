import type { Handlers } from '@slipway/http'
import type { workspacesListRoutes } from '@slipway/protocol'
import type { WorkspacesList } from '../../workspaces/workspaces-list.ts'

export function workspacesListHandlers(options: {
  readonly workspaces: WorkspacesList
}): Handlers<typeof workspacesListRoutes> {
  const { workspaces } = options
  return {
    async listWorkspaces() {
      return { json: await workspaces.read() }
    },
    async addWorkspaces({ body }) {
      return { json: await workspaces.add(body.workspaces) }
    },
    async removeWorkspace({ query: { path } }) {
      return { json: { deleted: true, ...(await workspaces.remove(path)) } }
    },
    async addWorkspaceParents({ body }) {
      return { json: await workspaces.addParents(body.parents) }
    },
    async removeWorkspaceParent({ query: { path } }) {
      return { json: { deleted: true, ...(await workspaces.removeParent(path)) } }
    },
  }
}
