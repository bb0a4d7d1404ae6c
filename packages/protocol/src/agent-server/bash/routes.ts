import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import {
  bashCommand,
  bashEvent,
  bashEventPage,
  bashId,
  bashOutput,
  bashSearchQuery,
  executeBashRequest,
} from './bash.ts'

const tooManyResponses = { 429: { description: 'Too many commands run already.' } }

/** Commands outside of conversations. */
export const bashRoutes = {
  startBashCommand: {
    method: 'POST',
    path: '/api/bash/start_bash_command',
    tag: 'bash',
    summary: 'Start a command',
    description: 'Answers at once; the output is found by a search with command_id__eq.',
    body: executeBashRequest,
    responses: { 200: { description: 'It was started.', schema: bashCommand }, ...tooManyResponses },
  },
  executeBashCommand: {
    method: 'POST',
    path: '/api/bash/execute_bash_command',
    tag: 'bash',
    summary: 'Run a command to its end',
    description: 'The whole output in one piece. A caller that goes away does not end the command.',
    body: executeBashRequest,
    responses: { 200: { description: 'It is over.', schema: bashOutput }, ...tooManyResponses },
  },
  searchBashEvents: {
    method: 'GET',
    path: '/api/bash/bash_events/search',
    tag: 'bash',
    summary: 'Search commands and their output',
    description: 'A page of very long outputs ends before its limit; next_page_id says that there is more.',
    query: bashSearchQuery,
    responses: { 200: { description: 'One page.', schema: bashEventPage } },
  },
  getBashEvents: {
    method: 'GET',
    path: '/api/bash/bash_events',
    tag: 'bash',
    summary: 'Get bash events by id',
    description:
      'Ids come in the query, or as a JSON array in the body for clients that can send one with GET.',
    query: z.object({
      ids: z.array(z.string()).optional().meta({ description: 'Ids of events, repeated.' }),
    }),
    body: z.array(z.string()).max(100).optional(),
    responses: {
      200: {
        description: 'In the order asked for, null for the missing.',
        schema: z.array(bashEvent.nullable()),
      },
    },
  },
  clearBashEvents: {
    method: 'DELETE',
    path: '/api/bash/bash_events',
    tag: 'bash',
    summary: 'Forget the commands that are over, with their output',
    responses: {
      200: { description: 'How many events were removed.', schema: z.object({ cleared_count: z.int() }) },
    },
  },
  getBashEvent: {
    method: 'GET',
    path: '/api/bash/bash_events/{event_id}',
    tag: 'bash',
    summary: 'Get a bash event',
    params: z.object({ event_id: bashId }),
    responses: { 200: { description: 'The event.', schema: bashEvent } },
  },
} as const satisfies RouteTable
