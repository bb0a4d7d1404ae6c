import * as z from 'zod'
import {
  emptyAsUndefined,
  eventFilter,
  pageQuery,
  queryFlag,
  queryInteger,
  queryMoment,
  queryText,
} from '../core/query.ts'
import { ok } from '../core/responses.ts'
import { component, pageOf, timestamp } from '../core/schemas.ts'
import { event } from './event.ts'

/** What pages need of a log of a million events: its parts by position. Each answer takes bounded time. */

const maxPosition = 4_294_967_295
const position = queryInteger(1, maxPosition)
const positionOut = z.int().meta({ description: 'Of an event: 1, 2, 3, ...' })

export const eventRange = {
  compressed: true,
  summary: 'Events by position',
  description:
    'From the position `first`, or from the first event at or after the moment `at`. The item i has the position first + i. At most 4 MiB, with at least one event: continue behind the last item.',
  query: z.object({
    first: emptyAsUndefined(position),
    at: queryMoment.optional(),
    limit: queryInteger(1, 500).default(100),
  }),
  responses: ok(
    'The events.',
    component('EventRange', {
      first: positionOut,
      head: positionOut.meta({ description: 'The position of the last event; 0 for an empty log.' }),
      items: z.array(event),
    }),
  ),
} as const

export const eventsOverview = {
  compressed: true,
  summary: 'Counts of the events by position',
  description:
    'For a map of a long log. Counting continues with each request: while covered is below head, ask again. Buckets above it are missing.',
  query: z.object({ buckets: queryInteger(1, 1_000).default(200) }),
  responses: ok(
    'The counts.',
    component('EventsOverview', {
      head: positionOut,
      covered: positionOut,
      bucket_size: z.int(),
      buckets: z.array(
        component('EventsBucket', {
          first: positionOut,
          last: positionOut,
          started_at: timestamp,
          ended_at: timestamp,
          kinds: z.record(z.string(), z.int()),
          failed: z.int().meta({ description: 'Errors, and results that are errors.' }),
          gap_seconds: z
            .number()
            .meta({ description: 'The longest time between two events, from the one before.' }),
        }),
      ),
    }),
  ),
} as const

export const findEvents = {
  summary: 'Positions of events that match',
  description:
    'At or after `from`, or at or before it, the nearest first. An answer may have no position and a next_from: continue there.',
  query: eventFilter.extend({
    from: position.default(1),
    direction: z.enum(['next', 'previous']).default('next'),
    tool: queryText.meta({ description: 'Keep only calls of this tool and their results.' }),
    failed: queryFlag.meta({ description: 'Keep only errors, and results that are errors.' }),
    limit: queryInteger(1, 100).default(1),
  }),
  responses: ok(
    'The positions.',
    component('FoundEvents', {
      positions: z.array(positionOut),
      next_from: positionOut.nullable().meta({ description: 'Null: nothing more matches.' }),
    }),
  ),
} as const

/** The query of a search in the texts of many conversations, besides what selects these. */
export const textSearchQuery = z.object({
  body: z
    .string()
    .min(1)
    .max(1_000)
    .meta({ description: 'Find messages whose text contains this, in any case.' }),
  timestamp__gte: queryMoment.optional().meta({ description: 'Of messages at or after this moment.' }),
  timestamp__lt: queryMoment.optional().meta({ description: 'Of messages before this moment.' }),
  page_id: pageQuery.shape.page_id,
  limit: queryInteger(1, 100).default(20),
})

export const conversationTextHits = component('ConversationTextHits', {
  conversation_id: z.string(),
  title: z.string().nullable(),
  hits: z.array(
    component('TextHit', {
      position: positionOut,
      event_id: z.string(),
      timestamp: timestamp,
      source: z.string(),
      text: z.string().meta({ description: 'A part of the message.' }),
      match: z
        .array(z.int())
        .meta({ description: 'Begin and end of the hit in the text, in UTF-16 code units.' }),
    }),
  ),
})

export const textSearchDescription =
  'At most three messages of each conversation, the newest first. A page takes bounded time: it may be short or empty while next_page_id is not null.'
export const textSearchResponses = ok(
  'The conversations with hits.',
  pageOf(conversationTextHits).meta({ id: 'ConversationTextHitsPage' }),
)
