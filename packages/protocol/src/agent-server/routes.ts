import * as z from 'zod'
import { emptyAsUndefined, eventFilter, eventSearchQuery, queryFlag, queryInteger } from '../core/query.ts'
import type { RouteTable } from '../core/route.ts'
import { event, eventPage } from '../events/event.ts'
import { subAgentRoutes } from './agents/sub-agent-routes.ts'
import { toolRoutes } from './agents/tool-routes.ts'
import { bashRoutes } from './bash/routes.ts'
import {
  agentResponse,
  askAgentRequest,
  confirmationResponseRequest,
  conversationFilter,
  conversationId,
  conversationInfo,
  conversationPage,
  conversationSearchQuery,
  forkConversationRequest,
  generateTitleRequest,
  generateTitleResponse,
  importResult,
  navigateConversationRequest,
  patchConversationRequest,
  sendMessageRequest,
  serverInfo,
  setConfirmationPolicyRequest,
  setSecurityAnalyzerRequest,
  startConversationRequest,
  startGoalRequest,
  success,
  switchAcpModelRequest,
  switchLlmRequest,
  updateSecretsRequest,
} from './conversations/conversation.ts'
import { editorRoutes } from './editor/routes.ts'
import { fileRoutes } from './files/routes.ts'
import { gatewayRoutes } from './gateway/routes.ts'
import { gitRoutes } from './git/routes.ts'
import { initRoutes } from './init/routes.ts'
import { llmCatalogueRoutes } from './llm/catalogue-routes.ts'
import { providerConnectionRoutes } from './llm/provider-connection-routes.ts'
import { mcpRoutes } from './mcp/routes.ts'
import { pluginRoutes } from './plugins/routes.ts'
import { agentProfileRoutes } from './profiles/agent-profile-routes.ts'
import {
  activateProfileResponse,
  profileDetail,
  profileList,
  profileMutation,
  profileName,
  renameProfileRequest,
  saveProfileRequest,
  switchProfileRequest,
  validateProfileRequest,
  validateProfileResponse,
} from './profiles/llm-profile.ts'
import { settingsRoutes } from './settings/routes.ts'
import { skillRoutes } from './skills/routes.ts'
import { workspaceRoutes } from './workspaces/file-routes.ts'
import { workspacesListRoutes } from './workspaces/list-routes.ts'

const conversationParams = z.object({ conversation_id: conversationId })
const skillsQuery = z.object({
  include_skills: queryFlag.meta({ description: 'Show the skills of the agent context.' }),
})
const eventIds = z.array(z.string()).optional().meta({ description: 'Ids of events, repeated.' })
const successResponses = { 200: { description: 'Done.', schema: success } }
const healthStatus = z.object({ status: z.string(), message: z.string().optional() })
const healthResponses = { 200: { description: 'It is.', schema: healthStatus } }
const ndjson = 'application/x-ndjson'
const profileParams = z.object({ name: profileName })
const noAgentResponses = { 409: { description: 'It has no agent that could.' } }
const unreadableResponses = { 400: { description: 'The stored profile cannot be read.' } }
const profileMutationResponse = { description: 'What was done.', schema: profileMutation }

/** Every operation of the agent server. */
export const agentServerRoutes = {
  alive: {
    method: 'GET',
    path: '/alive',
    tag: 'health',
    summary: 'Is the process alive?',
    open: true,
    responses: healthResponses,
  },
  health: {
    method: 'GET',
    path: '/health',
    tag: 'health',
    summary: 'Is the server healthy?',
    open: true,
    responses: healthResponses,
  },
  ready: {
    method: 'GET',
    path: '/ready',
    tag: 'health',
    summary: 'May requests be sent?',
    open: true,
    responses: { ...healthResponses, 503: { description: 'Not yet.', schema: healthStatus } },
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
    query: conversationSearchQuery.extend(skillsQuery.shape),
    responses: { 200: { description: 'One page.', schema: conversationPage } },
  },
  countConversations: {
    method: 'GET',
    path: '/api/conversations/count',
    tag: 'conversations',
    summary: 'Count conversations',
    query: conversationFilter,
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
      unknown: emptyAsUndefined(z.enum(['keep'])).meta({
        description: 'keep: take events of other versions and kinds as they are.',
      }),
    }),
    stream: ndjson,
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
    description:
      'The header X-Slipway-Wire says which members and kinds its events have: seed (those of this description, the default unless the server is set otherwise) or current (newer ones too). It holds for the life of the conversation and for its forks.',
    query: skillsQuery,
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
    query: skillsQuery.extend({
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
    params: conversationParams,
    query: skillsQuery,
    responses: { 200: { description: 'The conversation.', schema: conversationInfo } },
  },
  patchConversation: {
    method: 'PATCH',
    path: '/api/conversations/{conversation_id}',
    tag: 'conversations',
    summary: 'Change title or tags',
    params: conversationParams,
    body: patchConversationRequest,
    responses: successResponses,
  },
  deleteConversation: {
    method: 'DELETE',
    path: '/api/conversations/{conversation_id}',
    tag: 'conversations',
    summary: 'Delete a conversation and its log',
    params: conversationParams,
    responses: successResponses,
  },
  runConversation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/run',
    tag: 'conversations',
    summary: 'Run a conversation',
    description: 'Answers at once; the run goes on behind.',
    params: conversationParams,
    responses: {
      ...successResponses,
      409: { description: 'It is running already, or has no agent that could run.' },
    },
  },
  pauseConversation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/pause',
    tag: 'conversations',
    summary: 'Pause a conversation',
    description: 'The run ends at the next point where nothing is lost. What does not run stays as it is.',
    params: conversationParams,
    responses: successResponses,
  },
  interruptConversation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/interrupt',
    tag: 'conversations',
    summary: 'Interrupt a conversation',
    description: 'Like pause, but the call of the model and the tools that are under way are cancelled.',
    params: conversationParams,
    responses: successResponses,
  },
  updateSecrets: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/secrets',
    tag: 'conversations',
    summary: 'Set secrets of a conversation',
    description: 'They hold from the next call of a tool. No answer shows their values.',
    params: conversationParams,
    body: updateSecretsRequest,
    responses: successResponses,
  },
  setConfirmationPolicy: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/confirmation_policy',
    tag: 'conversations',
    summary: 'Say when a run asks before it acts',
    params: conversationParams,
    body: setConfirmationPolicyRequest,
    responses: successResponses,
  },
  setSecurityAnalyzer: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/security_analyzer',
    tag: 'conversations',
    summary: 'Set or remove the security analyzer',
    params: conversationParams,
    body: setSecurityAnalyzerRequest,
    responses: successResponses,
  },
  askAgent: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/ask_agent',
    tag: 'conversations',
    summary: 'Ask a question beside the conversation',
    description: 'The model answers from what it sees of the conversation; the log stays as it is.',
    params: conversationParams,
    body: askAgentRequest,
    responses: { 200: { description: 'The answer.', schema: agentResponse }, ...noAgentResponses },
  },
  condenseConversation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/condense',
    tag: 'conversations',
    summary: 'Condense a conversation now',
    params: conversationParams,
    responses: { ...successResponses, 409: { description: 'It has no agent or no condenser that could.' } },
  },
  finalResponse: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/agent_final_response',
    tag: 'conversations',
    summary: 'Get the last answer of the agent',
    description:
      'The message of the last finish, or the last message of the agent; empty when there is none.',
    params: conversationParams,
    responses: { 200: { description: 'The text.', schema: agentResponse } },
  },
  forkConversation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/fork',
    tag: 'conversations',
    summary: 'Copy a conversation into a new one',
    params: conversationParams,
    query: skillsQuery,
    body: forkConversationRequest.prefault({}),
    responses: {
      201: { description: 'The new conversation.', schema: conversationInfo },
      409: { description: 'The id is taken.' },
    },
  },
  navigateConversation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/navigate',
    tag: 'conversations',
    summary: 'Go on from another event of a conversation',
    description:
      'What comes next follows this event, as another branch; null leads before the first one. No event is removed. What waits for an answer is answered first, and the conversation is idle.',
    params: conversationParams,
    query: skillsQuery,
    body: navigateConversationRequest.prefault({}),
    responses: {
      200: { description: 'The conversation.', schema: conversationInfo },
      409: { description: 'It is running, or has no agent.' },
    },
  },
  startGoal: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/goal',
    tag: 'conversations',
    summary: 'Pursue a goal',
    description:
      'Sends the objective and runs. After each round a model judges whether it is reached; if not, the agent is told what is missing and goes on. A message of the user ends the pursuit.',
    params: conversationParams,
    body: startGoalRequest,
    responses: {
      ...successResponses,
      409: { description: 'It is running, pursues a goal already, or has no agent.' },
    },
  },
  stopGoal: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/goal/stop',
    tag: 'conversations',
    summary: 'Stop pursuing a goal',
    description: 'A run that is under way is paused. Where there is no goal nothing changes.',
    params: conversationParams,
    responses: successResponses,
  },
  resumeGoal: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/goal/resume',
    tag: 'conversations',
    summary: 'Go on pursuing a goal that was interrupted',
    params: conversationParams,
    responses: {
      ...successResponses,
      400: { description: 'There is no goal that was interrupted.' },
      409: { description: 'It is running, pursues the goal already, or has no agent.' },
    },
  },
  prepareForSandboxPause: {
    method: 'POST',
    path: '/api/conversations/prepare-for-sandbox-pause',
    tag: 'conversations',
    summary: 'Bring all conversations to rest',
    description:
      'Runs are paused, none is cut off; answers when the last has come to rest and everything is durable.',
    responses: { 204: { description: 'Nothing runs.' } },
  },
  generateTitle: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/generate_title',
    tag: 'conversations',
    summary: 'Write a title for a conversation',
    params: conversationParams,
    body: generateTitleRequest.prefault({}),
    responses: { 200: { description: 'The title.', schema: generateTitleResponse }, ...noAgentResponses },
  },
  switchLlm: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/switch_llm',
    tag: 'conversations',
    summary: 'Go on with another model',
    params: conversationParams,
    body: switchLlmRequest,
    responses: { ...successResponses, ...noAgentResponses },
  },
  switchProfile: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/switch_profile',
    tag: 'conversations',
    summary: 'Go on with the model of a profile',
    params: conversationParams,
    body: switchProfileRequest,
    responses: { ...successResponses, ...unreadableResponses, ...noAgentResponses },
  },
  switchAcpModel: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/switch_acp_model',
    tag: 'conversations',
    summary: 'Switch the model of an agent of another program',
    description: 'No agent of this server is one of those.',
    params: conversationParams,
    body: switchAcpModelRequest,
    responses: { ...successResponses, 400: { description: 'The agent cannot.' } },
  },
  exportConversation: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/export',
    tag: 'conversations',
    summary: 'Export the log of a conversation',
    description: 'One event a line, in order, each line the stored bytes.',
    params: conversationParams,
    query: z.object({
      meta: queryFlag.meta({ description: 'Put a line with id, title and tags in front.' }),
      gzip: queryFlag.meta({ description: 'Answer a gzip file.' }),
    }),
    responses: { 200: { description: 'The log.', contentType: [ndjson, 'application/gzip'] } },
  },
  searchEvents: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events/search',
    tag: 'events',
    summary: 'Search the events of a conversation',
    params: conversationParams,
    query: eventSearchQuery,
    responses: { 200: { description: 'One page.', schema: eventPage } },
  },
  countEvents: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events/count',
    tag: 'events',
    summary: 'Count the events of a conversation',
    params: conversationParams,
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
    params: conversationParams,
    query: z.object({
      after: queryInteger(0, Number.MAX_SAFE_INTEGER)
        .optional()
        .meta({ description: 'The last position seen.' }),
      until: emptyAsUndefined(z.enum(['idle'])).meta({
        description: 'idle: end when all is sent and nothing runs.',
      }),
      hints: queryFlag.meta({
        description:
          'Also send what is not stored, as events named hint without an id: pieces of an answer on its way, and what was used. A slow reader misses some.',
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
    params: conversationParams,
    query: z.object({ ids: eventIds, event_ids: eventIds }),
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
    params: conversationParams,
    body: sendMessageRequest,
    responses: {
      ...successResponses,
      409: { description: 'The idempotency key was used with another message.' },
    },
  },
  respondToConfirmation: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/events/respond_to_confirmation',
    tag: 'events',
    summary: 'Accept or reject the actions that wait',
    description: 'An answer where nothing waits changes nothing.',
    params: conversationParams,
    body: confirmationResponseRequest,
    responses: successResponses,
  },
  getEvent: {
    method: 'GET',
    path: '/api/conversations/{conversation_id}/events/{event_id}',
    tag: 'events',
    summary: 'Get an event',
    params: conversationParams.extend({ event_id: z.string() }),
    responses: { 200: { description: 'The event.', schema: event } },
  },
  listProfiles: {
    method: 'GET',
    path: '/api/profiles',
    tag: 'profiles',
    summary: 'List the profiles of models',
    responses: { 200: { description: 'All of them.', schema: profileList } },
  },
  getProfile: {
    method: 'GET',
    path: '/api/profiles/{name}',
    tag: 'profiles',
    summary: 'Get a profile',
    description: 'Its secrets are null.',
    params: profileParams,
    responses: { 200: { description: 'The profile.', schema: profileDetail }, ...unreadableResponses },
  },
  saveProfile: {
    method: 'POST',
    path: '/api/profiles/{name}',
    tag: 'profiles',
    summary: 'Save a profile',
    description: 'One of the same name is replaced.',
    params: profileParams,
    body: saveProfileRequest,
    responses: {
      201: profileMutationResponse,
      409: { description: 'There are as many profiles as there may be.' },
    },
  },
  deleteProfile: {
    method: 'DELETE',
    path: '/api/profiles/{name}',
    tag: 'profiles',
    summary: 'Delete a profile',
    description: 'Done as well when there is none of the name.',
    params: profileParams,
    responses: { 200: profileMutationResponse },
  },
  renameProfile: {
    method: 'POST',
    path: '/api/profiles/{name}/rename',
    tag: 'profiles',
    summary: 'Rename a profile',
    params: profileParams,
    body: renameProfileRequest,
    responses: { 200: profileMutationResponse, 409: { description: 'The new name is taken.' } },
  },
  activateProfile: {
    method: 'POST',
    path: '/api/profiles/{name}/activate',
    tag: 'profiles',
    summary: 'Make a profile the active one',
    params: profileParams,
    responses: { 200: { description: 'It is.', schema: activateProfileResponse }, ...unreadableResponses },
  },
  validateProfile: {
    method: 'POST',
    path: '/api/profiles/{name}/validate',
    tag: 'profiles',
    summary: 'Try a model before it is saved',
    description:
      'Asks the model once, with the given settings; nothing is saved, and the profile need not be there. A limit of rate and a timeout do not make it invalid.',
    params: profileParams,
    body: validateProfileRequest,
    responses: { 200: { description: 'Whether it answered.', schema: validateProfileResponse } },
  },
  ...gitRoutes,
  ...settingsRoutes,
  ...skillRoutes,
  ...pluginRoutes,
  ...subAgentRoutes,
  ...bashRoutes,
  ...fileRoutes,
  ...initRoutes,
  ...workspaceRoutes,
  ...toolRoutes,
  ...agentProfileRoutes,
  ...providerConnectionRoutes,
  ...workspacesListRoutes,
  ...llmCatalogueRoutes,
  ...mcpRoutes,
  ...editorRoutes,
  ...gatewayRoutes,
} as const satisfies RouteTable
