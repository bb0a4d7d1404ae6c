import * as z from 'zod'
import { emptyAsUndefined, queryFlag } from '../../core/query.ts'
import { countResponses, listed, ok, successResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { boundedText, component, pageOf, withDefault } from '../../core/schemas.ts'
import {
  agentResponse,
  askAgentRequest,
  conversationFilter,
  conversationId,
  conversationInfo,
  conversationParams,
  conversationSearchQuery,
  forkConversationRequest,
  generateTitleRequest,
  importResult,
  navigateConversationRequest,
  patchConversationRequest,
  runLimitResponses,
  setConfirmationPolicyRequest,
  setSecurityAnalyzerRequest,
  startConversationRequest,
  switchLlmRequest,
  updateSecretsRequest,
} from './conversation.ts'
import { exportFormats } from './export-formats.ts'

const skillsQuery = z.object({
  include_skills: queryFlag.meta({ description: 'Show the skills of the agent context.' }),
})
const ndjson = 'application/x-ndjson'
const noAgentResponses = { 409: { description: 'It has no agent that could.' } }

export const conversationRoutes = defineRoutes('conversations', {
  searchConversations: route.get('/api/conversations/search', {
    scope: 'read',
    summary: 'List conversations in pages',
    query: conversationSearchQuery.extend(skillsQuery.shape),
    responses: ok('One page.', pageOf(conversationInfo).meta({ id: 'ConversationPage' })),
  }),
  countConversations: route.get('/api/conversations/count', {
    scope: 'read',
    summary: 'Count conversations',
    query: conversationFilter,
    responses: countResponses,
  }),
  importConversation: route.post('/api/conversations/import', {
    summary: 'Import the log of a conversation',
    description:
      'The body is one event a line. All of them are stored, byte for byte, or none. A first line without kind names the conversation: {"conversation_id"?, "title"?, "tags"?}. A fault is answered with loc ["body", line, ...place]: lines count from 1, places in lists from 0. The status is that of the log; nothing runs after an import.',
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
  }),
  createConversation: route.post('/api/conversations', {
    summary: 'Start a conversation',
    description:
      'The header X-Slipway-Wire says which members and kinds its events have: seed (those of this description, the default unless the server is set otherwise) or current (newer ones too). It holds for the life of the conversation and for its forks.',
    query: skillsQuery,
    headers: {
      'X-Slipway-Wire': 'seed or current: which members and kinds its events have.',
      'X-OpenHands-Observability-Span-Name': 'observability_span_name, where the body has none.',
      'X-OpenHands-Observability-Tags': 'observability_tags likewise, separated by commas.',
      'X-OpenHands-Observability-Metadata': 'JSON object below the keys of observability_metadata.',
      'X-OpenHands-Observability-Parent-Span-Context': 'observability_parent_span_context likewise.',
    },
    body: startConversationRequest,
    responses: {
      200: { description: 'It was there already.', schema: conversationInfo },
      201: { description: 'It is new.', schema: conversationInfo },
      ...runLimitResponses,
    },
    example: {
      agent: {
        llm: { model: 'anthropic/claude-sonnet-4-5', api_key: 'sk-...' },
        tools: [{ name: 'terminal' }],
      },
      workspace: { working_dir: '/home/me/project' },
      initial_message: { content: [{ type: 'text', text: 'What is in this folder?' }], run: true },
    },
  }),
  getConversations: route.get('/api/conversations', {
    scope: 'read',
    summary: 'Get conversations by id',
    query: skillsQuery.extend({
      ids: z.array(conversationId).min(1).max(99).meta({ description: 'Ids of conversations, repeated.' }),
    }),
    responses: listed(conversationInfo),
  }),
  getConversation: route.get('/api/conversations/{conversation_id}', {
    scope: 'read',
    summary: 'Get a conversation',
    params: conversationParams,
    query: skillsQuery,
    responses: ok('The conversation.', conversationInfo),
  }),
  patchConversation: route.patch('/api/conversations/{conversation_id}', {
    summary: 'Change title, tags, limits or rules for commands',
    params: conversationParams,
    body: patchConversationRequest,
    responses: successResponses,
  }),
  deleteConversation: route.delete('/api/conversations/{conversation_id}', {
    summary: 'Delete a conversation and its log',
    params: conversationParams,
    responses: successResponses,
  }),
  runConversation: route.post('/api/conversations/{conversation_id}/run', {
    scope: 'act',
    summary: 'Run a conversation',
    description: 'Answers at once; the run continues behind.',
    params: conversationParams,
    responses: {
      ...successResponses,
      409: { description: 'It is running already, or has no agent that could run.' },
      ...runLimitResponses,
    },
  }),
  pauseConversation: route.post('/api/conversations/{conversation_id}/pause', {
    scope: 'act',
    summary: 'Pause a conversation',
    description:
      'The run ends at the next point where nothing is lost. An idle conversation is paused too, with a PauseEvent; one that has ended stays as it is.',
    params: conversationParams,
    responses: successResponses,
  }),
  interruptConversation: route.post('/api/conversations/{conversation_id}/interrupt', {
    scope: 'act',
    summary: 'Interrupt a conversation',
    description: 'Like pause, but the call of the model and the tools that are under way are cancelled.',
    params: conversationParams,
    responses: successResponses,
  }),
  updateSecrets: route.post('/api/conversations/{conversation_id}/secrets', {
    summary: 'Set secrets of a conversation',
    description: 'They hold from the next call of a tool. No answer shows their values.',
    params: conversationParams,
    body: updateSecretsRequest,
    responses: successResponses,
    example: { secrets: { SERVICE_TOKEN: 'the value' } },
  }),
  setConfirmationPolicy: route.post('/api/conversations/{conversation_id}/confirmation_policy', {
    summary: 'Say when a run asks before it acts',
    params: conversationParams,
    body: setConfirmationPolicyRequest,
    responses: successResponses,
  }),
  setSecurityAnalyzer: route.post('/api/conversations/{conversation_id}/security_analyzer', {
    summary: 'Set or remove the security analyzer',
    params: conversationParams,
    body: setSecurityAnalyzerRequest,
    responses: successResponses,
  }),
  askAgent: route.post('/api/conversations/{conversation_id}/ask_agent', {
    summary: 'Ask a question beside the conversation',
    description:
      'The model answers from what it sees of the conversation; the log stays as it is, apart from a completion log and token ids that the settings ask for.',
    params: conversationParams,
    body: askAgentRequest,
    responses: { ...ok('The answer.', agentResponse), ...noAgentResponses },
  }),
  condenseConversation: route.post('/api/conversations/{conversation_id}/condense', {
    summary: 'Condense a conversation now',
    params: conversationParams,
    responses: { ...successResponses, 409: { description: 'It has no agent or no condenser that could.' } },
  }),
  finalResponse: route.get('/api/conversations/{conversation_id}/agent_final_response', {
    scope: 'read',
    summary: 'Get the last answer of the agent',
    description:
      'The message of the last finish, or the last message of the agent; empty when there is none.',
    params: conversationParams,
    responses: ok('The text.', agentResponse),
  }),
  forkConversation: route.post('/api/conversations/{conversation_id}/fork', {
    summary: 'Copy a conversation into a new one',
    params: conversationParams,
    query: skillsQuery,
    body: forkConversationRequest.prefault({}),
    responses: {
      201: { description: 'The new conversation.', schema: conversationInfo },
      409: { description: 'The id is taken.' },
    },
  }),
  navigateConversation: route.post('/api/conversations/{conversation_id}/navigate', {
    summary: 'Continue from another event of a conversation',
    description:
      'What comes next follows this event, as another branch; null leads before the first one. No event is removed. What waits for an answer is answered first, and the conversation is idle.',
    params: conversationParams,
    query: skillsQuery,
    body: navigateConversationRequest,
    responses: {
      200: { description: 'The conversation.', schema: conversationInfo },
      409: { description: 'It is running, or has no agent.' },
    },
  }),
  startGoal: route.post('/api/conversations/{conversation_id}/goal', {
    summary: 'Pursue a goal',
    description:
      'Sends the objective and runs. After each round a model judges whether it is reached; if not, the agent gets what is missing and continues. A message of the user ends the pursuit.',
    params: conversationParams,
    /** What the agent is to reach; after each round a model judges whether it has. */
    body: component('StartGoalRequest', {
      objective: boundedText(0, 100_000),
      max_iterations: withDefault(z.int().min(1).max(10_000), 10).meta({
        description: 'Rounds before it gives up.',
      }),
    }),
    responses: {
      ...successResponses,
      400: { description: 'The objective is empty.' },
      409: { description: 'It is running, pursues a goal already, or has no agent.' },
      ...runLimitResponses,
    },
  }),
  stopGoal: route.post('/api/conversations/{conversation_id}/goal/stop', {
    summary: 'Stop pursuing a goal',
    description: 'A round that is under way continues to its end. Where there is no goal nothing changes.',
    params: conversationParams,
    responses: successResponses,
  }),
  resumeGoal: route.post('/api/conversations/{conversation_id}/goal/resume', {
    summary: 'Continue pursuing a goal that was interrupted',
    params: conversationParams,
    responses: {
      ...successResponses,
      400: { description: 'There is no goal that was interrupted.' },
      409: { description: 'It is running, pursues the goal already, or has no agent.' },
      ...runLimitResponses,
    },
  }),
  prepareForSandboxPause: route.post('/api/conversations/prepare-for-sandbox-pause', {
    summary: 'Bring all conversations to rest',
    unlisted: true,
    description:
      'Runs are paused: calls of models are cancelled, tools get some seconds to end. Answers when the last has come to rest and everything is durable.',
    responses: { 204: { description: 'Nothing runs.' } },
  }),
  generateTitle: route.post('/api/conversations/{conversation_id}/generate_title', {
    summary: 'Write a title for a conversation',
    params: conversationParams,
    body: generateTitleRequest.prefault({}),
    responses: {
      ...ok('The title.', component('GenerateTitleResponse', { title: z.string() })),
      ...noAgentResponses,
    },
  }),
  switchLlm: route.post('/api/conversations/{conversation_id}/switch_llm', {
    summary: 'Continue with another model',
    params: conversationParams,
    body: switchLlmRequest,
    responses: { ...successResponses, ...noAgentResponses },
  }),
  switchProfile: route.post('/api/conversations/{conversation_id}/switch_profile', {
    summary: 'Continue with the model of a profile',
    params: conversationParams,
    body: component('SwitchProfileRequest', { profile_name: z.string().max(1_000) }),
    responses: {
      ...successResponses,
      400: { description: 'The name is not one of a profile, or the stored profile cannot be read.' },
      ...noAgentResponses,
    },
  }),
  switchAcpModel: route.post('/api/conversations/{conversation_id}/switch_acp_model', {
    summary: 'Switch the model of an external agent',
    description:
      'Before its first run the model is stored; in an open session it counts from the next turn on.',
    params: conversationParams,
    body: component('SwitchACPModelRequest', { model: z.string() }),
    responses: {
      ...successResponses,
      400: { description: 'Not an external agent, or it does not offer the model.' },
      504: { description: 'The external agent did not answer in time.' },
    },
  }),
  exportConversation: route.get('/api/conversations/{conversation_id}/export', {
    scope: 'read',
    summary: 'Export the log of a conversation',
    description: `As ${exportFormats.map(({ name, description }) => `${name}: ${description}`).join('. ')}.`,
    params: conversationParams,
    query: z.object({
      format: emptyAsUndefined(z.enum(exportFormats.map(({ name }) => name))).meta({
        description: 'The form of the file; jsonl by default.',
      }),
      meta: queryFlag.meta({ description: 'Put a line with id, title and tags in front; of jsonl alone.' }),
      gzip: queryFlag.meta({ description: 'Answer a gzip file.' }),
    }),
    responses: { 200: { description: 'The log.', contentType: [ndjson, 'application/gzip'] } },
  }),
})
