import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import {
  eventRange,
  eventsOverview,
  findEvents,
  textSearchDescription,
  textSearchQuery,
  textSearchResponses,
} from '../../events/timeline.ts'
import { conversationFilter, conversationParams, conversationSearchQuery } from './conversation.ts'

const position = z.int().min(1)
const modelView = component('ModelView', {
  head: z.int().meta({ description: 'The position of the last event that this follows from.' }),
  message_count: z.int(),
  estimated_tokens: z
    .int()
    .meta({ description: 'Of the messages, without tools; rather too high than too low.' }),
  ranges: z
    .array(z.object({ first: position, last: position }))
    .meta({ description: 'The events that the model sees, ascending.' }),
  shortened_positions: z
    .array(position)
    .meta({ description: 'Results among them that the model sees only shortened.' }),
  summaries: z
    .array(z.object({ position: position.meta({ description: 'Of the Condensation.' }), text: z.string() }))
    .meta({ description: 'What stands for events that the model no longer sees.' }),
  branches: z.array(z.object({ position, from_position: position.nullable() })).meta({
    description: 'Where the log continues from an earlier event, and from which; null: it begins again.',
  }),
})

/** Parts of long logs by position, and the texts of many logs. */
export const timelineRoutes = defineRoutes('timeline', {
  readEventRange: route.get('/api/conversations/{conversation_id}/events/range', {
    scope: 'read',
    ...eventRange,
    params: conversationParams,
  }),
  eventsOverview: route.get('/api/conversations/{conversation_id}/events/overview', {
    scope: 'read',
    ...eventsOverview,
    params: conversationParams,
  }),
  findEvents: route.get('/api/conversations/{conversation_id}/events/find', {
    scope: 'read',
    ...findEvents,
    params: conversationParams,
  }),
  getModelView: route.get('/api/conversations/{conversation_id}/view', {
    scope: 'read',
    summary: 'Get what the model sees',
    description:
      'Which events of the active branch the model still sees, and the summaries that stand for the others.',
    params: conversationParams,
    responses: ok('The view.', modelView),
  }),
  searchConversationTexts: route.get('/api/conversations/search_text', {
    compressed: true,
    scope: 'read',
    summary: 'Search the texts of all conversations',
    description: textSearchDescription,
    query: conversationFilter.extend({
      ...textSearchQuery.shape,
      sort_order: conversationSearchQuery.shape.sort_order,
    }),
    responses: textSearchResponses,
  }),
})
