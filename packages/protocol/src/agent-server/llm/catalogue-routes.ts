import * as z from 'zod'
import { emptyAsUndefined } from '../../core/query.ts'
import type { RouteTable } from '../../core/route.ts'

const tag = 'llm'
const vendor = z.literal('openai')
const subscriptionStatus = z
  .object({
    vendor,
    connected: z.boolean(),
    account_email: z.string().nullable(),
    expires_at: z.int().nullable().meta({ description: 'Milliseconds since 1970.' }),
  })
  .meta({ id: 'SubscriptionStatus' })
const statusResponse = { description: 'The state of the sign-in.', schema: subscriptionStatus }

/** What models there are. The subscription routes answer that nobody is signed in: this server asks models with keys. */
export const llmCatalogueRoutes = {
  listLlmProviders: {
    method: 'GET',
    path: '/api/llm/providers',
    tag,
    summary: 'List the providers of models that can be named in front of a model',
    responses: {
      200: {
        description: 'Sorted.',
        schema: z.object({ providers: z.array(z.string()) }).meta({ id: 'ProvidersResponse' }),
      },
    },
  },
  listLlmModels: {
    method: 'GET',
    path: '/api/llm/models',
    tag,
    summary: 'List the models that are known by name',
    description: 'Each as it can stand in `llm.model`. Others can be used as well.',
    query: z.object({
      provider: emptyAsUndefined(z.string()).meta({ description: 'Only those of one provider.' }),
    }),
    responses: {
      200: {
        description: 'Sorted.',
        schema: z.object({ models: z.array(z.string()) }).meta({ id: 'ModelsResponse' }),
      },
    },
  },
  listVerifiedModels: {
    method: 'GET',
    path: '/api/llm/models/verified',
    tag,
    summary: 'List the models to offer first',
    responses: {
      200: {
        description: 'By provider, the best first; without the provider in front.',
        schema: z
          .object({ models: z.record(z.string(), z.array(z.string())) })
          .meta({ id: 'VerifiedModelsResponse' }),
      },
    },
  },
  listSubscriptionModels: {
    method: 'GET',
    path: '/api/llm/subscription/openai/models',
    tag,
    summary: 'List the models of a subscription',
    responses: {
      200: {
        description: 'None.',
        schema: z.object({ vendor, models: z.array(z.string()) }).meta({ id: 'SubscriptionModels' }),
      },
    },
  },
  getSubscriptionStatus: {
    method: 'GET',
    path: '/api/llm/subscription/openai/status',
    tag,
    summary: 'Is a subscription signed in?',
    responses: { 200: statusResponse },
  },
  startSubscriptionLogin: {
    method: 'POST',
    path: '/api/llm/subscription/openai/device/start',
    tag,
    summary: 'Begin to sign in with a subscription',
    responses: { 400: { description: 'This server asks models with keys only.' } },
  },
  pollSubscriptionLogin: {
    method: 'POST',
    path: '/api/llm/subscription/openai/device/poll',
    tag,
    summary: 'Go on to sign in with a subscription',
    body: z.object({ device_code: z.string() }).meta({ id: 'SubscriptionDevicePollRequest' }),
    responses: { 200: statusResponse, 404: { description: 'No such sign-in is under way.' } },
  },
  endSubscription: {
    method: 'POST',
    path: '/api/llm/subscription/openai/logout',
    tag,
    summary: 'Sign out of a subscription',
    responses: { 200: statusResponse },
  },
} as const satisfies RouteTable
