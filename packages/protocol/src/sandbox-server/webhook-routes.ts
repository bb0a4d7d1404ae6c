import * as z from 'zod'
import { success } from '../agent-server/conversations/conversation.ts'
import { eventFilter, eventSearchQuery, queryFlag, queryText } from '../core/query.ts'
import type { RouteTable } from '../core/route.ts'
import { uuid } from '../core/schemas.ts'
import { event, eventPage } from '../events/event.ts'

const conversationParams = z.object({ conversation_id: uuid })
const tag = 'history'
const kindQuery = queryText.meta({ description: 'Keep only events of this kind.' })
const filterQuery = eventFilter.extend({ kind__eq: kindQuery, source__eq: queryText })
const searchQuery = eventSearchQuery.extend({ kind__eq: kindQuery, source__eq: queryText })
const eventIds = z
  .array(z.string())
  .min(1)
  .max(100)
  .meta({ description: 'Ids of events, repeated; at most 100.' })
const successResponses = { 200: { description: 'Stored, or stored before.', schema: success } }
const pageResponses = { 200: { description: 'One page.', schema: eventPage } }
const countResponses = { 200: { description: 'Their number.', schema: z.int() } }
const eventsResponses = {
  200: { description: 'In the order asked for, null for the missing.', schema: z.array(event.nullable()) },
}

/** Events that came home: what the control plane keeps of conversations, whatever became of their sandboxes. */
export const webhookRoutes = {
  searchHomeEvents: {
    method: 'GET',
    path: '/api/v1/conversation/{conversation_id}/events/search',
    tag,
    summary: 'Search the events of a conversation',
    description: 'Empty for a conversation that is not yours.',
    params: conversationParams,
    query: searchQuery,
    responses: pageResponses,
  },
  countHomeEvents: {
    method: 'GET',
    path: '/api/v1/conversation/{conversation_id}/events/count',
    tag,
    summary: 'Count the events of a conversation',
    params: conversationParams,
    query: filterQuery,
    responses: countResponses,
  },
  getHomeEvents: {
    method: 'GET',
    path: '/api/v1/conversation/{conversation_id}/events',
    tag,
    summary: 'Get events by id',
    params: conversationParams,
    query: z.object({ id: eventIds }),
    responses: eventsResponses,
  },
  exportHomeEvents: {
    method: 'GET',
    path: '/api/v1/conversation/{conversation_id}/events/export',
    tag,
    summary: 'Export the events of a conversation, one a line',
    params: conversationParams,
    query: z.object({ gzip: queryFlag, meta: queryFlag }),
    responses: {
      200: { description: 'The log.', contentType: ['application/x-ndjson', 'application/gzip'] },
    },
  },
  searchHomeEventsPlural: {
    method: 'GET',
    path: '/api/v1/conversations/{conversation_id}/events/search',
    tag,
    summary: 'The same under the plural',
    params: conversationParams,
    query: searchQuery,
    responses: pageResponses,
  },
  countHomeEventsPlural: {
    method: 'GET',
    path: '/api/v1/conversations/{conversation_id}/events/count',
    tag,
    summary: 'The same under the plural',
    params: conversationParams,
    query: filterQuery,
    responses: countResponses,
  },
  receiveConversation: {
    method: 'POST',
    path: '/api/v1/webhooks/conversations',
    tag: 'webhooks',
    summary: 'An agent server tells what became of a conversation',
    audit: false,
    description: 'With the session key of its sandbox in X-Session-API-Key.',
    body: z.looseObject({ id: uuid }).meta({ id: 'ReceivedConversation' }),
    responses: successResponses,
  },
  receiveEvents: {
    method: 'POST',
    path: '/api/v1/webhooks/events/{conversation_id}',
    tag: 'webhooks',
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
  },
} as const satisfies RouteTable
