import * as z from 'zod'
import { conversationParams } from '../agent-server/conversations/conversation.ts'
import { pageQuery, queryText } from '../core/query.ts'
import { countResponses, listed, ok, successResponses } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { component, jsonObject, pageOf, uuid } from '../core/schemas.ts'
import {
  appConversation,
  appConversationFilter,
  appConversationPage,
  appConversationSearchQuery,
  appConversationStartRequest,
  appConversationStartTask,
  appSendMessageRequest,
  forkAppConversationRequest,
  patchAppConversationRequest,
  startTaskFilter,
} from './app-conversation.ts'
import { sandboxStatus } from './sandbox.ts'

const idsQuery = z.array(uuid).min(1).max(100)
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
export const appConversationRoutes = defineRoutes(
  'app conversations',
  {
    startAppConversation: route.post('/api/v1/app-conversations', {
      summary: 'Start a conversation in a sandbox',
      audit: { target: 'conversation' },
      description:
        'Answers at once with a start task in WORKING; the rest continues behind. Follow it by asking for the start task, or use stream-start.',
      body: appConversationStartRequest,
      responses: { ...ok('The start task.', appConversationStartTask), ...startRefusals },
      example: { initial_message: { content: 'What is in this folder?' }, title: 'A first look' },
    }),
    streamStartAppConversation: route.post('/api/v1/app-conversations/stream-start', {
      summary: 'Start a conversation in a sandbox and watch it',
      audit: { target: 'conversation' },
      description:
        'Streams one JSON array of start tasks, an element for each change of the status, until READY or ERROR. Leaving early does not stop the start.',
      body: appConversationStartRequest,
      responses: { ...ok('The start tasks.', z.array(appConversationStartTask)), ...startRefusals },
    }),
    listAppConversations: route.get('/api/v1/app-conversations', {
      summary: 'List conversations, or get them by id',
      description:
        'With ids: an array in the order asked for, null for the missing. Without: a page, as search answers it.',
      query: appConversationSearchQuery.extend({ ids: idsQuery.optional() }),
      responses: ok(
        'A page, or an array when ids are given.',
        z.union([appConversationPage, z.array(appConversation.nullable())]),
      ),
    }),
    searchAppConversations: route.get('/api/v1/app-conversations/search', {
      summary: 'List conversations in pages',
      query: appConversationSearchQuery,
      responses: ok('One page.', appConversationPage),
    }),
    countAppConversations: route.get('/api/v1/app-conversations/count', {
      summary: 'Count conversations',
      query: appConversationFilter,
      responses: countResponses,
    }),
    searchStartTasks: route.get('/api/v1/app-conversations/start-tasks/search', {
      summary: 'List start tasks in pages',
      query: startTaskFilter.extend(pageQuery.shape).extend({
        sort_order: z
          .enum(['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC'])
          .default('CREATED_AT_DESC'),
      }),
      responses: ok(
        'One page.',
        pageOf(appConversationStartTask).meta({ id: 'AppConversationStartTaskPage' }),
      ),
    }),
    countStartTasks: route.get('/api/v1/app-conversations/start-tasks/count', {
      summary: 'Count start tasks',
      query: startTaskFilter,
      responses: countResponses,
    }),
    getStartTasks: route.get('/api/v1/app-conversations/start-tasks', {
      summary: 'Get start tasks by id',
      query: z.object({ ids: idsQuery }),
      responses: listed(appConversationStartTask),
    }),
    patchAppConversation: route.patch('/api/v1/app-conversations/{conversation_id}', {
      summary: 'Change a conversation',
      audit: { target: 'conversation', id: 'conversation_id' },
      params: conversationParams,
      body: patchAppConversationRequest,
      responses: ok('The conversation.', appConversation),
    }),
    deleteAppConversation: route.delete('/api/v1/app-conversations/{conversation_id}', {
      summary: 'Delete a conversation and its history',
      audit: { target: 'conversation', id: 'conversation_id' },
      description: 'Also those that work for it. Its sandbox goes too unless other conversations use it.',
      params: conversationParams,
      responses: successResponses,
    }),
    sendAppMessage: route.post('/api/v1/app-conversations/{conversation_id}/send-message', {
      headers: { 'Idempotency-Key': 'A repeat with this key is stored once.' },
      summary: 'Send a message to a conversation',
      audit: { target: 'conversation', id: 'conversation_id' },
      params: conversationParams,
      body: appSendMessageRequest,
      responses: {
        ...ok(
          'It is stored.',
          component('AppSendMessageResponse', {
            success: z.boolean(),
            sandbox_status: sandboxStatus,
            message: z.string().nullish(),
          }),
        ),
        ...sandboxRefusals,
      },
    }),
    switchAppProfile: route.post('/api/v1/app-conversations/{conversation_id}/switch_profile', {
      summary: 'Continue with the model of a saved profile',
      audit: { target: 'conversation', id: 'conversation_id' },
      params: conversationParams,
      body: component('AppSwitchProfileRequest', { profile_name: z.string().min(1) }),
      responses: { ...successResponses, ...sandboxRefusals },
    }),
    switchAppAcpModel: route.post('/api/v1/app-conversations/{conversation_id}/switch_acp_model', {
      summary: 'Switch the model of an external agent',
      audit: { target: 'conversation', id: 'conversation_id' },
      params: conversationParams,
      body: component('AppSwitchAcpModelRequest', { model: z.string().min(1).max(1_000) }),
      responses: {
        ...successResponses,
        400: { description: 'Not an external agent, or it does not offer the model.' },
        ...sandboxRefusals,
        504: { description: 'The external agent did not answer in time.' },
      },
    }),
    readAppFile: route.get('/api/v1/app-conversations/{conversation_id}/file', {
      summary: 'Read a text file of the sandbox',
      description: 'Empty when there is none, or when the sandbox does not run.',
      params: conversationParams,
      query: z.object({ file_path: z.string().default('/workspace/project/PLAN.md') }),
      responses: textResponses,
    }),
    listAppFiles: route.get('/api/v1/app-conversations/{conversation_id}/files', {
      compressed: true,
      summary: 'List files below a directory of the sandbox',
      description: 'At most 2000 paths; directories of builds and dependencies are passed over.',
      params: conversationParams,
      query: z.object({ path: z.string().min(1) }),
      responses: { ...ok('Their paths in that directory.', z.array(z.string())), ...sandboxRefusals },
    }),
    appGitChanges: route.get('/api/v1/app-conversations/{conversation_id}/git/changes', {
      summary: 'Changed files of a repository in the sandbox',
      params: conversationParams,
      query: gitQuery,
      responses: agentServerResponses('As the agent server answers it.'),
    }),
    appGitDiff: route.get('/api/v1/app-conversations/{conversation_id}/git/diff', {
      summary: 'Both sides of a changed file in the sandbox',
      params: conversationParams,
      query: gitQuery,
      responses: agentServerResponses('As the agent server answers it.'),
    }),
    appSkills: route.get('/api/v1/app-conversations/{conversation_id}/skills', {
      summary: 'Skills of a conversation; none when its sandbox does not run',
      params: conversationParams,
      responses: ok('The skills.', z.object({ skills: z.array(jsonObject) })),
    }),
    appHooks: route.get('/api/v1/app-conversations/{conversation_id}/hooks', {
      summary: 'Hooks of the project of a conversation; none when its sandbox does not run',
      params: conversationParams,
      responses: ok('The hooks.', z.object({ hooks: z.array(jsonObject) })),
    }),
    downloadAppConversation: route.get('/api/v1/app-conversations/{conversation_id}/download', {
      summary: 'Download a conversation as a zip',
      description:
        'meta.json and one file for each event, read from the history that the control plane keeps, so the sandbox need not run.',
      params: conversationParams,
      responses: {
        200: { description: 'The zip.', contentType: 'application/zip' },
        409: { description: 'This conversation is being downloaded already.' },
      },
    }),
    forkAppConversation: route.post('/api/v1/app-conversations/{conversation_id}/fork', {
      audit: { target: 'conversation', id: 'conversation_id' },
      summary: 'Copy a conversation and the files of its workspace',
      description:
        'Starts a conversation in a new sandbox of the same spec, with the files of one moment and the events before it; the first one continues. Answers at once with a start task, like a start. Its own first event (key forked_from) names the last event that the files have seen.',
      params: conversationParams,
      body: forkAppConversationRequest,
      responses: { ...ok('The start task.', appConversationStartTask), ...sandboxRefusals, ...startRefusals },
    }),
    addPendingMessage: route.post('/api/v1/conversations/{target}/pending-messages', {
      summary: 'Leave a message for a conversation that does not exist yet',
      audit: { target: 'conversation', id: 'target' },
      description:
        'The target is the id of a conversation, or task- and the id of a start task. Delivered in order after READY.',
      params: z.object({ target: z.string().min(1).max(100) }),
      body: appSendMessageRequest,
      responses: {
        201: {
          description: 'It waits.',
          schema: component('PendingMessageResponse', {
            id: z.string(),
            queued: z.boolean(),
            position: z.int(),
          }),
        },
        429: { description: 'Ten messages wait already.' },
      },
    }),
  },
  { access: 'user' },
)
