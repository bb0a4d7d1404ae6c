import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { chatCompletion, chatRequest, modelList } from './chat-completion.ts'
import { responsesRequest, responsesResponse } from './responses.ts'

/** Conversations by OpenAI's interface (wire 1.22). The key may come as `Authorization: Bearer`. */
export const gatewayRoutes = defineRoutes('gateway', {
  listModels: route.get('/v1/models', {
    summary: 'List the models: one for each profile',
    bearer: true,
    errors: 'openai',
    responses: ok('In order of name.', modelList),
  }),
  completeChat: route.post('/v1/chat/completions', {
    headers: {
      'X-OpenHands-ServerConversation-ID':
        'The conversation to continue with; an id that is not known yet makes it.',
    },
    summary: 'Say something to an agent and get its answer',
    description:
      'Begins a conversation with the model of a profile, or continues with the one that X-OpenHands-ServerConversation-ID names; the answer has its id in the same header. With stream the answer comes as server-sent events, what the agent says on the way as it says it, then [DONE]. Errors have a member error besides detail.',
    bearer: true,
    errors: 'openai',
    body: chatRequest,
    responses: {
      200: { description: 'The answer, when the run is over.', schema: chatCompletion },
      400: { description: 'There is no message of the user, or the profile cannot be used.' },
      404: { description: 'There is no such model.' },
      409: { description: 'The conversation runs, was paused, or waits for a confirmation.' },
      500: { description: 'The run ended in an error, or the agent is stuck.' },
      504: { description: 'The run takes longer than 120 seconds. It continues.' },
    },
  }),
  createResponse: route.post('/v1/responses', {
    summary: 'Say something to an agent and get its answer as a response',
    description:
      'Begins a conversation, which X-OpenHands-ServerConversation-ID of the answer names. Nothing is kept for a later request: send the earlier messages again. Errors have a member error besides detail.',
    bearer: true,
    errors: 'openai',
    body: responsesRequest,
    responses: {
      200: { description: 'The answer, when the run is over.', schema: responsesResponse },
      400: { description: 'There is no message of the user, or the request wants a stream or a store.' },
      404: { description: 'There is no such model.' },
      409: { description: 'The conversation was paused, or waits for a confirmation.' },
      500: { description: 'The run ended in an error, or the agent is stuck.' },
      504: { description: 'The run takes longer than 120 seconds. It continues.' },
    },
  }),
})
