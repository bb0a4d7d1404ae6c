import * as z from 'zod'
import { agentSettingsForm, conversationSettingsForm } from '../agent-server/settings/routes.ts'
import { pageQuery, queryBoolean, queryText } from '../core/query.ts'
import { ok } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { component, pageOf } from '../core/schemas.ts'

const providerOffer = component('ProviderOffer', {
  name: z.string().meta({ description: 'The prefix of its models.' }),
  verified: z.boolean(),
})

const modelOffer = component('ModelOffer', {
  provider: z.string().nullable(),
  name: z.string().meta({ description: 'Without the prefix.' }),
  verified: z.boolean().meta({ description: 'One of those to offer first.' }),
  hidden: z.boolean(),
  canonical: z.string().nullable(),
})

export const skillOffer = component('SkillOffer', {
  name: z.string(),
  type: z.string(),
  source: z.string(),
  triggers: z.array(z.string()).nullable(),
})

const offerQuery = pageQuery.extend({
  query: queryText.meta({ description: 'A part of the name, in any case.' }),
  verified__eq: queryBoolean.optional(),
})

/** What a client can offer to a user: forms, models, skills and agents. */
export const offerRoutes = defineRoutes(
  'offers',
  {
    describeAgentSettings: route.get('/api/v1/settings/agent-schema', agentSettingsForm),
    describeConversationSettings: route.get('/api/v1/settings/conversation-schema', conversationSettingsForm),
    searchModels: route.get('/api/v1/config/models/search', {
      compressed: true,
      summary: 'List known models in pages',
      query: offerQuery.extend({ provider__eq: queryText }),
      responses: ok('One page.', pageOf(modelOffer).meta({ id: 'ModelOfferPage' })),
    }),
    searchProviders: route.get('/api/v1/config/providers/search', {
      summary: 'List the providers of models in pages',
      query: offerQuery,
      responses: ok('One page.', pageOf(providerOffer).meta({ id: 'ProviderOfferPage' })),
    }),
    searchSkills: route.get('/api/v1/skills/search', {
      compressed: true,
      summary: 'List the skills that the server itself has: none',
      description:
        'Skills belong to agent servers and repositories: those of a conversation are at `…/skills`.',
      query: pageQuery,
      responses: ok('One page.', pageOf(skillOffer).meta({ id: 'SkillOfferPage' })),
    }),
    listUserAgents: route.get('/api/agent-profiles', {
      summary: 'List the agents that a user has saved: none',
      description: 'Agent profiles belong to agent servers; here a conversation has the model of its user.',
      responses: ok('None.', z.object({ profiles: z.array(z.never()), active_agent_profile_id: z.null() })),
    }),
  },
  { access: 'user' },
)
