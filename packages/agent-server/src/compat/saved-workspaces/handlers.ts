import type { Handlers } from '@slipway/http'
import type { workspacesListRoutes } from '@slipway/protocol'
import type { WorkspacesList } from './workspaces-list.ts'

export function workspacesListHandlers(options: {
  readonly workspaces: WorkspacesList
}): Handlers<typeof workspacesListRoutes> {
  const { workspaces } = options
  return {
    listWorkspaces: async () => ({ json: await workspaces.read() }),
    addWorkspaces: async ({ body }) => ({ json: await workspaces.add(body.workspaces) }),
    async removeWorkspace({ query: { path } }) {
      await workspaces.remove(path)
      return { json: { deleted: true } }
    },
    addWorkspaceParents: async ({ body }) => ({ json: await workspaces.addParents(body.parents) }),
    async removeWorkspaceParent({ query: { path } }) {
      await workspaces.removeParent(path)
      return { json: { deleted: true } }
    },
  }
}
