import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component, jsonObject, nullAsUndefined, withDefault } from '../../core/schemas.ts'
import { acpModelInfo } from './acp-agent.ts'
import { secretSource } from './agent.ts'

/** External agents, before a conversation has one. */
export const acpRoutes = defineRoutes('acp', {
  discoverAcpModels: route.post('/api/acp/models', {
    summary: 'Ask an external agent for its models',
    description:
      'Starts the program of the settings, opens a session in an empty directory, and ends it. It gets the secrets of the request. A failure is an answer, and no conversation is made.',
    body: component('ACPModelsRequest', {
      agent_settings: jsonObject.meta({ description: 'Settings of an agent of kind `acp`.' }),
      secrets: nullAsUndefined(z.record(z.string(), secretSource)),
      refresh: withDefault(z.boolean(), false).meta({ description: 'The program is asked each time.' }),
    }),
    responses: ok(
      'The models, or why there are none.',
      component('ACPModelsResponse', {
        available_models: z.array(acpModelInfo),
        current_model_id: z.string().nullable(),
        error: component('ACPModelsError', { code: z.string(), detail: z.string() }).nullable(),
      }),
    ),
  }),
})
