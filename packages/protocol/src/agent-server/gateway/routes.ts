import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { chatCompletion, chatRequest, gatewayModel, modelList } from './chat-completion.ts'
import {
  deletedResponse,
  getResponseQuery,
  inputItemList,
  inputItemsQuery,
  responseParams,
  responsesRequest,
  responsesResponse,
} from './responses.ts'

/** The key may come as a bearer, and errors have the form of OpenAI's interface. */
const openai = { bearer: true, errors: 'openai' } as const
const unknownResponse = { 404: { description: 'There is no such response.' } }

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
      'Begins a conversation, or continues from previous_response_id; X-OpenHands-ServerConversation-ID of the answer names it. A response is a part of the log of its conversation: it can be read and continued as long as the log is there. With stream the answer comes as server-sent events. Errors have a member error besides detail.',
    ...openai,
    body: responsesRequest,
    responses: {
      200: { description: 'The answer, when the run is over.', schema: responsesResponse },
      400: { description: 'There is no message of the user, or a member asks for what is not done.' },
      404: { description: 'There is no such model.' },
      409: { description: 'The earlier response is in progress, or the run was paused or asks.' },
      500: { description: 'The run ended in an error, or the agent is stuck.' },
      504: { description: 'The run takes longer than 120 seconds. It continues.' },
    },
  }),
  getModel: route.get('/v1/models/{model}', {
    summary: 'Get a model',
    ...openai,
    params: z.object({ model: z.string() }),
    responses: { ...ok('The model.', gatewayModel), 404: { description: 'There is no such model.' } },
  }),
  getResponse: route.get('/v1/responses/{response_id}', {
    summary: 'Get a response',
    ...openai,
    params: responseParams,
    query: getResponseQuery,
    responses: {
      ...ok('As it is now.', responsesResponse),
      400: { description: 'It is to be streamed.' },
      ...unknownResponse,
    },
  }),
  deleteResponse: route.delete('/v1/responses/{response_id}', {
    summary: 'Delete a response',
    description:
      'With the last response of a conversation its log goes too. While others build on the response, their log keeps its events.',
    ...openai,
    params: responseParams,
    responses: {
      ...ok('It is gone.', deletedResponse),
      ...unknownResponse,
      409: { description: 'It is in progress.' },
    },
  }),
  cancelResponse: route.post('/v1/responses/{response_id}/cancel', {
    summary: 'Cancel a response that is in progress',
    ...openai,
    params: responseParams,
    responses: {
      ...ok('The response, cancelled.', responsesResponse),
      400: { description: 'It is over.' },
      ...unknownResponse,
    },
  }),
  listInputItems: route.get('/v1/responses/{response_id}/input_items', {
    summary: 'List the input of a response',
    ...openai,
    params: responseParams,
    query: inputItemsQuery,
    responses: { ...ok('The items.', inputItemList), ...unknownResponse },
  }),
})
