import * as z from 'zod'
import { emptyAsUndefined } from '../../core/query.ts'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'

const vendor = z.literal('openai')
const subscriptionStatus = component('SubscriptionStatus', {
  vendor,
  connected: z.boolean(),
  account_email: z.string().nullable(),
  expires_at: z.int().nullable().meta({ description: 'Milliseconds since 1970.' }),
})
const statusResponse = { description: 'The state of the sign-in.', schema: subscriptionStatus }

/** The available models, and the sign-in to a subscription that has some. */
export const llmCatalogueRoutes = defineRoutes('llm', {
  listLlmProviders: route.get('/api/llm/providers', {
    summary: 'List the providers of models that can be named in front of a model',
    responses: ok('Sorted.', component('ProvidersResponse', { providers: z.array(z.string()) })),
  }),
  listLlmModels: route.get('/api/llm/models', {
    compressed: true,
    summary: 'List the models that are known by name',
    description: 'Each as it can stand in `llm.model`. Others can be used as well.',
    query: z.object({
      provider: emptyAsUndefined(z.string()).meta({ description: 'Only those of one provider.' }),
    }),
    responses: ok('Sorted.', component('ModelsResponse', { models: z.array(z.string()) })),
  }),
  listVerifiedModels: route.get('/api/llm/models/verified', {
    compressed: true,
    summary: 'List the models to offer first',
    responses: ok(
      'By provider, the best first; without the provider in front.',
      component('VerifiedModelsResponse', { models: z.record(z.string(), z.array(z.string())) }),
    ),
  }),
  listSubscriptionModels: route.get('/api/llm/subscription/openai/models', {
    summary: 'List the models of a subscription',
    responses: ok(
      'Sorted; none where no one can sign in.',
      component('SubscriptionModels', { vendor, models: z.array(z.string()) }),
    ),
  }),
  getSubscriptionStatus: route.get('/api/llm/subscription/openai/status', {
    summary: 'Is a subscription signed in?',
    responses: { 200: statusResponse },
  }),
  startSubscriptionLogin: route.post('/api/llm/subscription/openai/device/start', {
    summary: 'Begin to sign in with a subscription',
    responses: {
      ...ok(
        'What the user enters, and where.',
        component('SubscriptionDeviceStart', {
          device_code: z.string().meta({ description: 'For polls.' }),
          user_code: z.string(),
          verification_uri: z.string(),
          verification_uri_complete: z.string().nullable(),
          expires_at: z.int().meta({ description: 'Milliseconds since 1970.' }),
          interval_seconds: z.int(),
        }),
      ),
      400: { description: 'This server has no client id for it.' },
      409: { description: 'Too many sign-ins are under way.' },
      502: { description: 'The provider gives no code.' },
    },
  }),
  pollSubscriptionLogin: route.post('/api/llm/subscription/openai/device/poll', {
    summary: 'Continue to sign in with a subscription',
    body: component('SubscriptionDevicePollRequest', { device_code: z.string() }),
    responses: {
      200: statusResponse,
      404: { description: 'No such sign-in is under way.' },
      502: { description: 'The provider is away; the code still waits.' },
    },
  }),
  endSubscription: route.post('/api/llm/subscription/openai/logout', {
    summary: 'Sign out of a subscription',
    responses: { 200: statusResponse },
  }),
})
