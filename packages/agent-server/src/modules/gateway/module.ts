import { join } from 'node:path'
import { gatewayRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { settingsModule } from '../settings/module.ts'
import { Gateway } from './gateway.ts'
import { gatewayHandlers } from './handlers.ts'

/** Conversations for programs that know only models and messages. */
export const gatewayModule = defineModule({
  name: 'gateway',
  routes: gatewayRoutes,
  needs: [settingsModule],
  open({ config, directories, creation, host: { clock } }, use) {
    const settings = use(settingsModule)
    const gateway = new Gateway({
      createDeps: creation,
      readConfirmation: () => settings.getConfirmation(),
      directory: join(directories.files, 'gateway'),
      timeoutMs: config.gatewayTimeoutMs,
      clock,
    })
    return { handlers: gatewayHandlers({ gateway, heartbeatMs: config.heartbeatMs }) }
  },
})
