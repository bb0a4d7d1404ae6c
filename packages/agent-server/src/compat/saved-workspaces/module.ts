import { join } from 'node:path'
import { workspacesListRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { workspacesListHandlers } from './handlers.ts'
import { WorkspacesList } from './workspaces-list.ts'

/** The directories that a web client offers for new conversations. */
export const savedWorkspacesModule = defineModule({
  name: 'saved-workspaces',
  routes: workspacesListRoutes,
  open: ({ directories }) => ({
    handlers: workspacesListHandlers({
      workspaces: new WorkspacesList({ path: join(directories.data, 'workspaces.json') }),
    }),
  }),
})
