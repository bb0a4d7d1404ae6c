import { providerConnectionRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { llmProfilesModule } from '../../modules/llm-profiles/module.ts'
import { settingsModule } from '../../modules/settings/module.ts'
import { providerConnectionHandlers } from './handlers.ts'
import { findConnectionUsers, ProviderConnections } from './provider-connections.ts'

/** Keys and addresses that saved models share. */
export const providerConnectionsModule = defineModule({
  name: 'provider-connections',
  routes: providerConnectionRoutes,
  needs: [settingsModule, llmProfilesModule],
  open({ documents, cipher }, use) {
    const { profiles, links } = use(llmProfilesModule)
    const settings = use(settingsModule)
    const connections = new ProviderConnections({
      documents,
      cipher,
      findUsers: async (id) => await findConnectionUsers(id, { profiles, settings }),
    })
    links.findConnection = (id) => connections.resolve(id)
    return { handlers: providerConnectionHandlers({ connections }) }
  },
})
