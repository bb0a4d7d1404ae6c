import type { Handlers } from '@slipway/http'
import { agentSettingsSchema, conversationSettingsSchema, type sandboxServerRoutes } from '@slipway/protocol'
import { pageOfList } from '@slipway/storage/control-plane'
import knownModels from './known-models.json' with { type: 'json' }

interface KnownModels {
  readonly verified: readonly string[]
  readonly models: readonly string[]
}

/** Printed by `scripts/print-providers.ts`. */
const providers = Object.entries<KnownModels>(knownModels).map(([provider, { verified, models }]) => ({
  name: provider,
  verified: verified.length > 0,
  models: models.map((name) => ({
    ...{ provider, name, verified: verified.includes(name) },
    ...{ hidden: false, canonical: null },
  })),
}))

/** What a client can offer to a user before there is a conversation. */
export function offerHandlers() {
  return {
    describeAgentSettings: () => ({ json: agentSettingsSchema() }),
    describeConversationSettings: () => ({ json: conversationSettingsSchema() }),
    searchModels({ query }) {
      const { provider__eq: provider } = query
      const offers = providers
        .filter(({ name }) => provider === undefined || name === provider)
        .flatMap(({ models }) => models.filter((model) => isWanted(model, query)))
      return { json: pageOfList(offers, (offer) => `${offer.provider}/${offer.name}`, query) }
    },
    searchProviders({ query }) {
      const offers = providers
        .filter((provider) => isWanted(provider, query))
        .map(({ name, verified }) => ({ name, verified }))
        .sort((a, b) => Number(b.verified) - Number(a.verified))
      return { json: pageOfList(offers, ({ name }) => name, query) }
    },
    searchSkills: () => ({ json: { items: [], next_page_id: null } }),
    listUserAgents: () => ({ json: { profiles: [], active_agent_profile_id: null } }),
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

function isWanted(
  offer: { readonly name: string; readonly verified: boolean },
  query: { readonly query?: string | undefined; readonly verified__eq?: boolean | undefined },
): boolean {
  const { query: text = '', verified__eq: verified = offer.verified } = query
  return offer.verified === verified && offer.name.toLowerCase().includes(text.toLowerCase())
}
