import type { Handlers } from '@slipway/http'
import type { workspacesListRoutes } from '@slipway/protocol'
import type { WorkspacesList } from '../../workspaces/workspaces-list.ts'

export function workspacesListHandlers(options: {
  readonly workspaces: WorkspacesList
  /** Called by what changes something. */
  readonly touch: () => void
}): Handlers<typeof workspacesListRoutes> {
  const { workspaces, touch } = options
  return {
    async listWorkspaces() {
      return { json: await workspaces.read() }
    },
    async addWorkspaces({ body }) {
      touch()
      return { json: await workspaces.add(body.workspaces) }
    },
    async removeWorkspace({ query: { path } }) {
      touch()
      return { json: { deleted: true, ...(await workspaces.remove(path)) } }
    },
    async addWorkspaceParents({ body }) {
      touch()
      return { json: await workspaces.addParents(body.parents) }
    },
    async removeWorkspaceParent({ query: { path } }) {
      touch()
      return { json: { deleted: true, ...(await workspaces.removeParent(path)) } }
    },
  }
}
