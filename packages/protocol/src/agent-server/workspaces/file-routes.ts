import * as z from 'zod'
import { queryText } from '../../core/query.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { conversationParams } from '../conversations/conversation.ts'

/** Longest that a ticket may open files. */
const maxTicketSeconds = 3_600

const workspaceTicketRequest = component('WorkspaceTicketRequest', {
  path: z
    .string()
    .max(4_096)
    .refine((path) => path.isWellFormed(), 'No file has such a name')
    .nullish()
    .transform((path) => path ?? '')
    .meta({
      description:
        'What it opens: a file, or a directory with all that is below it; the whole workspace unless given.',
    }),
  expires_in_seconds: z
    .int()
    .min(1)
    .max(maxTicketSeconds)
    .nullish()
    .transform((seconds) => seconds ?? 300)
    .meta({ type: ['integer', 'null'], minimum: 1, maximum: maxTicketSeconds, default: 300 }),
})

const workspaceTicket = component('WorkspaceTicket', {
  url: z.string().meta({ description: 'Address of the file or directory on this server, from its root.' }),
  expires_at: z.string().meta({ description: 'When it stops to open, UTC.' }),
})

const fileRoute = {
  summary: 'Get a file of the workspace of a conversation',
  description:
    'With the type that its name says; a directory is its index.html. Instead of the key, the cookie of /api/auth/workspace-session or a ticket opens it. One range may be asked for. Pages are shown in a sandbox.',
  pages: 'pass',
  scope: 'read',
  query: z.object({
    ticket: queryText.meta({ description: 'A ticket of workspace-ticket; an address that it gives has it.' }),
  }),
  responses: {
    200: { description: 'The file.', contentType: '*/*' },
    206: { description: 'The part that was asked for.', contentType: '*/*' },
    304: { description: 'It is as the client has it.' },
    307: {
      description: 'A page that is opened has its own address, by which it can load what belongs to it.',
    },
    400: { description: 'The path leads out of the workspace.' },
    403: { description: 'The ticket does not open this file, or it may not be read.' },
    416: { description: 'The range lies beyond the end of the file.' },
  },
} as const

/** Files of workspaces as pages, images and frames load them. */
export const workspaceRoutes = defineRoutes('workspace', {
  workspaceRoot: route.get('/api/conversations/{conversation_id}/workspace', {
    ...fileRoute,
    params: conversationParams,
  }),
  workspaceFile: route.get('/api/conversations/{conversation_id}/workspace/{path*}', {
    ...fileRoute,
    params: conversationParams.extend({
      path: z.string().meta({ description: 'From the directory of the workspace.' }),
    }),
  }),
  createWorkspaceTicket: route.post('/api/conversations/{conversation_id}/workspace-ticket', {
    summary: 'Make an address that opens files of a workspace for a while',
    description:
      'Whoever has it may read what it opens, without a key, until it expires or the key that it was made with is gone.',
    pages: 'key',
    params: conversationParams,
    body: workspaceTicketRequest.prefault({}),
    responses: {
      200: { description: 'The address.', schema: workspaceTicket },
      400: { description: 'The path leads out of the workspace.' },
    },
  }),
  startWorkspaceSession: route.post('/api/auth/workspace-session', {
    summary: 'Let the pages of this browser load files of workspaces',
    description:
      'Sets the cookie oh_workspace_session_key, which opens files of workspaces and nothing else, for a week or until the key is gone.',
    pages: 'key',
    responses: { 204: { description: 'The cookie is set.' } },
  }),
  endWorkspaceSession: route.delete('/api/auth/workspace-session', {
    summary: 'Forget the cookie of the workspace session',
    pages: 'key',
    responses: { 204: { description: 'The cookie is removed.' } },
  }),
})
