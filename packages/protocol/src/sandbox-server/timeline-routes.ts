import { conversationParams } from '../agent-server/conversations/conversation.ts'
import { defineRoutes, route } from '../core/route.ts'
import {
  eventRange,
  eventsOverview,
  findEvents,
  textSearchDescription,
  textSearchQuery,
  textSearchResponses,
} from '../events/timeline.ts'
import { appConversationFilter, appConversationSearchQuery } from './app-conversation.ts'

/** Parts of long logs by position, and the texts of many logs; those of others are empty. */
export const appTimelineRoutes = defineRoutes(
  'history',
  {
    readHomeEventRange: route.get('/api/v1/conversation/{conversation_id}/events/range', {
      ...eventRange,
      params: conversationParams,
    }),
    homeEventsOverview: route.get('/api/v1/conversation/{conversation_id}/events/overview', {
      ...eventsOverview,
      params: conversationParams,
    }),
    findHomeEvents: route.get('/api/v1/conversation/{conversation_id}/events/find', {
      ...findEvents,
      params: conversationParams,
    }),
    searchAppConversationTexts: route.get('/api/v1/app-conversations/search_text', {
      summary: 'Search the texts of all conversations of the caller',
      description: textSearchDescription,
      query: appConversationFilter.extend({
        ...textSearchQuery.shape,
        sort_order: appConversationSearchQuery.shape.sort_order,
      }),
      responses: textSearchResponses,
    }),
  },
  { access: 'user' },
)
