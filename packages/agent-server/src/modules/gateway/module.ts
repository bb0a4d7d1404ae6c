import { join } from 'node:path'
import { gatewayRoutes } from '@slipway/protocol'
import { removeConversation } from '../../core/conversations/lifecycle/remove.ts'
import { defineModule } from '../../core/module.ts'
import { settingsModule } from '../settings/module.ts'
import { Gateway } from './gateway.ts'
import { chatHandlers } from './handlers.ts'
import { responseHandlers } from './response-handlers.ts'

/** Conversations for programs that know only models and messages. */
export const gatewayModule = defineModule({
  name: 'gateway',
  routes: gatewayRoutes,
  needs: [settingsModule],
  async open(
    { config, directories, creation, infoReader, webhooks, storage, registry, host: { clock } },
    use,
  ) {
    const settings = use(settingsModule)
    const remove = (id: string) => removeConversation({ ...creation, infoReader, webhooks }, id)
    const gateway = new Gateway({
      createDeps: creation,
      readConfirmation: () => settings.getConfirmation(),
      directory: join(directories.files, 'gateway'),
      removeConversation: remove,
      timeoutMs: config.gatewayTimeoutMs,
      clock,
    })
    await gateway.removeLeftovers()
    const { heartbeatMs } = config
    const deps = { gateway, storage, registry, removeConversation: remove, heartbeatMs, clock }
    return { handlers: { ...chatHandlers({ gateway, heartbeatMs }), ...responseHandlers(deps) } }
  },
})
