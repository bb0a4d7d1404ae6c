import { toolRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { toolHandlers } from './handlers.ts'

/** The tools that an agent may have. */
export const toolsModule = defineModule({
  name: 'tools',
  routes: toolRoutes,
  capabilities: ['tool_catalog_v1'],
  open: ({ config }) => ({ handlers: toolHandlers(config.browser) }),
})
