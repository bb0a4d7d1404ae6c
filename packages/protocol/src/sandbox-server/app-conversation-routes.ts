import * as z from 'zod'
import { success } from '../agent-server/conversations/conversation.ts'
import { queryText } from '../core/query.ts'
import type { RouteTable } from '../core/route.ts'
import { jsonObject, uuid } from '../core/schemas.ts'
import {
  appConversation,
  appConversationFilter,
  appConversationPage,
  appConversationSearchQuery,
  appConversationStartRequest,
  appConversationStartTask,
  appSendMessageRequest,
  appSendMessageResponse,
  patchAppConversationRequest,
  pendingMessageResponse,
  startTaskFilter,
  startTaskPage,
  startTaskSearchQuery,
} from './app-conversation.ts'

const conversationParams = z.object({ conversation_id: uuid })
const tag = 'app conversations'
const idsQuery = z.array(uuid).min(1).max(100)
const successResponses = { 200: { description: 'Done.', schema: success } }
const sandboxRefusals = {
  409: { description: 'Its sandbox does not run; resume it first.' },
  410: { description: 'Its sandbox is gone.' },
  502: { description: 'The agent server refused or did not answer.' },
  503: { description: 'Its sandbox is in ERROR.' },
}
const startRefusals = {
  429: { description: 'The conversations of today are used up, or as many sandboxes of yours run as may.' },
}
const gitQuery = z.object({ path: z.string().min(1), ref: queryText })
const textResponses = { 200: { description: 'The text; empty when it cannot be read.', schema: z.string() } }
const agentServerResponses = (description: string) => ({
  200: { description, schema: z.unknown() },
  ...sandboxRefusals,
})

/** Conversations in sandboxes (spec 4.2). */
export const appConversationRoutes = {
  startAppConversation: {
    method: 'POST',
    path: '/api/v1/app-conversations',
    tag,
    summary: 'Start a conversation in a sandbox',
    description:
      'Answers at once with a start task in WORKING; the rest goes on behind. Follow it by asking for the start task, or use stream-start.',
    body: appConversationStartRequest,
    responses: {
      200: { description: 'The start task.', schema: appConversationStartTask },
      ...startRefusals,
    },
  },
  streamStartAppConversation: {
    method: 'POST',
    path: '/api/v1/app-conversations/stream-start',
    tag,
    summary: 'Start a conversation in a sandbox and watch it',
    description:
      'Streams one JSON array of start tasks, an element for each change of the status, until READY or ERROR. Leaving early does not stop the start.',
    body: appConversationStartRequest,
    responses: {
      200: { description: 'The start tasks.', schema: z.array(appConversationStartTask) },
      ...startRefusals,
    },
  },
  listAppConversations: {
    method: 'GET',
    path: '/api/v1/app-conversations',
    tag,
    summary: 'List conversations, or get them by id',
    description:
      'With ids: an array in the order asked for, null for the missing. Without: a page, as search answers it.',
    query: appConversationSearchQuery.extend({ ids: idsQuery.optional() }),
    responses: {
      200: {
        description: 'A page, or an array when ids are given.',
        schema: z.union([appConversationPage, z.array(appConversation.nullable())]),
      },
    },
  },
  searchAppConversations: {
    method: 'GET',
    path: '/api/v1/app-conversations/search',
    tag,
    summary: 'List conversations in pages',
    query: appConversationSearchQuery,
    responses: { 200: { description: 'One page.', schema: appConversationPage } },
  },
  countAppConversations: {
    method: 'GET',
    path: '/api/v1/app-conversations/count',
    tag,
    summary: 'Count conversations',
    query: appConversationFilter,
    responses: { 200: { description: 'Their number.', schema: z.int() } },
  },
  searchStartTasks: {
    method: 'GET',
    path: '/api/v1/app-conversations/start-tasks/search',
    tag,
    summary: 'List start tasks in pages',
    query: startTaskSearchQuery,
    responses: { 200: { description: 'One page.', schema: startTaskPage } },
  },
  countStartTasks: {
    method: 'GET',
    path: '/api/v1/app-conversations/start-tasks/count',
    tag,
    summary: 'Count start tasks',
    query: startTaskFilter,
    responses: { 200: { description: 'Their number.', schema: z.int() } },
  },
  getStartTasks: {
    method: 'GET',
    path: '/api/v1/app-conversations/start-tasks',
    tag,
    summary: 'Get start tasks by id',
    query: z.object({ ids: idsQuery }),
    responses: {
      200: {
        description: 'In the order asked for, null for the missing.',
        schema: z.array(appConversationStartTask.nullable()),
      },
    },
  },
  patchAppConversation: {
    method: 'PATCH',
    path: '/api/v1/app-conversations/{conversation_id}',
    tag,
    summary: 'Change a conversation',
    params: conversationParams,
    body: patchAppConversationRequest,
    responses: { 200: { description: 'The conversation.', schema: appConversation } },
  },
  deleteAppConversation: {
    method: 'DELETE',
    path: '/api/v1/app-conversations/{conversation_id}',
    tag,
    summary: 'Delete a conversation and its history',
    description: 'Also those that work for it. Its sandbox goes too unless other conversations use it.',
    params: conversationParams,
    responses: successResponses,
  },
  sendAppMessage: {
    method: 'POST',
    path: '/api/v1/app-conversations/{conversation_id}/send-message',
    tag,
    summary: 'Send a message to a conversation',
    params: conversationParams,
    body: appSendMessageRequest,
    responses: { 200: { description: 'It is stored.', schema: appSendMessageResponse }, ...sandboxRefusals },
  },
  switchAppProfile: {
    method: 'POST',
    path: '/api/v1/app-conversations/{conversation_id}/switch_profile',
    tag,
    summary: 'Go on with the model of a saved profile',
    params: conversationParams,
    body: z.object({ profile_name: z.string().min(1) }).meta({ id: 'AppSwitchProfileRequest' }),
    responses: { ...successResponses, ...sandboxRefusals },
  },
  readAppFile: {
    method: 'GET',
    path: '/api/v1/app-conversations/{conversation_id}/file',
    tag,
    summary: 'Read a text file of the sandbox',
    description: 'Empty when there is none, or when the sandbox does not run.',
    params: conversationParams,
    query: z.object({ file_path: z.string().default('/workspace/project/PLAN.md') }),
    responses: textResponses,
  },
  listAppFiles: {
    method: 'GET',
    path: '/api/v1/app-conversations/{conversation_id}/files',
    tag,
    summary: 'List files below a directory of the sandbox',
    description: 'At most 2000 paths; directories of builds and dependencies are passed over.',
    params: conversationParams,
    query: z.object({ path: z.string().min(1) }),
    responses: { 200: { description: 'Their paths.', schema: z.array(z.string()) }, ...sandboxRefusals },
  },
  appGitChanges: {
    method: 'GET',
    path: '/api/v1/app-conversations/{conversation_id}/git/changes',
    tag,
    summary: 'Changed files of a repository in the sandbox',
    params: conversationParams,
    query: gitQuery,
    responses: agentServerResponses('As the agent server answers it.'),
  },
  appGitDiff: {
    method: 'GET',
    path: '/api/v1/app-conversations/{conversation_id}/git/diff',
    tag,
    summary: 'Both sides of a changed file in the sandbox',
    params: conversationParams,
    query: gitQuery,
    responses: agentServerResponses('As the agent server answers it.'),
  },
  appSkills: {
    method: 'GET',
    path: '/api/v1/app-conversations/{conversation_id}/skills',
    tag,
    summary: 'Skills of a conversation; none when its sandbox does not run',
    params: conversationParams,
    responses: {
      200: {
        description: 'The skills.',
        schema: z.object({ skills: z.array(jsonObject) }),
      },
    },
  },
  appHooks: {
    method: 'GET',
    path: '/api/v1/app-conversations/{conversation_id}/hooks',
    tag,
    summary: 'Hooks of the project of a conversation; none when its sandbox does not run',
    params: conversationParams,
    responses: {
      200: {
        description: 'The hooks.',
        schema: z.object({ hooks: z.array(jsonObject) }),
      },
    },
  },
  downloadAppConversation: {
    method: 'GET',
    path: '/api/v1/app-conversations/{conversation_id}/download',
    tag,
    summary: 'Download a conversation as a zip',
    description:
      'meta.json and one file for each event, read from the history that the control plane keeps, so the sandbox need not run.',
    params: conversationParams,
    responses: {
      200: { description: 'The zip.', contentType: 'application/zip' },
      409: { description: 'This conversation is being downloaded already.' },
    },
  },
  addPendingMessage: {
    method: 'POST',
    path: '/api/v1/conversations/{target}/pending-messages',
    tag,
    summary: 'Leave a message for a conversation that is not there yet',
    description:
      'The target is the id of a conversation, or task- and the id of a start task. Delivered in order after READY.',
    params: z.object({ target: z.string().min(1).max(100) }),
    body: appSendMessageRequest,
    responses: {
      201: { description: 'It waits.', schema: pendingMessageResponse },
      429: { description: 'Ten messages wait already.' },
    },
  },
} as const satisfies RouteTable
