import type { Handlers } from '@slipway/http'
import { agentSettingsSchema, conversationSettingsSchema, type sandboxServerRoutes } from '@slipway/protocol'
import { pageOfList } from '@slipway/storage/control-plane'

/** What a client can offer to a user before there is a conversation. */
export function offerHandlers() {
  return {
    describeAgentSettings: () => ({ json: agentSettingsSchema() }),
    describeConversationSettings: () => ({ json: conversationSettingsSchema() }),
    async searchModels({ query }) {
      const { query: text = '', provider__eq: provider, verified__eq: verified } = query
      const offers = (await listModels(provider)).filter(
        (offer) => isFound(offer.name, text) && (verified ?? offer.verified) === offer.verified,
      )
      return { json: pageOfList(offers, (offer) => `${offer.provider}/${offer.name}`, query) }
    },
    async searchProviders({ query }) {
      const { query: text = '', verified__eq: verified } = query
      const { catalogue } = await import('@slipway/agent/catalogue')
      const { providers, verified: listVerified } = catalogue()
      const verifiedNames = new Set(Object.keys(listVerified()))
      const offers = providers()
        .map((name) => ({ name, verified: verifiedNames.has(name) }))
        .filter((offer) => isFound(offer.name, text) && (verified ?? offer.verified) === offer.verified)
        .sort((a, b) => Number(b.verified) - Number(a.verified))
      return { json: pageOfList(offers, ({ name }) => name, query) }
    },
    searchSkills: () => ({ json: { items: [], next_page_id: null } }),
    listUserAgents: () => ({ json: { profiles: [], active_agent_profile_id: null } }),
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

async function listModels(provider: string | undefined) {
  const { catalogue } = await import('@slipway/agent/catalogue')
  const { models, verified } = catalogue()
  const first = verified()
  return models(provider).map((full) => {
    const prefix = full.slice(0, full.indexOf('/'))
    const name = full.slice(prefix.length + 1)
    return {
      provider: prefix,
      name,
      verified: first[prefix]?.includes(name) ?? false,
      hidden: false,
      canonical: null,
    }
  })
}

function isFound(name: string, text: string): boolean {
  return name.toLowerCase().includes(text.toLowerCase())
}
