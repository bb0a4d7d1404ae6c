import { repositoryConsentRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { repositoryConsentHandlers } from './handlers.ts'
import { RepositoryConsents } from './repository-consents.ts'

export { repositoryIssues } from './repository-consents.ts'

/** The user's decisions about what repositories bring. */
export const repositoryConsentsModule = defineModule({
  name: 'repository-consents',
  routes: repositoryConsentRoutes,
  open({ config, documents, cipher, registry }) {
    const consents = new RepositoryConsents({
      documents,
      cipher,
      trust: config.repositoryTrust,
    })
    return {
      handlers: repositoryConsentHandlers({ consents, registry }),
      conversations: { repositoryConsents: consents, repositoryDecisions: consents },
    }
  },
})
