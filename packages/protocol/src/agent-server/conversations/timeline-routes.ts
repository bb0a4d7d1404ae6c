import { defineRoutes, route } from '../../core/route.ts'
import {
  eventRange,
  eventsOverview,
  findEvents,
  textSearchDescription,
  textSearchQuery,
  textSearchResponses,
} from '../../events/timeline.ts'
import { conversationFilter, conversationParams, conversationSearchQuery } from './conversation.ts'

/** Parts of long logs by position, and the texts of many logs. */
export const timelineRoutes = defineRoutes('timeline', {
  readEventRange: route.get('/api/conversations/{conversation_id}/events/range', {
    ...eventRange,
    params: conversationParams,
  }),
  eventsOverview: route.get('/api/conversations/{conversation_id}/events/overview', {
    ...eventsOverview,
    params: conversationParams,
  }),
  findEvents: route.get('/api/conversations/{conversation_id}/events/find', {
    ...findEvents,
    params: conversationParams,
  }),
  searchConversationTexts: route.get('/api/conversations/search_text', {
    summary: 'Search the texts of all conversations',
    description: textSearchDescription,
    query: conversationFilter.extend({
      ...textSearchQuery.shape,
      sort_order: conversationSearchQuery.shape.sort_order,
    }),
    responses: textSearchResponses,
  }),
})
