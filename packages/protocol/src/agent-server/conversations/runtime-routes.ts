import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { conversationParams, runtimeInfo } from './conversation.ts'

const runtimeResponses = ok('Its state.', runtimeInfo)

/** Where a conversation runs. */
export const runtimeRoutes = defineRoutes('conversations', {
  getRuntime: route.get('/api/conversations/{conversation_id}/runtime', {
    summary: 'Is the place where a conversation runs there?',
    params: conversationParams,
    responses: runtimeResponses,
  }),
  reprovisionRuntime: route.post('/api/conversations/{conversation_id}/runtime/reprovision', {
    summary: 'Make the place where a conversation runs again',
    description: 'Conversations run in this server, so there is nothing to do.',
    params: conversationParams,
    responses: runtimeResponses,
  }),
})
