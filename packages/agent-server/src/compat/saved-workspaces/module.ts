import { workspacesListRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { workspacesListHandlers } from './handlers.ts'
import { WorkspacesList } from './workspaces-list.ts'

/** The directories that a web client offers for new conversations. */
export const savedWorkspacesModule = defineModule({
  name: 'saved-workspaces',
  routes: workspacesListRoutes,
  open: ({ documents }) => ({
    handlers: workspacesListHandlers({
      workspaces: new WorkspacesList({ documents }),
    }),
  }),
})
