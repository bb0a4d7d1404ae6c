import { loadCatalogue } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import type { llmCatalogueRoutes } from '@slipway/protocol'
import type { SubscriptionLogin } from './subscription-login.ts'

export function llmCatalogueHandlers(options: {
  readonly subscription: SubscriptionLogin
}): Handlers<typeof llmCatalogueRoutes> {
  const { subscription } = options
  return {
    listLlmProviders: async () => ({ json: { providers: (await loadCatalogue()).providers() } }),
    async listLlmModels({ query: { provider } }) {
      return { json: { models: (await loadCatalogue()).models(provider) } }
    },
    listVerifiedModels: async () => ({ json: { models: (await loadCatalogue()).verified() } }),
    async listSubscriptionModels() {
      const all = subscription.isConfigured ? (await loadCatalogue()).models('openai') : []
      const names = all.map((model) => model.replace(/^openai\//, ''))
      const models = [...new Set(names.filter((name) => /^gpt-5(?!.*(?:chat|search))/.test(name)))].sort()
      return { json: { vendor: 'openai', models } }
    },
    getSubscriptionStatus: async () => ({ json: await subscription.status() }),
    startSubscriptionLogin: async () => ({ json: await subscription.start() }),
    pollSubscriptionLogin: async ({ body }) => ({ json: await subscription.poll(body.device_code) }),
    endSubscription: async () => ({ json: await subscription.logout() }),
  }
}
