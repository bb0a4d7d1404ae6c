import * as z from 'zod'
import {
  conversationId,
  conversationInfo,
  conversationPage,
  conversationSearchQuery,
  executionStatus,
  importResult,
  patchConversationRequest,
  sendMessageRequest,
  serverInfo,
  startConversationRequest,
  success,
} from './conversation.ts'
import { event, eventPage } from './event.ts'
import type { RouteTable } from './route.ts'
import { blankable, eventFilter, eventSearchQuery, queryFlag, queryInteger } from './search.ts'

const conversation = z.object({ conversation_id: conversationId })
const skills = z.object({
  include_skills: queryFlag.meta({ description: 'Show the skills of the agent context.' }),
})
const ids = z.array(z.string()).optional().meta({ description: 'Ids of events, repeated.' })
const done = { 200: { description: 'Done.', schema: success } }
const state = z.object({ status: z.string(), message: z.string().optional() })
const isUp = { 200: { description: 'It is.', schema: state } }
const lines = 'application/x-ndjson'

/** Every operation of the agent server. */
export const agentRoutes = {
  alive: {
    method: 'GET',
    path: '/alive',
    tag: 'health',
    summary: 'Is the process alive?',
    open: true,
    responses: isUp,
  },
  health: {
    method: 'GET',
    path: '/health',
    tag: 'health',
    summary: 'Is the server healthy?',
    open: true,
    responses: isUp,
  },
  ready: {
    method: 'GET',
    path: '/ready',
    tag: 'health',
    summary: 'May requests be sent?',
    open: true,
    responses: { ...isUp, 503: { description: 'Not yet.', schema: state } },
  },
  serverInfo: {
    method: 'GET',
    path: '/server_info',
    tag: 'health',
    summary: 'Versions, uptime and abilities of the server',
    open: true,
    responses: { 200: { description: 'What the server is.', schema: serverInfo } },
  },
  root: {
    method: 'GET',
    path: '/',
    tag: 'health',
    summary: 'The same as /server_info',
    open: true,
    responses: { 200: { description: 'What the server is.', schema: serverInfo } },
  },
  searchConversations: {
    method: 'GET',
    path: '/api/conversations/search',
    tag: 'conversations',
    summary: 'List conversations in pages',
    query: conversationSearchQuery.extend(skills.shape),
    responses: { 200: { description: 'One page.', schema: conversationPage } },
  },
  countConversations: {
    method: 'GET',
    path: '/api/conversations/count',
    tag: 'conversations',
    summary: 'Count conversations',
    query: z.object({ status: blankable(executionStatus) }),
    responses: { 200: { description: 'Their number.', schema: z.int() } },
  },
  importConversation: {
    method: 'POST',
    path: '/api/conversations/import',
    tag: 'conversations',
    summary: 'Import the log of a conversation',
    description:
      'The body is one event a line. All of them are stored, byte for byte, or none. A first line without kind names the conversation: {"conversation_id"?, "title"?, "tags"?}. A fault is answered with the number of its line.',
    query: z.object({
      unknown: blankable(z.enum(['keep'])).meta({
        description: 'keep: take events of other versions and kinds as they are.',
      }),
    }),
    stream: lines,
    responses: {
      201: { description: 'Every line is stored.', schema: importResult },
      409: { description: 'An id is taken by an event of other content, or another import is under way.' },
    },
  },
  createConversation: {
    method: 'POST',
    path: '/api/conversations',
    tag: 'conversations',
    summary: 'Start a conversation',
    query: skills,
    body: startConversationRequest,
    responses: {
      200: { description: 'It was there already.', schema: conversationInfo },
      201: { description: 'It is new.', schema: conversationInfo },
    },
  },
  getConversations: {
    method: 'GET',
    path: '/api/conversations',
    tag: 'conversations',
    summary: 'Get conversations by id',
    query: skills.extend({
      ids: z.array(conversationId).min(1).max(99).meta({ description: 'Ids of conversations, repeated.' }),
    }),
    responses: {
      200: {
        description: 'In the order asked for, null for the missing.',
        schema: z.array(conversationInfo.nullable()),
      },
    },
  },
  getConversation: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}',
    tag: 'conversations',
    summary: 'Get a conversation',
    params: conversation,
    query: skills,
    responses: { 200: { description: 'The conversation.', schema: conversationInfo } },
  },
  patchConversation: {
    method: 'PATCH',
    path: '/api/conversations/{conversation_id}',
    tag: 'conversations',
    summary: 'Change title or tags',
    params: conversation,
    body: patchConversationRequest,
    responses: done,
  },
  deleteConversation: {
    method: 'DELETE',
    path: '/api/conversations/{conversation_id}',
    tag: 'conversations',
    summary: 'Delete a conversation and its log',
    params: conversation,
    responses: done,
  },
  runConversation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/run',
    tag: 'conversations',
    summary: 'Run a conversation',
    description: 'Answers at once; the run goes on behind.',
    params: conversation,
    responses: { ...done, 409: { description: 'It is running already, or has no agent that could run.' } },
  },
  exportConversation: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/export',
    tag: 'conversations',
    summary: 'Export the log of a conversation',
    description: 'One event a line, in order, each line the stored bytes.',
    params: conversation,
    query: z.object({
      meta: queryFlag.meta({ description: 'Put a line with id, title and tags in front.' }),
      gzip: queryFlag.meta({ description: 'Answer a gzip file.' }),
    }),
    responses: { 200: { description: 'The log.', contentType: lines } },
  },
  searchEvents: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events/search',
    tag: 'events',
    summary: 'Search the events of a conversation',
    params: conversation,
    query: eventSearchQuery,
    responses: { 200: { description: 'One page.', schema: eventPage } },
  },
  countEvents: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events/count',
    tag: 'events',
    summary: 'Count the events of a conversation',
    params: conversation,
    query: eventFilter,
    responses: { 200: { description: 'Their number.', schema: z.int() } },
  },
  streamEvents: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events/stream',
    tag: 'events',
    summary: 'Follow the events of a conversation',
    description:
      'Server-sent events: id is the position, data the event. Each event once, in order, from the position after the given one, first what is stored, then what comes. Last-Event-ID goes before after.',
    params: conversation,
    query: z.object({
      after: queryInteger(0, Number.MAX_SAFE_INTEGER)
        .optional()
        .meta({ description: 'The last position seen.' }),
      until: blankable(z.enum(['idle'])).meta({
        description: 'idle: end when all is sent and nothing runs.',
      }),
    }),
    responses: { 200: { description: 'The stream.', contentType: 'text/event-stream' } },
  },
  getEvents: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events',
    tag: 'events',
    summary: 'Get events by id',
    description:
      'Ids come in the query, or as a JSON array in the body for clients that can send one with GET.',
    params: conversation,
    query: z.object({ ids, event_ids: ids }),
    body: z.array(z.string()).optional(),
    responses: {
      200: {
        description: 'In the order asked for, null for the missing.',
        schema: z.array(event.nullable()),
      },
    },
  },
  sendMessage: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/events',
    tag: 'events',
    summary: 'Send a message to a conversation',
    description:
      'Answers when the message is durable. With an Idempotency-Key header a repeat is stored once.',
    params: conversation,
    body: sendMessageRequest,
    responses: { ...done, 409: { description: 'The idempotency key was used with another message.' } },
  },
  getEvent: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events/{event_id}',
    tag: 'events',
    summary: 'Get an event',
    params: conversation.extend({ event_id: z.string() }),
    responses: { 200: { description: 'The event.', schema: event } },
  },
} as const satisfies RouteTable
