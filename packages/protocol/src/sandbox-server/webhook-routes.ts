import * as z from 'zod'
import { conversationParams } from '../agent-server/conversations/conversation.ts'
import { eventFilter, eventSearchQuery, queryFlag, queryText } from '../core/query.ts'
import {
  cachedPageResponses,
  conditionalHeaders,
  countResponses,
  listed,
  ok,
  success,
} from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { looseComponent, uuid } from '../core/schemas.ts'
import { event, eventPage } from '../events/event.ts'

const kindQuery = queryText.meta({ description: 'Keep only events of this kind.' })
const filterQuery = eventFilter.extend({ kind__eq: kindQuery, source__eq: queryText })
const searchQuery = eventSearchQuery.extend({ kind__eq: kindQuery, source__eq: queryText })
const eventIds = z
  .array(z.string())
  .min(1)
  .max(100)
  .meta({ description: 'Ids of events, repeated; at most 100.' })
const successResponses = ok('Stored, or stored before.', success)

/** Event history of conversations, independent of their sandboxes, and the webhooks that deliver it. */
export const webhookRoutes = defineRoutes(
  'history',
  {
    searchHomeEvents: route.get('/api/v1/conversation/{conversation_id}/events/search', {
      compressed: true,
      summary: 'Search the events of a conversation',
      description: 'Empty for a conversation that is not yours.',
      params: conversationParams,
      query: searchQuery,
      headers: conditionalHeaders,
      responses: cachedPageResponses(eventPage),
    }),
    countHomeEvents: route.get('/api/v1/conversation/{conversation_id}/events/count', {
      summary: 'Count the events of a conversation',
      params: conversationParams,
      query: filterQuery,
      responses: countResponses,
    }),
    getHomeEvents: route.get('/api/v1/conversation/{conversation_id}/events', {
      compressed: true,
      summary: 'Get events by id',
      params: conversationParams,
      query: z.object({ id: eventIds }),
      responses: listed(event),
    }),
    exportHomeEvents: route.get('/api/v1/conversation/{conversation_id}/events/export', {
      summary: 'Export the events of a conversation, one a line',
      params: conversationParams,
      query: z.object({ gzip: queryFlag, meta: queryFlag }),
      responses: {
        200: { description: 'The log.', contentType: ['application/x-ndjson', 'application/gzip'] },
      },
    }),
    searchHomeEventsPlural: route.get('/api/v1/conversations/{conversation_id}/events/search', {
      compressed: true,
      summary: 'The same under the plural',
      params: conversationParams,
      query: searchQuery,
      headers: conditionalHeaders,
      responses: cachedPageResponses(eventPage),
    }),
    countHomeEventsPlural: route.get('/api/v1/conversations/{conversation_id}/events/count', {
      summary: 'The same under the plural',
      params: conversationParams,
      query: filterQuery,
      responses: countResponses,
    }),
    receiveConversation: route.post('/api/v1/webhooks/conversations', {
      tag: 'webhooks',
      access: 'sandbox',
      summary: 'An agent server tells what became of a conversation',
      audit: false,
      description: 'With the session key of its sandbox in X-Session-API-Key.',
      body: looseComponent('ReceivedConversation', { id: uuid }),
      responses: successResponses,
    }),
    receiveEvents: route.post('/api/v1/webhooks/events/{conversation_id}', {
      headers: { 'X-Slipway-After': 'The position of the event before the first one.' },
      tag: 'webhooks',
      access: 'sandbox',
      summary: 'An agent server sends events',
      audit: false,
      description:
        'A JSON array of events in order. Answered when they are durable; events that are there already are not stored again. X-Slipway-After is the position before the first one: when that is not known here yet, the answer is 409 with the head that is.',
      params: conversationParams,
      stream: 'application/json',
      responses: {
        ...successResponses,
        409: { description: 'Events before these are missing here; head says from where on.' },
      },
    }),
  },
  { access: 'user' },
)
