import * as z from 'zod'
import { emptyAsUndefined, eventFilter, eventSearchQuery, queryFlag } from '../../core/query.ts'
import {
  cachedPageResponses,
  conditionalHeaders,
  countResponses,
  listed,
  ok,
  successResponses,
} from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { queryCursor } from '../../events/cursor.ts'
import { event, eventPage } from '../../events/event.ts'
import {
  confirmationResponseRequest,
  conversationParams,
  runLimitResponses,
  sendMessageRequest,
} from './conversation.ts'

const eventIds = z.array(z.string()).optional().meta({ description: 'Ids of events, repeated.' })

export const eventRoutes = defineRoutes('events', {
  searchEvents: route.get('/api/conversations/{conversation_id}/events/search', {
    compressed: true,
    scope: 'read',
    summary: 'Search the events of a conversation',
    params: conversationParams,
    query: eventSearchQuery,
    headers: conditionalHeaders,
    responses: cachedPageResponses(eventPage),
  }),
  countEvents: route.get('/api/conversations/{conversation_id}/events/count', {
    scope: 'read',
    summary: 'Count the events of a conversation',
    params: conversationParams,
    query: eventFilter,
    responses: countResponses,
  }),
  streamEvents: route.get('/api/conversations/{conversation_id}/events/stream', {
    scope: 'read',
    summary: 'Follow the events of a conversation',
    description:
      'Server-sent events: id is the cursor, <position>.<digest>, and data the event. Each event once, in order, from the one after the given cursor, first what is stored, then what comes. Last-Event-ID goes before after. A cursor of another history of the log is answered by an event named resync, and by everything after the position that it names.',
    params: conversationParams,
    headers: { 'Last-Event-ID': 'The cursor to continue after; it counts more than `after`.' },
    query: z.object({
      after: queryCursor.optional().meta({
        description: 'The last cursor seen. With a bare position the ids are positions.',
      }),
      until: emptyAsUndefined(z.enum(['idle'])).meta({
        description: 'idle: end when all is sent and nothing runs.',
      }),
      hints: queryFlag.meta({
        description:
          'Also send what is not stored, as events named hint without an id: pieces of an answer on its way, and what was used. A slow reader misses some.',
      }),
    }),
    responses: { 200: { description: 'The stream.', contentType: 'text/event-stream' } },
  }),
  getEvents: route.get('/api/conversations/{conversation_id}/events', {
    compressed: true,
    scope: 'read',
    summary: 'Get events by id',
    description:
      'Ids come in the query, or as a JSON array in the body for clients that can send one with GET.',
    params: conversationParams,
    query: z.object({ ids: eventIds, event_ids: eventIds }),
    body: z.array(z.string()).optional(),
    responses: listed(event),
  }),
  sendMessage: route.post('/api/conversations/{conversation_id}/events', {
    scope: 'act',
    summary: 'Send a message to a conversation',
    description:
      'Answers when the message is durable. With an Idempotency-Key header a repeat is stored once.',
    params: conversationParams,
    headers: { 'Idempotency-Key': 'A repeat with this key is stored once; 1 to 255 characters.' },
    body: sendMessageRequest,
    responses: {
      ...successResponses,
      409: { description: 'The idempotency key was used with another message.' },
      429: { description: 'The message is stored, but no more conversations may run at the moment.' },
    },
    example: { content: [{ type: 'text', text: 'Now fix what you found' }], run: true },
  }),
  respondToConfirmation: route.post('/api/conversations/{conversation_id}/events/respond_to_confirmation', {
    scope: 'answer',
    summary: 'Accept or reject the actions that wait',
    description: 'An answer where nothing waits changes nothing, unless it names actions or their digest.',
    params: conversationParams,
    body: confirmationResponseRequest,
    responses: {
      ...successResponses,
      409: { description: 'Other actions wait than those that the answer names, or none.' },
      ...runLimitResponses,
    },
    example: { accept: false, reason: 'Nothing may be deleted.' },
  }),
  getEvent: route.get('/api/conversations/{conversation_id}/events/{event_id}', {
    scope: 'read',
    summary: 'Get an event',
    params: conversationParams.extend({ event_id: z.string() }),
    responses: ok('The event.', event),
  }),
})
