import { settingsRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { settingsHandlers } from './handlers.ts'
import { ServerSettings } from './server-settings.ts'

export {
  type ServerSettings,
  withAgentLlm,
  withMetaProfile,
} from './server-settings.ts'

/** The settings of new conversations, and the secrets of the server. */
export const settingsModule = defineModule({
  name: 'settings',
  routes: settingsRoutes,
  open({ documents, cipher, secrets, parts, host: { log } }) {
    const settings = new ServerSettings({ documents, cipher })
    return { handlers: settingsHandlers({ settings, secrets, parts, cipher, log }), offer: settings }
  },
})
