import * as z from 'zod'
import { content, textContent } from '../../core/message.ts'
import { withContent } from '../../core/message-content.ts'
import { emptyAsUndefined, pageQuery } from '../../core/query.ts'
import {
  boundedText,
  component,
  jsonObject,
  looseComponent,
  nullAsUndefined,
  strictComponent,
  timestamp,
  trueByDefault,
  uuid,
  withDefault,
} from '../../core/schemas.ts'
import { agent, confirmationPolicy, hookConfig, secretSource, securityAnalyzer } from '../agents/agent.ts'
import { agentDefinition } from '../agents/agent-definition.ts'
import { commandRule, commandRules } from '../agents/command-rule.ts'
import { commandSandbox, commandSandboxMode } from '../agents/command-sandbox.ts'
import { extensionSource } from '../extensions/extension.ts'
import { llm } from '../llm/llm.ts'
import { repositoryDecision } from '../repositories/consent.ts'
import { conversationLimits } from './limits.ts'

/** What a conversation is doing. */
export const executionStatus = z
  .enum(['idle', 'running', 'paused', 'waiting_for_confirmation', 'finished', 'error', 'stuck', 'deleting'])
  .meta({ id: 'ConversationExecutionStatus' })
export type ExecutionStatus = z.infer<typeof executionStatus>

/** A conversation id: a UUID in any case, dashes optional; parsed to lower case with dashes. */
export const conversationId = uuid
export const conversationParams = z.object({ conversation_id: conversationId })

/** The key of the state update that moves the leaf of the active branch, to an event id or null. */
export const leafEventIdKey = 'leaf_event_id'

const tagName = z.string().regex(/^[a-z0-9]+$/, 'The name of a tag is lower-case letters and digits')
/** At most 256 characters a value. */
export const tags = z.record(tagName, boundedText(0, 256))

const title = boundedText(1, 200)
/** Without blanks around it, and not of blanks alone. */
const trimmedTitle = z.string().trim().pipe(title).meta({ minLength: 1, maxLength: 200, pattern: '\\S' })

/** A message of a client; only the role `user` is accepted. Unknown members are ignored. */
const userMessage = component('SendMessageRequest', {
  role: z.literal('user').default('user'),
  content: withDefault(content, []).meta({
    description: 'At least one part, unless `extended_content` has one.',
  }),
  run: z.boolean().default(false).meta({ description: 'Run the conversation after the message is stored.' }),
  sender: nullAsUndefined(z.string()),
  extended_content: nullAsUndefined(z.array(textContent)),
})
export const sendMessageRequest = withContent(userMessage)
export type SendMessageRequest = z.output<typeof sendMessageRequest>

/** The first message of a new conversation, which runs unless `run` is false. */
const initialMessage = withContent(
  userMessage
    .extend({
      run: z
        .boolean()
        .default(true)
        .meta({ description: 'Run the conversation; false only stores the message.' }),
    })
    .meta({ id: 'InitialMessage' }),
)

/** The answer to requests that start a run when all run slots are taken. */
export const runLimitResponses = {
  429: { description: 'No more conversations may run at the moment.' },
}

const workspace = looseComponent('LocalWorkspace', { working_dir: z.string(), kind: z.string().optional() })

/** How often in a row is a loop (wire: stuck detection). */
export const stuckThresholds = looseComponent('StuckDetectionThresholds', {
  action_observation: withDefault(z.int().min(2), 4),
  action_error: withDefault(z.int().min(2), 3),
  monologue: withDefault(z.int().min(2), 3),
  alternating_pattern: withDefault(z.int().min(2), 6),
})
export type StuckThresholds = z.output<typeof stuckThresholds>

/** A tool that the client carries out itself; `parameters` is a JSON Schema of type object. */
export const clientTool = component('ClientToolSpec', {
  name: z
    .string()
    .regex(/^[\w-]{1,64}$/, 'A name is 1 to 64 letters, digits, _ and -')
    .refine((name) => name !== 'mcp_question', 'The name is that of the questions of MCP servers'),
  description: z.string(),
  parameters: z.looseObject({ type: z.literal('object') }),
  annotations: nullAsUndefined(jsonObject),
})
export type ClientTool = z.output<typeof clientTool>

const spanName = z
  .string()
  .regex(/^[A-Za-z0-9][\w.:/-]{0,127}$/, 'A name is 1 to 128 letters, digits and _.:/-')
const metadataValue = z.union([z.string(), z.number(), z.boolean(), z.null()])

/** What a creator says about the traces of a conversation; headers of the request may say the same. */
export const observabilityMembers = {
  observability_span_name: nullAsUndefined(spanName),
  observability_tags: nullAsUndefined(z.array(z.string().trim().min(1).max(200)).max(50)),
  observability_metadata: nullAsUndefined(z.record(z.string(), metadataValue)),
  observability_parent_span_context: nullAsUndefined(boundedText(1, 8_192)),
}

/** A request for a new conversation. Unknown members are ignored; null means absent. */
export const startConversationRequest = z
  .object({
    agent: nullAsUndefined(agent),
    agent_settings: nullAsUndefined(jsonObject),
    agent_profile_id: nullAsUndefined(uuid),
    workspace,
    worktree: withDefault(z.boolean(), false),
    conversation_id: nullAsUndefined(uuid),
    parent_conversation_id: nullAsUndefined(uuid),
    confirmation_policy: nullAsUndefined(confirmationPolicy),
    security_analyzer: nullAsUndefined(securityAnalyzer),
    initial_message: nullAsUndefined(initialMessage),
    max_iterations: withDefault(z.int().min(1), 500).meta({ description: 'Steps of one run.' }),
    limits: nullAsUndefined(conversationLimits),
    command_rules: nullAsUndefined(commandRules),
    command_sandbox: nullAsUndefined(commandSandbox),
    plan_mode: nullAsUndefined(z.boolean()).meta({
      description: 'Calls that may change something are refused until the plan is accepted.',
    }),
    response_schema: nullAsUndefined(jsonObject).meta({
      description: 'JSON Schema of type object for the final answer, which is then its JSON text.',
    }),
    stuck_detection: trueByDefault,
    stuck_detection_thresholds: nullAsUndefined(stuckThresholds),
    secrets: nullAsUndefined(z.record(z.string(), secretSource)),
    secrets_encrypted: withDefault(z.boolean(), false),
    tool_module_qualnames: nullAsUndefined(jsonObject),
    client_tools: nullAsUndefined(z.array(clientTool)),
    agent_definitions: nullAsUndefined(z.array(agentDefinition).max(200)),
    agent_launch_additions: nullAsUndefined(
      z.strictObject({ system_message_suffix_append: boundedText(0, 32_768).optional() }),
    ),
    plugins: nullAsUndefined(z.array(extensionSource).max(50)),
    hook_config: nullAsUndefined(hookConfig),
    ...observabilityMembers,
    repository_consent: nullAsUndefined(repositoryDecision).meta({
      description:
        'Decides about the hooks and agents that the working directory brings now, as the route does.',
    }),
    tags: nullAsUndefined(tags),
    user_id: nullAsUndefined(z.string()),
    title: nullAsUndefined(z.string().trim().pipe(boundedText(0, 200)))
      .transform((text) => text || undefined)
      .meta({
        maxLength: 200,
        description: 'Without one a title is made of the first message, unless `autotitle` is false.',
      }),
    autotitle: trueByDefault,
    title_llm_profile: nullAsUndefined(z.string()),
  })
  .superRefine((request, ctx) => {
    const agents = [request.agent, request.agent_settings, request.agent_profile_id]
    if (agents.filter((one) => one !== undefined).length === 1) return
    ctx.addIssue({
      code: 'custom',
      message: 'Exactly one of agent, agent_settings and agent_profile_id is required',
    })
  })
  .meta({ id: 'StartConversationRequest' })
export type StartConversationRequest = z.output<typeof startConversationRequest>

const id = z.string().meta({ format: 'uuid' })

const amounts = z.record(z.enum(['cost', 'tokens', 'steps', 'seconds']), z.number())
const limitUsage = z.object({
  used: amounts,
  limits: z.partialRecord(amounts.keyType, z.number()),
})

/** Whether the place where a conversation runs is there. */
export const runtimeInfo = component('ConversationRuntimeInfo', {
  runtime_status: z.enum(['available', 'starting', 'missing', 'ownership_lost', 'error']),
  can_resume: z.boolean(),
  runtime_error: z.object({ code: z.string(), message: z.string() }).nullable(),
})

/** A conversation as clients see it; null members are present. Secrets are null. */
export const conversationInfo = looseComponent('ConversationInfo', {
  id,
  workspace,
  persistence_dir: z.string().nullable(),
  max_iterations: z.int(),
  stuck_detection: z.boolean(),
  execution_status: executionStatus,
  confirmation_policy: jsonObject,
  security_analyzer: jsonObject.nullable(),
  activated_knowledge_skills: z.array(z.string()),
  invoked_skills: z.array(z.string()),
  blocked_actions: z.record(z.string(), z.string()),
  blocked_messages: z.record(z.string(), z.string()),
  last_user_message_id: z.string().nullable(),
  leaf_event_id: z.string().nullable(),
  stats: jsonObject,
  secret_registry: jsonObject,
  agent_state: jsonObject,
  hook_config: jsonObject.nullable(),
  title: z.string().nullable(),
  metrics: jsonObject.nullable(),
  created_at: timestamp,
  updated_at: timestamp,
  forked_from_conversation_id: id.nullable(),
  forked_from_event_id: z.string().nullable(),
  parent_conversation_id: id.nullable(),
  sub_conversation_ids: z.array(id),
  tags: z.record(z.string(), z.string()),
  current_model_id: z.string().nullable(),
  available_models: z.array(z.unknown()),
  supports_runtime_model_switch: z.boolean(),
  launched_agent_profile: jsonObject.nullable(),
  agent: jsonObject,
  client_tools: z.array(jsonObject),
  command_rules: z
    .array(commandRule)
    .optional()
    .meta({ description: 'Only of a conversation that has some.' }),
  command_sandbox: z
    .object({ mode: commandSandboxMode, network: z.boolean() })
    .optional()
    .meta({ description: 'Only of a conversation that was created with one.' }),
  plan_mode: z
    .boolean()
    .optional()
    .meta({ description: 'Only of a conversation that is or was in plan mode.' }),
  limits: z
    .object({ run: limitUsage, conversation: limitUsage })
    .optional()
    .meta({ description: 'Only of a conversation with limits: what is used, and the limits.' }),
  runtime_info: runtimeInfo,
})
export type ConversationInfo = z.infer<typeof conversationInfo>

export const conversationSortOrder = z
  .enum(['CREATED_AT', 'UPDATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT_DESC'])
  .meta({ id: 'ConversationSortOrder' })

/** A tag filter: by name, or by name and value. */
const tagFilter = z
  .string()
  .transform((text, ctx): { readonly name: string; readonly value?: string } => {
    const [, name = '', value] = /^([^:=]*)(?:[:=](.*))?$/s.exec(text) ?? []
    const result = tagName.safeParse(name)
    if (!result.success)
      ctx.addIssue({ code: 'custom', message: 'A tag is asked for as name or name:value', input: text })
    return value === undefined ? { name } : { name, value }
  })
  .meta({ pattern: '^[a-z0-9]+(?:[:=]|$)' })

/** Which conversations are listed and counted. */
export const conversationFilter = z.object({
  status: emptyAsUndefined(executionStatus).meta({ description: 'Keep only conversations of this status.' }),
  tag: z.array(tagFilter).optional().meta({
    description: 'Keep only conversations with this tag: name, or name:value. Repeated, all must be there.',
  }),
})

export const conversationSearchQuery = conversationFilter.extend({
  ...pageQuery.shape,
  sort_order: conversationSortOrder.default('CREATED_AT_DESC'),
})

/**
 * What may be changed of a conversation; what is not given stays. `tags` replaces the whole map,
 * `command_rules` the whole list, each of `limits.run` and `limits.conversation` all limits of that scope.
 */
export const patchConversationRequest = component('UpdateConversationRequest', {
  title: nullAsUndefined(trimmedTitle),
  tags: nullAsUndefined(tags),
  limits: nullAsUndefined(conversationLimits),
  command_rules: nullAsUndefined(commandRules),
  plan_mode: nullAsUndefined(z.boolean()).meta({
    description: 'False accepts the plan: the model is told, and the next run carries it out.',
  }),
})

/** The answer of the user to actions that wait. A refusal reaches the model with its reason. */
export const confirmationResponseRequest = component('ConfirmationResponseRequest', {
  accept: z.boolean(),
  reason: z.string().default('User rejected the action'),
  action_ids: nullAsUndefined(z.array(z.string()).min(1).max(1_000)).meta({
    description:
      'Ids of the actions that the answer is for, as they were shown. When others wait, or none, nothing is answered (409). Without them the answer is for all that wait.',
  }),
  actions_digest: nullAsUndefined(z.string().regex(/^sha256:[0-9a-f]{64}$/)).meta({
    description:
      'Digest of the actions as they were shown: sha256: and the SHA-256, in hexadecimal digits, of the canonical JSON (RFC 8785) of an array with id, tool_name, tool_call, action and security_risk of each ActionEvent that waits, in the order of the log. When anything else waits, nothing is answered (409). Without it the content is not compared.',
  }),
})

/** Secrets by name; one that is there already is replaced, the others stay. */
export const updateSecretsRequest = component('UpdateSecretsRequest', {
  secrets: z.record(z.string(), secretSource),
})

export const setConfirmationPolicyRequest = component('SetConfirmationPolicyRequest', {
  policy: confirmationPolicy,
})

/** Null takes the analyzer away; the member itself is required. */
export const setSecurityAnalyzerRequest = component('SetSecurityAnalyzerRequest', {
  security_analyzer: securityAnalyzer.nullable(),
})

export const askAgentRequest = component('AskAgentRequest', { question: z.string() })

/** A text of the agent; empty when there is none. */
export const agentResponse = component('AgentResponse', { response: z.string() })

/**
 * Title and extent of a copy; the body is optional. An empty title means none; `tags` default to those of the
 * source; `from_event_id` is the last event copied.
 */
export const forkConversationRequest = component('ForkConversationRequest', {
  id: nullAsUndefined(uuid),
  title: nullAsUndefined(boundedText(0, 200)).transform((text) => text || undefined),
  tags: nullAsUndefined(tags),
  reset_metrics: z.boolean().default(true),
  from_event_id: nullAsUndefined(z.string()),
})

/** Null, or no member, leads before the first event. */
export const navigateConversationRequest = component('NavigateConversationRequest', {
  event_id: nullAsUndefined(z.string().min(1)),
})

/** What a model says of a goal: how near it is (0 to 1), whether it is reached, and what is missing. */
export const goalVerdict = z.object({
  score: z.number().min(0).max(1),
  complete: z.boolean(),
  missing: z.string(),
})
export type GoalVerdict = z.output<typeof goalVerdict>

/** The value of a state update of key `goal`. `iteration` counts the rounds that were judged. */
export const goalState = component('GoalState', {
  active: z.boolean(),
  status: z.enum(['running', 'complete', 'capped', 'interrupted']),
  iteration: z.int().min(0),
  max_iterations: z.int().min(1),
  objective: z.string(),
  verdict: goalVerdict.nullable(),
})
export type GoalState = z.output<typeof goalState>

/** The event format of a conversation: the closed description, or newer members and kinds too. */
export const wireVersion = z.enum(['seed', 'current']).meta({ id: 'Wire' })
export type WireVersion = z.infer<typeof wireVersion>

/** `llm` writes the title instead of the model of the agent. The body may be left out. */
export const generateTitleRequest = component('GenerateTitleRequest', {
  max_length: z.int().min(1).max(200).default(50),
  llm: nullAsUndefined(llm),
})

export const switchLlmRequest = component('SwitchLLMRequest', { llm })

/** The first line of an import, when it has no `kind`: which conversation the events are for. */
export const importMeta = strictComponent('ImportMeta', {
  conversation_id: nullAsUndefined(uuid),
  title: nullAsUndefined(title),
  tags: nullAsUndefined(tags),
})
export type ImportMeta = z.output<typeof importMeta>

/** `imported` counts the events of the stream that the log has now. */
export const importResult = component('ImportResult', { conversation_id: id, imported: z.int() })

/** `uptime` and `idle_time` are whole seconds; `version` is that of the contract. */
export const serverInfo = looseComponent('ServerInfo', {
  uptime: z.int(),
  instance_id: z.string().meta({ description: 'Differs for each start of the server.' }),
  idle_time: z.int(),
  title: z.string(),
  version: z.string(),
  sdk_version: z.string(),
  tools_version: z.string(),
  workspace_version: z.string(),
  slipway_version: z.string(),
  build_git_sha: z.string(),
  build_git_ref: z.string(),
  python_version: z.string(),
  usable_tools: z.array(z.string()),
  runtime_idle_timeout_seconds: z.number().nullable(),
  conversation_runtime: z.string().meta({ description: 'Conversations run in this server: local.' }),
  app_backend_ingress_url: z.string().nullable(),
  capabilities: z.array(z.string()),
  max_foreground_terminal_timeout_seconds: z.number().nullable(),
  synchronous: z
    .string()
    .meta({ description: 'How writes reach the disk: FULL is durable before acknowledged.' }),
  docs: z.string(),
  redoc: z.string(),
  export_public_key: z
    .string()
    .nullable()
    .meta({ description: 'Ed25519, base64: signs verifiable exports. Null before the first one.' }),
})
