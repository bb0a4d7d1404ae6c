import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import {
  createProviderConnectionRequest,
  providerConnection,
  updateProviderConnectionRequest,
} from './provider-connection.ts'

const tag = 'llm'
const connectionParams = z.object({ connection_id: z.string() })
const unreadableResponses = { 409: { description: 'What is kept cannot be read.' } }

export const providerConnectionRoutes = {
  listProviderConnections: {
    method: 'GET',
    path: '/api/llm/provider-connections',
    tag,
    summary: 'List the connections to providers of models',
    responses: {
      200: { description: 'All of them, the oldest first.', schema: z.array(providerConnection) },
      ...unreadableResponses,
    },
  },
  createProviderConnection: {
    method: 'POST',
    path: '/api/llm/provider-connections',
    tag,
    summary: 'Make a connection to a provider of models',
    description: 'Profiles name it by its id and use its key and its address. The key is in no answer.',
    body: createProviderConnectionRequest,
    responses: {
      201: { description: 'The connection.', schema: providerConnection },
      409: { description: 'There are as many connections as there may be, or what is kept cannot be read.' },
    },
  },
  updateProviderConnection: {
    method: 'PATCH',
    path: '/api/llm/provider-connections/{connection_id}',
    tag,
    summary: 'Change a connection to a provider of models',
    params: connectionParams,
    body: updateProviderConnectionRequest,
    responses: {
      200: { description: 'The connection.', schema: providerConnection },
      ...unreadableResponses,
    },
  },
  deleteProviderConnection: {
    method: 'DELETE',
    path: '/api/llm/provider-connections/{connection_id}',
    tag,
    summary: 'Delete a connection to a provider of models',
    params: connectionParams,
    responses: {
      200: { description: 'What it was.', schema: providerConnection },
      409: { description: 'A profile or the settings use it, or what is kept cannot be read.' },
    },
  },
} as const satisfies RouteTable
