import { mcpRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { settingsModule } from '../settings/module.ts'
import { mcpHandlers } from './handlers.ts'
import { McpOAuthJobs } from './mcp-oauth-jobs.ts'
import { SavedMcpOAuthStates } from './mcp-oauth-states.ts'
import { testMcpServer } from './mcp-probe.ts'

/** Tries MCP servers and signs in to them. */
export const mcpModule = defineModule({
  name: 'mcp',
  routes: mcpRoutes,
  needs: [settingsModule],
  open({ cipher, programs: { environment }, registry, webhooks }, use) {
    const jobs = new McpOAuthJobs((request, signal) => testMcpServer(request, environment, signal))
    const mcpOAuth = new SavedMcpOAuthStates({
      settings: use(settingsModule),
      announce: (state) => void webhooks.postOAuthState(state),
    })
    return {
      handlers: mcpHandlers({ cipher, environment, jobs, registry }),
      conversations: { mcpOAuth },
      close: jobs,
    }
  },
})
