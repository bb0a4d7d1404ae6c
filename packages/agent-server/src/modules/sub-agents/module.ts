import { subAgentRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { subAgentHandlers } from './handlers.ts'

/** The agents that a conversation may give tasks to. */
export const subAgentsModule = defineModule({
  name: 'sub-agents',
  routes: subAgentRoutes,
  open: ({ config, programs, host: { log } }) => ({
    handlers: subAgentHandlers({
      homeDirectory: programs.environment.HOME,
      hasBrowser: !config.browser.isOff,
      log,
    }),
  }),
})
