import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import {
  createProviderConnectionRequest,
  providerConnection,
  updateProviderConnectionRequest,
} from './provider-connection.ts'

const unreadableResponses = {
  400: { description: 'What is stored is damaged, or was sealed with another key.' },
}
const connectionParams = z.object({ connection_id: z.string() })

export const providerConnectionRoutes = defineRoutes('llm', {
  listProviderConnections: route.get('/api/llm/provider-connections', {
    summary: 'List the connections to providers of models',
    responses: {
      ...ok('All of them, the oldest first.', z.array(providerConnection)),
      ...unreadableResponses,
    },
  }),
  createProviderConnection: route.post('/api/llm/provider-connections', {
    summary: 'Make a connection to a provider of models',
    description: 'Profiles name it by its id and use its key and its address. The key is in no answer.',
    body: createProviderConnectionRequest,
    responses: {
      201: { description: 'The connection.', schema: providerConnection },
      409: { description: 'There are as many connections as there may be.' },
      ...unreadableResponses,
    },
  }),
  updateProviderConnection: route.patch('/api/llm/provider-connections/{connection_id}', {
    summary: 'Change a connection to a provider of models',
    params: connectionParams,
    body: updateProviderConnectionRequest,
    responses: { ...ok('The connection.', providerConnection), ...unreadableResponses },
  }),
  deleteProviderConnection: route.delete('/api/llm/provider-connections/{connection_id}', {
    summary: 'Delete a connection to a provider of models',
    params: connectionParams,
    responses: {
      200: { description: 'What it was.', schema: providerConnection },
      409: { description: 'A profile or the settings use it.' },
      ...unreadableResponses,
    },
  }),
})
