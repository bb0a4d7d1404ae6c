import { workspaceRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { workspaceHandlers } from './handlers.ts'
import { WorkspaceTickets } from './tickets.ts'
import { WorkspaceFiles } from './workspace-files.ts'

/** Files of workspaces as pages. */
export const workspacePagesModule = defineModule({
  name: 'workspace-pages',
  routes: workspaceRoutes,
  open({ config, directories, cipher, infoReader, creation: { worktrees }, host: { clock } }) {
    const tickets = new WorkspaceTickets({
      key: cipher.deriveKey('workspace tickets'),
      sessionKeys: config.sessionKeys,
      now: () => clock.now(),
    })
    const files = new WorkspaceFiles({ directory: directories.data, worktrees })
    return {
      handlers: workspaceHandlers({ infoReader, files, tickets, basePath: config.basePath }),
      pageTokens: tickets,
    }
  },
})
