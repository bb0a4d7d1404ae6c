import { loadCatalogue } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import { type llmCatalogueRoutes, Problem } from '@slipway/protocol'

/** This server uses API keys, not subscriptions. */
const signedOut = { vendor: 'openai', connected: false, account_email: null, expires_at: null }

export function llmCatalogueHandlers(): Handlers<typeof llmCatalogueRoutes> {
  return {
    listLlmProviders: async () => ({ json: { providers: (await loadCatalogue()).providers() } }),
    async listLlmModels({ query: { provider } }) {
      return { json: { models: (await loadCatalogue()).models(provider) } }
    },
    listVerifiedModels: async () => ({ json: { models: (await loadCatalogue()).verified() } }),
    listSubscriptionModels: () => ({ json: { vendor: 'openai', models: [] } }),
    getSubscriptionStatus: () => ({ json: signedOut }),
    startSubscriptionLogin: () => {
      throw new Problem('bad_request', 'This server uses API keys: it cannot sign in with a subscription')
    },
    pollSubscriptionLogin: () => {
      throw new Problem('not_found', 'No such sign-in is in progress')
    },
    endSubscription: () => ({ json: signedOut }),
  }
}
