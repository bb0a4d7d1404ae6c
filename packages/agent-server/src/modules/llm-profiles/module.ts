import { loadOpenModel } from '@slipway/agent'
import { acpRoutes, llmCatalogueRoutes, llmProfileRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { controlPlaneFetch } from '../../core/secrets/control-plane-fetch.ts'
import { settingsModule } from '../settings/module.ts'
import { acpModelHandlers } from './acp-models.ts'
import { llmCatalogueHandlers } from './catalogue-handlers.ts'
import { llmProfileHandlers } from './handlers.ts'
import { LlmProfiles, type ProfileLinks } from './llm-profiles.ts'
import { SubscriptionLogin } from './subscription-login.ts'

export type { ConnectionCredentials, LlmProfiles, ProfileReferences } from './llm-profiles.ts'

/** Saved models, the catalogue of providers and the sign-in to a subscription. */
export const llmProfilesModule = defineModule({
  name: 'llm-profiles',
  routes: { ...llmProfileRoutes, ...llmCatalogueRoutes, ...acpRoutes },
  needs: [settingsModule],
  open({ config, documents, cipher, secrets, programs, parts, host: { log } }, use) {
    const links: ProfileLinks = {}
    const profiles = new LlmProfiles({
      documents,
      cipher,
      max: config.maxProfiles,
      settings: use(settingsModule),
      links,
    })
    const subscription = new SubscriptionLogin({
      documents,
      cipher,
      ...config.subscription,
    })
    return {
      handlers: {
        ...llmProfileHandlers({
          ...{ profiles, subscription, cipher, log },
          loadOpenModel: async () => parts.wrapModel(await loadOpenModel()),
        }),
        ...llmCatalogueHandlers({ subscription }),
        ...acpModelHandlers({
          ...{ cipher, ...programs, serverSecrets: secrets },
          lookupFetch: controlPlaneFetch(config),
        }),
      },
      conversations: { models: profiles, wrapModel: (open) => subscription.wrap(open) },
      offer: { profiles, links },
    }
  },
})
